/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Order: a kernel of the owner's polls memory of its GPU, round after round, while another process writes there, from memory of the
 * host and of the GPUs that there are. When the last word of a message has come all of it has; on a real GPU, whose copies
 * tear no line of 128 bytes, each line's last word says that of its line, too. Arguments: the module, and how many rounds of 8 bytes,
 * of 4 KiB and of 16 MiB (on the stand-in of 128 KiB).
 */
#include "child.h"
#include "place.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../abi/pool.h"

#define VALUES	   4u /* rounds have these by turns, each in a source of its own */
#define LINE_WORDS 16u
#define LANES	   32u
#define LOOKS	   512u /* words of a large message that are looked at */
#define HOST_BYTES (16ul << 20)
#define SOFT_BYTES (128ul << 10)

/* Between the two processes; `answer` is the kernel's, in memory that CUDA knows. */
static struct shared {
	_Alignas(4096) uint64_t answer[2][LANES];
	_Alignas(4096) struct {
		uint64_t bytes, rounds, line_words;
	} task;
	_Atomic uint32_t ready[2], asked, done;
	uint32_t qpn[2], rkey;
	uint64_t at;
} * shared;

static const char *image;
static uint64_t rounds[3] = {200, 50, 5};
static bool is_soft;

static size_t large(void)
{
	return is_soft ? SOFT_BYTES : HOST_BYTES;
}

static void meet(struct rig *rig, unsigned int side)
{
	shared->qpn[side] = rig->qp[0]->qp_num;
	atomic_store(&shared->ready[side], 1);
	rig_await(&shared->ready[!side], 1);
	for (enum ibv_qp_state s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
		struct ibv_qp_attr attr = rig_attr(rig->context, s, shared->qpn[!side]);

		/* the stand-in's kernel may take a core from the helper for long */
		attr.timeout = 0;
		WANT(!ibv_modify_qp(rig->qp[0], &attr, rig_mask(IBV_QPT_RC, s)));
	}
	atomic_store(&shared->ready[side], 2);
	rig_await(&shared->ready[!side], 2);
}

/* ---- The owner ---- */

static void watch(weft_cu_function kernel, weft_cu_ptr at)
{
	struct {
		uint64_t words, count, answer, rounds, values, line_words, step;
	} args = {at,
		  shared->task.bytes / 8,
		  (uintptr_t)shared->answer,
		  shared->task.rounds,
		  VALUES,
		  shared->task.line_words,
		  1};
	void *params[] = {&args};

	if (args.count > LOOKS && !args.line_words)
		args.step = args.count / LOOKS;
	memset(shared->answer, 0, sizeof(shared->answer));
	GPU_OK(cu.cuMemsetD8_v2(at, 0, shared->task.bytes));
	GPU_OK(cu.cuCtxSynchronize());
	GPU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	atomic_fetch_add(&shared->ready[1], 1);
	GPU_OK(cu.cuCtxSynchronize());
}

static _Noreturn void own(void)
{
	weft_cu_function kernel;
	struct place memory;
	uint32_t asked = 0;
	struct rig rig;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	rig_open(&rig);
	if (!gpu_load())
		_exit(3);
	gpu_context();
	GPU_OK(cu.cuMemHostRegister_v2(shared, 4096, 0));
	GPU_OK(cu.cuModuleGetFunction(&kernel, gpu_module(image), "watch"));
	place_begin(&memory, PLACE_GPU, HOST_BYTES);
	place_register(&memory, rig.pd);
	shared->at = (uintptr_t)memory.at;
	shared->rkey = memory.mr->rkey;
	meet(&rig, 1);
	for (;;) {
		while (atomic_load(&shared->asked) == asked)
			sched_yield();
		asked++;
		watch(kernel, (uintptr_t)memory.at);
		atomic_store(&shared->done, asked);
	}
}

/* ---- The writer ---- */

struct writer {
	struct rig rig;
	struct place from[VALUES];
};

/* Sources of which all words are 1, 2 and so on. */
static void fill(struct writer *w, enum place_kind kind, size_t bytes)
{
	uint64_t *words = malloc(bytes);

	for (uint64_t v = 0; v < VALUES; v++) {
		place_begin(&w->from[v], kind, bytes);
		if (!w->from[v].at)
			break;
		place_register(&w->from[v], w->rig.pd);
		for (size_t i = 0; i < bytes / 8; i++)
			words[i] = v + 1;
		place_write(&w->from[v], 0, words, bytes);
	}
	free(words);
}

/* The stand-in's warps have one. */
static void await_lanes(uint64_t round)
{
	for (unsigned int i = 0; i < (is_soft ? 1 : LANES); i++)
		while (__atomic_load_n(&shared->answer[0][i], __ATOMIC_ACQUIRE) != round)
			if (is_soft)
				sched_yield();
}

/* So long that the owner's helper, once a second, has looked for what it may let go of: the pages of a region that has ended. It must not
 * wait for the kernel with that, since it has yet to copy what the kernel waits for. */
static void let_helper_look(void)
{
	nanosleep(&(struct timespec){1, 300000000}, NULL);
}

static void run(struct writer *w, size_t bytes, uint64_t times, uint64_t line_words,
		const char *what)
{
	static uint32_t tasks;
	uint32_t ready = atomic_load(&shared->ready[1]);
	uint64_t late = 0;

	shared->task.bytes = bytes;
	shared->task.rounds = times;
	shared->task.line_words = line_words;
	atomic_store(&shared->asked, ++tasks);
	rig_await(&shared->ready[1], ready + 1);
	if (tasks == 3)
		let_helper_look();
	for (uint64_t round = 1; round <= times; round++) {
		struct place *from = &w->from[round % VALUES];

		assert_int_equal(rig_rdma(w->rig.qp[0], IBV_WR_RDMA_WRITE, round, from->mr,
					  from->at, (uint32_t)bytes, shared->at, shared->rkey),
				 0);
		rig_expect(w->rig.cq[0], IBV_WC_SUCCESS, round);
		await_lanes(round);
	}
	rig_await(&shared->done, tasks);
	for (unsigned int i = 0; i < LANES; i++)
		late += shared->answer[1][i];
	print_message("%s: %zu bytes, %lu rounds%s: %lu words too late\n", what, bytes,
		      (unsigned long)times, line_words ? ", line by line" : "",
		      (unsigned long)late);
	assert_int_equal(late, 0);
}

/* On one GPU a process beside whose kernel another runs waits for a turn of milliseconds for each copy of its own. */
static uint64_t fewer(uint64_t times, enum place_kind kind)
{
	return is_soft || kind != PLACE_GPU ? times : times / 100 + 1;
}

static void write_all(struct writer *w, enum place_kind kind)
{
	fill(w, kind, large());
	if (w->from[0].at) {
		run(w, 8, fewer(rounds[0], kind), 0, place_names[kind]);
		run(w, 4096, fewer(rounds[1], kind), 0, place_names[kind]);
		run(w, large(), fewer(rounds[2], kind), 0, place_names[kind]);
		if (!is_soft)
			run(w, 4096, fewer(rounds[1], kind), LINE_WORDS, place_names[kind]);
	}
	for (uint64_t v = 0; v < VALUES; v++)
		place_end(&w->from[v]);
}

static void watched(void **state)
{
	static struct writer w;
	pid_t owner;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	owner = fork();
	if (!owner)
		own();
	rig_open(&w.rig);
	/* what is in the pool is registered before there is a libcuda */
	fill(&w, PLACE_POOLED, SOFT_BYTES);
	assert_true(gpu_load());
	is_soft = gpu_hold;
	gpu_context();
	meet(&w.rig, 0);
	run(&w, 8, rounds[0], 0, place_names[PLACE_POOLED]);
	run(&w, SOFT_BYTES, rounds[2], 0, place_names[PLACE_POOLED]);
	for (uint64_t v = 0; v < VALUES; v++)
		place_end(&w.from[v]);
	write_all(&w, PLACE_PINNED);
	write_all(&w, PLACE_GPU);
	write_all(&w, PLACE_OTHER);
	kill(owner, SIGKILL);
	waitpid(owner, NULL, 0);
	rig_close(&w.rig);
	munmap(shared, sizeof(*shared));
}

/* test_order MODULE [ROUNDS ROUNDS ROUNDS] */
int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(watched)};

	image = argc > 1 ? argv[1] : "";
	for (int i = 0; i < 3 && i + 2 < argc; i++)
		rounds[i] = strtoul(argv[i + 2], NULL, 0);
	return cmocka_run_group_tests_name("order", tests, make_pool, remove_pool);
}
