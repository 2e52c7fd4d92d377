/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Verbs between two processes, from memory of the host and of a GPU to the same, and to that of another GPU, for each size beside
 * CUDA's own copy between such memory, which is made just before:
 *
 *   gpu BYTES,BYTES… MILLISECONDS
 *
 * Prints JSON, an object a line: first of the machine, then for each verb, from, to and size what perftest tells. The limit
 * between memory of the host on both sides is memcpy. Of READ `from` is the requester's side still, and the bytes go the other
 * way; atomics change 8 bytes at `to`, and have no limit of CUDA's.
 */
#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cuda/driver.h"
#include "end.h"

#define OUTSTANDING 16u
#define LEAST	    8u
#define MOST	    20000u
#define AHEAD	    64u /* receives that the server has posted */
#define SIZES	    32
#define ALL                                                                                        \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

enum kind { HOST, GPU, OTHER, KINDS };
static const char *const kind_names[KINDS] = {"host", "gpu", "other gpu"};

/* Memory of a kind that one process has registered. */
struct memory {
	uint8_t *at; /* NULL: there is none */
	uint32_t lkey, rkey;
};

static struct shared {
	struct end_address address[2];
	struct memory memory[2][KINDS];
	_Atomic uint32_t ready[2], done;
	/* SEND: as many receives as this are to be posted in all, of that kind and size */
	_Atomic uint64_t wanted;
	_Atomic uint32_t kind, bytes;
} * shared;

static struct weft_cuda cu;
static bool is_standin;
static size_t most;
static double budget_s;
static struct end end;
static struct memory *ours;
static int devices;
static weft_cu_context context, other_context;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void await(_Atomic uint32_t *word, uint32_t value)
{
	while (atomic_load(word) < value)
		sched_yield();
}

#define CUDA(call) end_require(!cu.call, #call)

/* ---- Memory ---- */

static _Noreturn void give_up(const char *why)
{
	fprintf(stderr, "%s; weft doctor says more\n", why);
	exit(1);
}

static void load_cuda(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);

	if (!library)
		give_up(dlerror());
#define FIND(name, args) *(void **)&cu.name = dlsym(library, #name);
	WEFT_CUDA_CALLS(FIND)
	WEFT_CUDA_OLD_CALLS(FIND)
#undef FIND
	is_standin = dlsym(library, "weft_soft_gpu_hold");
	if (!cu.cuInit || !cu.cuDeviceGetCount || cu.cuInit(0) || cu.cuDeviceGetCount(&devices) ||
	    !devices)
		give_up("libcuda.so.1 tells of no GPU");
}

static void add(enum kind kind, uint8_t *at)
{
	struct ibv_mr *mr = ibv_reg_mr(end.pd, at, most, ALL);

	if (!mr)
		give_up("memory of a GPU cannot be registered");
	ours[kind] = (struct memory){at, mr->lkey, mr->rkey};
}

static uint8_t *allocate(weft_cu_context in)
{
	weft_cu_ptr at;
	weft_cu_context popped;

	CUDA(cuCtxPushCurrent_v2(in));
	CUDA(cuMemAlloc_v2(&at, most));
	CUDA(cuCtxPopCurrent_v2(&popped));
	return (uint8_t *)(uintptr_t)at;
}

/* Memory of the host is registered before there is a libcuda, so that it lies in the pool. */
static void open_all(unsigned int side)
{
	ours = shared->memory[side];
	end_open(&end, most, true);
	ours[HOST] = (struct memory){end.memory, end.mr->lkey, end.mr->rkey};
	load_cuda();
	if (devices > 1)
		CUDA(cuCtxCreate_v2(&other_context, 0, 1));
	CUDA(cuCtxCreate_v2(&context, 0, 0));
	add(GPU, allocate(context));
	if (devices > 1)
		add(OTHER, allocate(other_context));
	shared->address[side] = end_address(&end);
	atomic_store(&shared->ready[side], 1);
	await(&shared->ready[!side], 1);
	end_connect(&end, &shared->address[!side]);
	atomic_store(&shared->ready[side], 2);
	await(&shared->ready[!side], 2);
}

/* ---- The server ---- */

static _Noreturn void serve(void)
{
	uint64_t posted = 0;
	struct ibv_wc wc;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	open_all(1);
	while (!atomic_load(&shared->done)) {
		int n = ibv_poll_cq(end.cq, 1, &wc);

		end_require(n >= 0 && (!n || !wc.status), "receiving");
		/* acquire: of the kind and the size, which the client stores before */
		while (posted < atomic_load_explicit(&shared->wanted, memory_order_acquire)) {
			const struct memory *m = &ours[atomic_load(&shared->kind)];
			struct ibv_sge sge = {(uintptr_t)m->at, atomic_load(&shared->bytes),
					      m->lkey};
			struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

			end_require(!ibv_post_recv(end.qp, &wr, &bad), "ibv_post_recv");
			posted++;
		}
		if (!n)
			sched_yield();
	}
	_exit(0);
}

/* ---- Requests ---- */

struct task {
	enum ibv_wr_opcode opcode;
	const char *name;
};

static const struct task tasks[] = {{IBV_WR_RDMA_WRITE, "write"},
				    {IBV_WR_RDMA_READ, "read"},
				    {IBV_WR_SEND, "send"},
				    {IBV_WR_ATOMIC_FETCH_AND_ADD, "atomic"}};

static uint64_t sent;

static void want_receives(enum kind to, uint32_t bytes)
{
	atomic_store(&shared->kind, to);
	atomic_store(&shared->bytes, bytes);
	/* release: pairs with the acquire in serve */
	atomic_store_explicit(&shared->wanted, sent + AHEAD, memory_order_release);
}

static void post(const struct task *task, enum kind from, enum kind to, uint32_t bytes)
{
	const struct memory *there = &shared->memory[1][to];
	struct ibv_sge sge = {(uintptr_t)ours[from].at, bytes, ours[from].lkey};
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = task->opcode}, *bad;

	if (task->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)there->at;
		wr.wr.atomic.rkey = there->rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)there->at;
		wr.wr.rdma.rkey = there->rkey;
	}
	if (task->opcode == IBV_WR_SEND) {
		sent++;
		want_receives(to, bytes);
	}
	end_require(!ibv_post_send(end.qp, &wr, &bad), "ibv_post_send");
}

/* The receives that the server has posted yet, for another kind of memory, are used up. */
static void drain(enum kind from, enum kind to)
{
	for (uint64_t left = atomic_load(&shared->wanted) - sent; left; left--) {
		struct ibv_sge sge = {(uintptr_t)ours[from].at, 0, ours[from].lkey};
		struct ibv_send_wr wr = {.sg_list = &sge, .opcode = IBV_WR_SEND}, *bad;

		sent++;
		end_require(!ibv_post_send(end.qp, &wr, &bad), "ibv_post_send");
		end_complete(&end);
	}
}

/* ---- Figures ---- */

struct figures {
	unsigned int n;
	double least, most, typical, average, deviation, p99, p999; /* us */
	double mib_s, m_s;
};

static int by_size(const void *a, const void *b)
{
	double one = *(const double *)a, two = *(const double *)b;

	return (one > two) - (one < two);
}

static double times[MOST];

static void sum_up(struct figures *f, unsigned int n)
{
	double sum = 0, squares = 0;

	qsort(times, n, sizeof(*times), by_size);
	for (unsigned int i = 0; i < n; i++)
		sum += times[i];
	f->average = sum / n;
	for (unsigned int i = 0; i < n; i++)
		squares += (times[i] - f->average) * (times[i] - f->average);
	f->deviation = sqrt(squares / n);
	f->n = n;
	f->least = times[0];
	f->most = times[n - 1];
	f->typical = times[n / 2];
	f->p99 = times[(uint64_t)n * 99 / 100];
	f->p999 = times[(uint64_t)n * 999 / 1000];
}

static bool goes_on(double begun_us, unsigned int n)
{
	return n < MOST && (n < LEAST || now_us() < begun_us + budget_s * 1e6);
}

static struct figures measure(const struct task *task, enum kind from, enum kind to, uint32_t bytes)
{
	struct figures f = {0};
	double begun = now_us(), at;
	unsigned int n = 0, ended = 0, posted = 0;

	for (; goes_on(begun, n); n++) {
		at = now_us();
		post(task, from, to, bytes);
		end_complete(&end);
		times[n] = now_us() - at;
	}
	sum_up(&f, n);
	for (begun = now_us(); goes_on(begun, ended); ended++) {
		for (; posted - ended < OUTSTANDING; posted++)
			post(task, from, to, bytes);
		end_complete(&end);
	}
	for (; ended < posted; ended++)
		end_complete(&end);
	f.m_s = ended / (now_us() - begun);
	f.mib_s = f.m_s * 1e6 * bytes / (1 << 20);
	f.n += ended;
	return f;
}

/* Memory of this process alone, of each kind, for CUDA's own copies. */
static uint8_t *bare[2][KINDS];

static struct figures copy(enum kind from, enum kind to, uint32_t bytes)
{
	double begun = now_us(), at;
	struct figures f = {0};
	weft_cu_stream stream;
	unsigned int n = 0;

	CUDA(cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING));
	for (; goes_on(begun, n); n++) {
		at = now_us();
		if (from == HOST && to == HOST) {
			memcpy(bare[1][to], bare[0][from], bytes);
		} else {
			CUDA(cuMemcpyAsync((uintptr_t)bare[1][to], (uintptr_t)bare[0][from], bytes,
					   stream));
			CUDA(cuStreamSynchronize(stream));
		}
		times[n] = now_us() - at;
	}
	CUDA(cuStreamDestroy_v2(stream));
	sum_up(&f, n);
	f.mib_s = bytes / f.typical * 1e6 / (1 << 20);
	return f;
}

static void open_bare(void)
{
	for (int i = 0; i < 2; i++) {
		CUDA(cuMemAllocHost_v2((void **)&bare[i][HOST], most));
		memset(bare[i][HOST], 1, most);
		bare[i][GPU] = allocate(context);
		bare[i][OTHER] = devices > 1 ? allocate(other_context) : NULL;
	}
	/* either may refuse: the copy then goes by way of the host, as CUDA does it */
	if (devices > 1)
		cu.cuCtxEnablePeerAccess(other_context, 0);
}

static void tell(const struct task *task, enum kind from, enum kind to, uint32_t bytes)
{
	bool reads = task->opcode == IBV_WR_RDMA_READ;
	bool limited = task->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct figures limit = {0}, f;

	if (limited)
		limit = reads ? copy(to, from, bytes) : copy(from, to, bytes);
	f = measure(task, from, to, bytes);
	printf("{\"verb\":\"%s\",\"from\":\"%s\",\"to\":\"%s\",\"size\":%u,\"iterations\":%u,"
	       "\"t_min\":%.2f,\"t_max\":%.2f,\"t_typical\":%.2f,\"t_avg\":%.2f,\"t_stdev\":%.2f,"
	       "\"t_99\":%.2f,\"t_999\":%.2f,\"mib_s\":%.2f,\"mpps\":%.6f",
	       task->name, kind_names[from], kind_names[to], bytes, f.n, f.least, f.most, f.typical,
	       f.average, f.deviation, f.p99, f.p999, f.mib_s, f.m_s);
	if (limited)
		printf(",\"limit\":\"%s\",\"limit_us\":%.2f,\"limit_mib_s\":%.2f",
		       from == HOST && to == HOST ? "memcpy" : "CUDA", limit.typical, limit.mib_s);
	printf("}\n");
	fflush(stdout);
	if (task->opcode == IBV_WR_SEND)
		drain(from, to);
}

static void tell_machine(void)
{
	char name[100];
	int version = 0;

	CUDA(cuDeviceGetName(name, sizeof(name), 0));
	cu.cuDriverGetVersion(&version);
	printf("{\"gpu\":\"%s\",\"gpus\":%d,\"cuda\":%d,\"standin\":%s}\n", name, devices, version,
	       is_standin ? "true" : "false");
	fflush(stdout);
}

/* A client without its server waits for nothing. */
static void server_ended(int signal)
{
	if (!atomic_load(&shared->done))
		_exit(1);
}

/* The two processes and the threads of their drivers get all processors that there are, whatever `weft bench` has. */
static void spread(void)
{
	cpu_set_t all;

	memset(&all, 0xff, sizeof(all));
	sched_setaffinity(0, sizeof(all), &all);
}

int main(int argc, char **argv)
{
	uint32_t sizes[SIZES], n = 0;
	pid_t server;

	if (argc != 3)
		return 2;
	spread();
	for (char *at = argv[1]; *at && n < SIZES; at += *at == ',') {
		sizes[n] = (uint32_t)strtoul(at, &at, 10);
		most = sizes[n] > most ? sizes[n] : most;
		n++;
	}
	budget_s = strtod(argv[2], NULL) / 1e3;
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	end_require(shared != MAP_FAILED && most, "memory");
	signal(SIGCHLD, server_ended);
	server = fork();
	if (!server)
		serve();
	open_all(0);
	open_bare();
	tell_machine();
	for (size_t t = 0; t < sizeof(tasks) / sizeof(*tasks); t++)
		for (enum kind from = HOST; from <= GPU; from++)
			for (enum kind to = HOST; to < (devices > 1 ? KINDS : OTHER); to++)
				for (uint32_t i = 0; i < n; i++)
					if (tasks[t].opcode != IBV_WR_ATOMIC_FETCH_AND_ADD ||
					    sizes[i] == 8)
						tell(&tasks[t], from, to, sizes[i]);
	atomic_store(&shared->done, 1);
	waitpid(server, NULL, 0);
	return 0;
}
