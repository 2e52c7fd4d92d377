/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memory.h"

#define NAP_NS 20000

void board_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t most_ns)
{
	struct timespec t = {(time_t)(most_ns / 1000000000u), (long)(most_ns % 1000000000u)};

	syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

void board_wake(_Atomic uint32_t *word)
{
	syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool worker_wait(const struct worker *w, uint64_t *begun_ns)
{
	if (!*begun_ns)
		*begun_ns = now_ns();
	sched_yield();
	return now_ns() - *begun_ns < w->board->patience_ns;
}

void worker_nonblocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

/* ---- Checking ---- */

/* Takes the queue pair's lock once: a thread that worked on it under the lock before is done. */
static void pass_lock(struct ibv_qp *qp)
{
	struct ibv_send_wr *bad;

	ibv_post_send(qp, NULL, &bad);
}

/* Has requests that wait tried at once, by an attempt that begins after this call. */
static void try_again(const struct worker *w, const struct order *o)
{
	for (int i = 0; i < QPS; i++) {
		if (!o->qp[i].waited || !w->qp[i])
			continue;
		pass_lock(w->qp[i]);
		ibv_poll_cq(w->qp[i]->send_cq, 0, NULL);
		pass_lock(w->qp[i]);
	}
}

static bool right_state(const struct worker *w, const struct order *o, struct report *r)
{
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr got;

		if (!o->qp[i].live)
			continue;
		ibv_query_qp(w->qp[i], &got, IBV_QP_STATE, &init);
		if (got.qp_state == o->qp[i].state)
			continue;
		snprintf(r->trouble, sizeof(r->trouble), "queue pair %d is in %s, should be in %s",
			 i, step_state(got.qp_state), step_state(o->qp[i].state));
		return false;
	}
	return true;
}

#ifdef __SANITIZE_THREAD__
/* The thread sanitizer sees no order that comes by way of another process: helpers store into the arena for
 * peers. */
__attribute__((visibility("default"))) const char *__tsan_default_suppressions(void);
const char *__tsan_default_suppressions(void)
{
	return "race:right_memory\nrace:set_memory\nrace:arena_write\n";
}
#endif

static __attribute__((noinline)) void set_memory(const struct worker *w)
{
	worker_memory.write(w, 0, w->board->memory[w->me], ARENA_BYTES);
	worker_memory.read(w);
}

static __attribute__((noinline)) bool right_memory(const struct worker *w, struct report *r)
{
	const uint8_t *should = w->board->memory[w->me], *is = worker_memory.read(w);
	size_t i = 0;

	if (!memcmp(is, should, ARENA_BYTES))
		return true;
	while (i < ARENA_BYTES && is[i] == should[i])
		i++;
	snprintf(r->trouble, sizeof(r->trouble), "memory at %zu is %02x, should be %02x", i, is[i],
		 should[i]);
	return false;
}

static bool right_attributes(const struct worker *w, const struct order *o, struct report *r)
{
	for (int i = 0; i < QPS; i++) {
		const struct step_modify *a = &o->qp[i].attr;
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr got;

		if (!o->qp[i].live || ibv_query_qp(w->qp[i], &got, 0x1fffff, &init))
			continue;
		if (got.qp_access_flags == a->access && got.path_mtu == (enum ibv_mtu)a->mtu &&
		    got.min_rnr_timer == a->min_rnr_timer && got.timeout == a->timeout &&
		    got.retry_cnt == a->retry_cnt && got.rnr_retry == a->rnr_retry &&
		    got.max_rd_atomic == a->max_rd_atomic &&
		    got.max_dest_rd_atomic == a->max_dest_rd_atomic)
			continue;
		snprintf(r->trouble, sizeof(r->trouble), "queue pair %d has other attributes", i);
		return false;
	}
	return true;
}

static void look_away(const struct worker *w, const struct order *o)
{
	const struct timespec nap = {0, NAP_NS};

	if (o->asleep)
		nanosleep(&nap, NULL);
	else
		try_again(w, o);
}

static void check(const struct worker *w, const struct order *o, struct report *r)
{
	uint64_t begun_ns = 0;

	try_again(w, o);
	while (!right_state(w, o, r) || !right_memory(w, r)) {
		if (!worker_wait(w, &begun_ns))
			return;
		look_away(w, o);
	}
	r->trouble[0] = 0;
	/* the state ERR may be seen before all of the transition is done */
	for (int i = 0; i < QPS; i++)
		if (o->qp[i].live && o->qp[i].state == IBV_QPS_ERR)
			pass_lock(w->qp[i]);
	right_attributes(w, o, r);
}

/* Nothing that this worker has posted is under way, nor begins before something else happens: between one request and
 * the next of a queue pair its lock is held. */
static void settle(const struct worker *w, const struct order *o, struct report *r)
{
	uint64_t begun_ns = 0;
	bool settled = false;

	while (!settled) {
		for (int i = 0; i < QPS; i++)
			if (w->qp[i]) {
				ibv_poll_cq(w->qp[i]->send_cq, 0, NULL);
				pass_lock(w->qp[i]);
			}
		settled = worker_memory.is_settled(w);
		for (int i = 0; settled && i < QPS; i++)
			if (w->qp[i])
				pass_lock(w->qp[i]);
		settled = settled && worker_memory.is_settled(w);
		if (!settled && !worker_wait(w, &begun_ns)) {
			snprintf(r->trouble, sizeof(r->trouble), "a request does not end");
			return;
		}
	}
}

/* ---- Orders ---- */

static void obey(struct worker *w, const struct order *o, struct report *r)
{
	memset(r, 0, offsetof(struct report, wc));
	memset(r->cq_events, 0, sizeof(r->cq_events));
	r->trouble[0] = 0;
	if (o->kinds & ORDER_BEGIN)
		set_memory(w);
	if (o->kinds & ORDER_STEP)
		worker_call(w, o, r);
	if (o->kinds & ORDER_CHECK)
		check(w, o, r);
	if (o->kinds & ORDER_SETTLE)
		settle(w, o, r);
}

static struct ibv_context *open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	if (!context)
		_exit(1);
	return context;
}

_Noreturn void worker_run(struct board *board, int process)
{
	struct desk *desk = &board->desk[process];
	struct worker w = {.board = board, .me = process};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	w.context = open_device();
	worker_nonblocking(w.context->async_fd);
	ibv_query_gid(w.context, 1, 0, &w.gid);
	worker_memory.begin(&w);
	for (uint32_t turn = 1;; turn++) {
		/* acquire: pairs with the release in fleet_ask */
		while (atomic_load_explicit(&desk->asked, memory_order_acquire) != turn)
			board_sleep(&desk->asked, turn - 1, 1000000000u);
		obey(&w, &desk->order, &desk->report);
		/* release: pairs with the acquire in fleet_await */
		atomic_store_explicit(&desk->answered, turn, memory_order_release);
		board_wake(&desk->answered);
	}
}
