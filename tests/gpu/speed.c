/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Figures of WRITE and READ between memory of two processes, beside CUDA's own copy of the same size in the same run:
 * speed [MOST]. Bytes are compared once for each size. On the stand-in the figures mean nothing.
 */
#include "place.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "../abi/pool.h"

#define MOST	    (64ul << 20)
#define OUTSTANDING 16
#define PAIRS	    8 /* queue pairs of small WRITEs, */
#define EACH	    8 /* as many outstanding on each */
#define BUDGET_NS   150000000ull

/* Memory of one process: pooled, and of a GPU. The server's GPU is the last one that there is. */
struct side {
	struct rig rig;
	struct place place[2];
	struct ibv_qp *more[PAIRS];
};

static struct shared {
	uint32_t qpn[2], more[2][PAIRS];
	uint64_t at[2];
	uint32_t rkey[2];
	_Atomic uint32_t ready[2], done;
} * shared;
static size_t most = MOST;

static void side_open(struct side *s, bool server)
{
	int devices;

	rig_open(&s->rig);
	place_begin(&s->place[0], PLACE_POOLED, most);
	memset(s->place[0].at, 1, most);
	place_register(&s->place[0], s->rig.pd);
	if (!gpu_load())
		exit(3);
	gpu_context();
	GPU_OK(cu.cuDeviceGetCount(&devices));
	place_begin(&s->place[1], server && devices > 1 ? PLACE_OTHER : PLACE_GPU, most);
	place_register(&s->place[1], s->rig.pd);
}

static void make_more(struct side *s, unsigned int side)
{
	for (unsigned int i = 0; i < PAIRS; i++) {
		struct ibv_qp_init_attr init = rig_init(s->rig.cq[0], s->rig.cq[1]);

		s->more[i] = ibv_create_qp(s->rig.pd, &init);
		if (!s->more[i])
			exit(4);
		shared->more[side][i] = s->more[i]->qp_num;
	}
}

static void connect_more(struct side *s, unsigned int side)
{
	for (unsigned int i = 0; i < PAIRS; i++)
		rig_modify(s->more[i], IBV_QPS_RTS, shared->more[!side][i]);
}

static void serve(void)
{
	struct side s;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	side_open(&s, true);
	for (int i = 0; i < 2; i++) {
		shared->at[i] = (uintptr_t)s.place[i].at;
		shared->rkey[i] = s.place[i].mr->rkey;
	}
	shared->qpn[1] = s.rig.qp[0]->qp_num;
	make_more(&s, 1);
	atomic_store(&shared->ready[1], 1);
	rig_await(&shared->ready[0], 1);
	connect_more(&s, 1);
	rig_modify(s.rig.qp[0], IBV_QPS_RTS, shared->qpn[0]);
	atomic_store(&shared->ready[1], 2);
	rig_await(&shared->done, 1);
	_exit(0);
}

static int by_size(const void *a, const void *b)
{
	double one = *(const double *)a, other = *(const double *)b;

	return (one > other) - (one < other);
}

/* The median microseconds of a request that is alone, and of posting it; GB/s and requests a second of several at a time. */
struct figures {
	double us, posted_us, gbs, rate;
};

static void post(struct side *s, enum ibv_wr_opcode opcode, unsigned int from, unsigned int to,
		 uint32_t bytes)
{
	if (rig_rdma(s->rig.qp[0], opcode, 1, s->place[from].mr, s->place[from].at, bytes,
		     shared->at[to], shared->rkey[to]))
		exit(4);
}

static void reap(struct side *s)
{
	if (rig_next(s->rig.cq[0]).status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a request failed\n");
		exit(4);
	}
}

static struct figures measure(struct side *s, enum ibv_wr_opcode opcode, unsigned int from,
			      unsigned int to, uint32_t bytes)
{
	static double us[2000], posted[2000];
	struct figures f = {0};
	uint64_t begun, stop = rig_now_ns() + BUDGET_NS;
	unsigned int n = 0, ended = 0, begun_n = 0;

	for (; n < 2000 && (n < 5 || rig_now_ns() < stop); n++) {
		begun = rig_now_ns();
		post(s, opcode, from, to, bytes);
		posted[n] = (double)(rig_now_ns() - begun) / 1e3;
		reap(s);
		us[n] = (double)(rig_now_ns() - begun) / 1e3;
	}
	qsort(us, n, sizeof(*us), by_size);
	qsort(posted, n, sizeof(*posted), by_size);
	f.us = us[n / 2];
	f.posted_us = posted[n / 2];
	begun = rig_now_ns();
	stop = begun + BUDGET_NS;
	while (ended < 8 || rig_now_ns() < stop) {
		for (; begun_n - ended < OUTSTANDING; begun_n++)
			post(s, opcode, from, to, bytes);
		reap(s);
		ended++;
	}
	for (; ended < begun_n; ended++)
		reap(s);
	f.rate = ended / ((double)(rig_now_ns() - begun) / 1e9);
	f.gbs = f.rate * bytes / 1e9;
	return f;
}

/* CUDA's copy between pinned memory and its GPU, or within it: microseconds of copy and wait; GB/s. */
static struct figures cuda_copy(weft_cu_ptr to, weft_cu_ptr from, size_t bytes)
{
	static double us[2000];
	uint64_t begun, stop = rig_now_ns() + BUDGET_NS / 2;
	weft_cu_stream stream;
	struct figures f;
	unsigned int n = 0;

	GPU_OK(cu.cuStreamCreate(&stream, WEFT_CU_STREAM_NON_BLOCKING));
	for (; n < 2000 && (n < 5 || rig_now_ns() < stop); n++) {
		begun = rig_now_ns();
		GPU_OK(cu.cuMemcpyAsync(to, from, bytes, stream));
		GPU_OK(cu.cuStreamSynchronize(stream));
		us[n] = (double)(rig_now_ns() - begun) / 1e3;
	}
	GPU_OK(cu.cuStreamDestroy_v2(stream));
	qsort(us, n, sizeof(*us), by_size);
	f = (struct figures){us[n / 2], 0, (double)bytes / us[n / 2] / 1e3, 0};
	return f;
}

static void check(struct side *s, unsigned int to, uint32_t bytes)
{
	uint8_t *bytes_now = malloc(bytes), *wanted = malloc(bytes);

	for (size_t i = 0; i < bytes; i++)
		wanted[i] = (uint8_t)(i * 7 + i / 251 + bytes);
	for (unsigned int from = 0; from < 2; from++) {
		memset(bytes_now, 0, bytes);
		place_write(&s->place[from], 0, wanted, bytes);
		post(s, IBV_WR_RDMA_WRITE, from, to, bytes);
		reap(s);
		place_write(&s->place[from], 0, bytes_now, bytes);
		post(s, IBV_WR_RDMA_READ, from, to, bytes);
		reap(s);
		place_read(&s->place[from], 0, bytes_now, bytes);
		if (memcmp(bytes_now, wanted, bytes)) {
			fprintf(stderr, "%u bytes differ\n", bytes);
			exit(5);
		}
	}
	free(bytes_now);
	free(wanted);
}

static void line(const char *what, uint32_t bytes, struct figures f, struct figures bare)
{
	printf("%-20s %9u %9.1f %9.1f %8.2f %9.0f | %8.1f %8.2f | %5.2f\n", what, bytes, f.us,
	       f.posted_us, f.gbs, f.rate, bare.us, bare.gbs, bare.gbs ? f.gbs / bare.gbs : 0);
	fflush(stdout);
}

static void tables(struct side *s)
{
	static const char *const name[2] = {"host", "gpu"};
	weft_cu_ptr gpu = (uintptr_t)s->place[1].at;
	struct figures bare;
	weft_cu_ptr other;
	void *pinned;
	char what[64];

	GPU_OK(cu.cuMemAllocHost_v2(&pinned, most));
	GPU_OK(cu.cuMemAlloc_v2(&other, most));
	printf("%-20s %9s %9s %9s %8s %9s | %8s %8s | %s\n", "", "bytes", "us", "post us", "GB/s",
	       "1/s", "cuda us", "GB/s", "ratio");
	for (unsigned int from = 0; from < 2; from++)
		for (unsigned int to = 0; to < 2; to++)
			for (uint32_t bytes = 8; bytes <= most; bytes *= 8) {
				weft_cu_ptr a = from ? gpu : (uintptr_t)pinned,
					    b = to ? other : (uintptr_t)pinned + most / 2;

				if (!from && !to)
					continue;
				check(s, to, bytes);
				bare = cuda_copy(b, a,
						 from && to	     ? bytes
						 : bytes <= most / 2 ? bytes
								     : most / 2);
				snprintf(what, sizeof(what), "WRITE %s to %s", name[from],
					 name[to]);
				line(what, bytes, measure(s, IBV_WR_RDMA_WRITE, from, to, bytes),
				     bare);
				snprintf(what, sizeof(what), "READ %s from %s", name[from],
					 name[to]);
				line(what, bytes, measure(s, IBV_WR_RDMA_READ, from, to, bytes),
				     bare);
			}
}

/* Small WRITEs into the GPU of the other process, by several queue pairs in turn. */
static void many(struct side *s, unsigned int pairs)
{
	uint64_t begun = rig_now_ns(), stop = begun + 4 * BUDGET_NS;
	unsigned int n = 0, ended = 0, most_open = PAIRS * EACH;

	while (ended < most_open || rig_now_ns() < stop) {
		for (; n - ended < most_open; n++)
			if (rig_rdma(s->more[n % pairs], IBV_WR_RDMA_WRITE, 1, s->place[0].mr,
				     s->place[0].at + 8 * (n % 64), 8, shared->at[1] + 8 * (n % 64),
				     shared->rkey[1]))
				exit(4);
		reap(s);
		ended++;
	}
	for (; ended < n; ended++)
		reap(s);
	printf("%u WRITEs of 8 bytes outstanding on %u queue pairs: %.0f a second\n", most_open,
	       pairs, n / ((double)(rig_now_ns() - begun) / 1e9));
}

/* The time to register memory of a GPU, and to post a request that has all of it. */
static void registering(struct side *s)
{
	enum { TIMES = 21 };
	double us[2][TIMES];
	uint64_t begun;

	for (int i = 0; i < TIMES; i++) {
		struct ibv_mr *mr;

		begun = rig_now_ns();
		mr = ibv_reg_mr(s->rig.pd, s->place[1].at, most, RIG_ALL);
		if (!mr)
			exit(4);
		us[0][i] = (double)(rig_now_ns() - begun) / 1e3;
		ibv_dereg_mr(mr);
		begun = rig_now_ns();
		post(s, IBV_WR_RDMA_WRITE, 0, 1, (uint32_t)most);
		us[1][i] = (double)(rig_now_ns() - begun) / 1e3;
		reap(s);
	}
	qsort(us[0], TIMES, sizeof(double), by_size);
	qsort(us[1], TIMES, sizeof(double), by_size);
	printf("registering %zu MiB: %.1f us\nposting %zu MiB: %.1f us\n", most >> 20,
	       us[0][TIMES / 2], most >> 20, us[1][TIMES / 2]);
}

int main(int argc, char **argv)
{
	struct side s;
	void *state = NULL;
	pid_t server;

	if (argc > 1)
		most = strtoul(argv[1], NULL, 0);
	make_pool(&state);
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	server = fork();
	if (!server)
		serve();
	side_open(&s, false);
	shared->qpn[0] = s.rig.qp[0]->qp_num;
	make_more(&s, 0);
	rig_await(&shared->ready[1], 1);
	atomic_store(&shared->ready[0], 1);
	rig_await(&shared->ready[1], 2);
	rig_modify(s.rig.qp[0], IBV_QPS_RTS, shared->qpn[1]);
	connect_more(&s, 0);
	tables(&s);
	for (unsigned int pairs = 1; pairs <= PAIRS; pairs *= PAIRS)
		many(&s, pairs);
	registering(&s);
	atomic_store(&shared->done, 1);
	waitpid(server, NULL, 0);
	remove_pool(&state);
	return 0;
}
