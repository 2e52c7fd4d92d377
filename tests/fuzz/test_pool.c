/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two members die in the middle of their work. What they leave in the pool's file is damaged, and damaged
 * again while another process opens the device, registers memory, connects to the dead members and to itself,
 * sends, and recovers the dead. That process may fail, but must not crash, and must end. Argument: how many
 * tries. SEED= repeats one.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../abi/pool.h"
#include "../random.h"
#include "../verbs/rig.h"
#include "damage.h"
#include "pool/format.h"

/* after which a try counts as one that does not end. Each request to a helper that never answers waits for a
 * second */
#define SECONDS	  100u
#define REGION	  (8 * 4096u)
#define VICTIMS	  2
#define WORKERS	  32
#define MINUTE_NS 60000000000ull
#define POLL_US	  20000

/* What the two dead members and the tries share. */
static struct shared {
	uint32_t victim_qpn[VICTIMS], victim_rkey[VICTIMS][2], own_qpn;
	uint64_t victim_at[VICTIMS][2];
	/* how many tries, opened devices, requests that were done and that failed */
	_Atomic uint64_t tries, opened, done, failed;
} * shared;

/* A damaged page may name any process as a member: that one's memory must not be reached. The error is not
 * ESRCH, after which that one's helper would be asked, for a second each time. */
static void forbid_reaching(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {COUNT(filter), filter};

	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* ---- The process that dies ---- */

static void die(int i)
{
	struct rig rig;
	struct ibv_mr *mr[2];

	rig_open(&rig);
	mr[0] = rig_region(rig.pd, REGION);
	mr[1] = ibv_reg_mr(rig.pd, (uint8_t *)rig_pages(REGION) + 100, REGION - 200, RIG_ALL);
	rig_connect(&rig, &(struct rig_wish){0});
	for (uint64_t k = 0; k < 4; k++) {
		rig_receive(rig.qp[0], k, mr[0], mr[0]->addr, 4096);
		rig_receive(rig.qp[1], k, mr[1], mr[1]->addr, 4096);
	}
	rig_send(rig.qp[1], 1, mr[1], mr[1]->addr, 64);
	rig_next(rig.cq[1]);
	shared->victim_qpn[i] = rig.qp[0]->qp_num;
	for (int k = 0; k < 2; k++) {
		shared->victim_rkey[i][k] = mr[k]->rkey;
		shared->victim_at[i][k] = (uintptr_t)mr[k]->addr;
	}
	kill(getpid(), SIGKILL);
}

/* Holds the members' locks as the kernel does for processes that live: so no process recovers them. */
static int hold(const char *path, int members)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_start = (off_t)WEFT_OFF_MEMBERS, .l_len = members};
	int fd = open(path, O_RDWR | O_CLOEXEC);

	assert_true(fd >= 0 && !fcntl(fd, F_OFD_SETLK, &lock));
	return fd;
}

static void make_victims(const char *path)
{
	int fd = -1;

	for (int i = 0; i < VICTIMS; i++) {
		pid_t pid = fork();

		if (!pid)
			die(i);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		/* so that the next process does not recover this one */
		fd = i ? fd : hold(path, 1);
	}
	close(fd);
	damage_keep(path);
}

/* ---- The processes that live on ---- */

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr init = rig_init(cq, cq);

	return ibv_create_qp(pd, &init);
}

static bool connect_to(struct ibv_qp *qp, uint32_t qpn)
{
	static struct ibv_qp_attr attr; /* kept, as asking for the own address takes long */

	if (!attr.port_num)
		attr = rig_attr(qp->context, IBV_QPS_INIT, 0);
	attr.dest_qp_num = qpn;
	attr.timeout = 1;
	attr.retry_cnt = attr.rnr_retry = 0;
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		attr.qp_state = s;
		if (ibv_modify_qp(qp, &attr, rig_mask(IBV_QPT_RC, s)))
			return false;
	}
	return true;
}

static void poll_some(struct ibv_cq *cq)
{
	struct ibv_wc wc;

	for (int i = 0; i < 200; i++)
		if (ibv_poll_cq(cq, 1, &wc) > 0) {
			atomic_fetch_add(wc.status ? &shared->failed : &shared->done, 1);
			if (wc.status)
				break;
		}
}

static void talk_to_victim(struct ibv_qp *qp, struct ibv_cq *cq, struct ibv_mr *mr, int i)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						     IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};

	for (size_t k = 0; k < COUNT(opcodes); k++)
		for (int r = 0; r < 2; r++) {
			if (!connect_to(qp, shared->victim_qpn[i]))
				return;
			rig_rdma(
				qp, opcodes[k], k, mr, mr->addr, k == 3 ? 8 : 4096,
				/* an address in the pool, as atomics on others would wait for a dead
				  * helper */
				k == 3 ? (shared->victim_at[i][r] & ~4095ull) + 8192
				       : shared->victim_at[i][r],
				shared->victim_rkey[i][r]);
			poll_some(cq);
			rig_modify(qp, IBV_QPS_RESET, 0);
		}
}

static void talk_to_self(struct ibv_qp *qp[2], struct ibv_cq *cq, struct ibv_mr *mr)
{
	if (!connect_to(qp[0], qp[1]->qp_num) || !connect_to(qp[1], qp[0]->qp_num))
		return;
	rig_receive(qp[1], 7, mr, mr->addr, 4096);
	rig_send(qp[0], 8, mr, mr->addr, 64);
	rig_rdma(qp[0], IBV_WR_RDMA_WRITE, 9, mr, mr->addr, 4096, (uintptr_t)mr->addr + 8192,
		 mr->rkey);
	poll_some(cq);
}

static int live(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
	struct ibv_qp *qp[2] = {NULL};
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;

	if (!context)
		return 0; /* the device was refused, with its reason */
	atomic_fetch_add(&shared->opened, 1);
	pd = ibv_alloc_pd(context);
	cq = pd ? ibv_create_cq(context, 4 * RIG_DEPTH, NULL, NULL, 0) : NULL;
	mr = cq ? ibv_reg_mr(pd, rig_pages(REGION), REGION, RIG_ALL) : NULL;
	for (int i = 0; mr && i < 2; i++)
		qp[i] = make_qp(pd, cq);
	if (qp[0] && qp[1]) {
		shared->own_qpn = qp[0]->qp_num;
		talk_to_victim(qp[0], cq, mr, 0);
		talk_to_victim(qp[0], cq, mr, 1);
		talk_to_self(qp, cq, mr);
	}
	ibv_close_device(context);
	return 0;
}

static int try_once(const char *path, uint64_t random)
{
	bool holds = splitmix64(&random) % 2;
	int fd, status;
	pid_t pid;

	damage_restore(path);
	damage(path, &random, splitmix64(&random) % 4);
	fd = holds ? hold(path, VICTIMS) : -1;
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		for (int s = 1; s < 32; s++)
			signal(s, SIG_DFL);
		if (!freopen("/dev/null", "w", stderr))
			_exit(1);
		forbid_reaching();
		alarm(SECONDS);
		_exit(live());
	}
	usleep((useconds_t)(splitmix64(&random) % 4000));
	damage(path, &random, true);
	usleep((useconds_t)(splitmix64(&random) % 2000));
	if (fd >= 0)
		close(fd);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* On the unharmed file requests succeed: otherwise the tries would show little. */
static bool reaches_victims(const char *path)
{
	uint64_t before = shared->done;
	int fd, status;

	damage_restore(path);
	fd = hold(path, VICTIMS);
	if (!fork()) {
		forbid_reaching();
		_exit(live());
	}
	wait(&status);
	close(fd);
	printf("unharmed: %lu requests done\n", (unsigned long)(shared->done - before));
	return !status && shared->done - before > 8;
}

/* Makes some of the tries, on a file of its own. Returns whether one failed. */
static int work(const char *path, uint64_t seed, uint64_t tries)
{
	char own[256];
	int status = 0;

	snprintf(own, sizeof(own), "%s-%lu", path, (unsigned long)seed % WORKERS);
	setenv("WEFT_POOL", own, 1);
	for (uint64_t i = 0; i < tries && !status; i++, seed += WORKERS) {
		status = try_once(own, seed);
		atomic_fetch_add(&shared->tries, 1);
		if (!status)
			continue;
		printf("SEED=%lu: %s %d\n", (unsigned long)seed,
		       WIFSIGNALED(status) ? "signal" : "exit code",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		damage_tell();
	}
	unlink(own);
	return status != 0;
}

static void tell(uint64_t seed, unsigned int failed)
{
	printf("%lu tries from SEED=%lu, %u failed; %lu opened, %lu requests done, %lu failed\n",
	       (unsigned long)shared->tries, (unsigned long)seed, failed,
	       (unsigned long)shared->opened, (unsigned long)shared->done,
	       (unsigned long)shared->failed);
}

/* Returns how many have failed. Prints each minute how far the tries are, so that a run that is cut short has
 * figures, too. */
static unsigned int await_workers(uint64_t seed)
{
	uint64_t told_ns = rig_now_ns();
	unsigned int failed = 0;
	int status, left = WORKERS;

	while (left) {
		if (rig_now_ns() - told_ns >= MINUTE_NS) {
			told_ns += MINUTE_NS;
			tell(seed, failed);
		}
		if (waitpid(-1, &status, WNOHANG) > 0) {
			left--;
			failed += status != 0;
		} else {
			usleep(POLL_US);
		}
	}
	return failed;
}

int main(int argc, char **argv)
{
	uint64_t tries = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000;
	const char *given = getenv("SEED"), *path;
	uint64_t seed = given ? strtoull(given, NULL, 0) : rig_now_ns();
	unsigned int failed = 0;
	int status, fd;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (make_pool(NULL))
		return 1;
	path = getenv("WEFT_POOL");
	if (!path)
		return 1;
	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	make_victims(path);
	damage_restore(path);
	/* one run on the unharmed file, to learn this process's queue pair number */
	fd = hold(path, VICTIMS);
	if (!fork())
		_exit(live());
	wait(&status);
	close(fd);
	damage_connect(shared->own_qpn, VICTIMS);
	assert_true(reaches_victims(path));
	/* several at once: most of the time they wait for something that does not answer */
	for (uint64_t w = 0; w < WORKERS; w++)
		if (!fork())
			_exit(work(path, seed + w, (tries + WORKERS - 1) / WORKERS));
	failed = await_workers(seed);
	tell(seed, failed);
	remove_pool(NULL);
	return failed > 0 || !shared->done;
}
