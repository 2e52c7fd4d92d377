/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion channels and asynchronous events: when an event comes, of which object it is, which thread waits
 * for it. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "../abi/pool.h"

#define PATIENCE_MS 5000

static void sleep_us(long us)
{
	nanosleep(&(struct timespec){0, us * 1000}, NULL);
}

static bool readable(int fd, int timeout_ms)
{
	struct pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, timeout_ms) == 1;
}

static void set_nonblocking(int fd)
{
	assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

/* One SEND from queue pair 0 to 1, the receive posted first. */
static void send_one(struct rig *rig, uint64_t wr_id, unsigned int flags)
{
	struct ibv_send_wr *bad, wr = {.wr_id = wr_id,
				       .opcode = IBV_WR_SEND,
				       .send_flags = flags | IBV_SEND_SIGNALED};

	assert_int_equal(rig_receive(rig->qp[1], wr_id, NULL, NULL, 0), 0);
	assert_int_equal(ibv_post_send(rig->qp[0], &wr, &bad), 0);
}

static struct ibv_cq *next_event(struct rig *rig)
{
	struct ibv_cq *cq = NULL;
	void *arg = NULL;

	assert_true(readable(rig->channel->fd, PATIENCE_MS));
	assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &arg), 0);
	ibv_ack_cq_events(cq, 1);
	assert_ptr_equal(arg, rig);
	return cq;
}

static void expect_event(struct rig *rig, struct ibv_cq *expected)
{
	assert_ptr_equal(next_event(rig), expected);
}

/* Waits long enough to see an event that should not come. */
static void no_event(struct rig *rig)
{
	assert_false(readable(rig->channel->fd, 5));
}

/* ---- Arming ---- */

static void one_for_each_arming(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *first;

	send_one(rig, 1, 0);
	no_event(rig);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_req_notify_cq(rig->cq[i], 0), 0);
	no_event(rig); /* completions from before the arming make no event */
	send_one(rig, 2, 0);
	send_one(rig, 3, 0);
	/* the two events come in either order: the helper makes that of completions by other queue
	 * pairs */
	first = next_event(rig);
	assert_true(first == rig->cq[0] || first == rig->cq[1]);
	expect_event(rig, rig->cq[first == rig->cq[0]]);
	no_event(rig);
	send_one(rig, 4, 0);
	no_event(rig);
	for (uint64_t id = 1; id <= 4; id++)
		for (int i = 0; i < 2; i++)
			rig_expect(rig->cq[i], IBV_WC_SUCCESS, id);
	assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0);
	assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0); /* armed twice, one event */
	send_one(rig, 5, 0);
	expect_event(rig, rig->cq[1]);
	no_event(rig);
}

static void solicited_only(void **state)
{
	static const struct {
		/* which arming comes first and which second: -1 none, 0 for all, 1 for solicited
		 * only */
		int first, second;
		unsigned int flags;
		bool event;
	} cases[] = {
		{1, -1, 0, false}, {1, -1, IBV_SEND_SOLICITED, true},
		{0, -1, 0, true},  {0, -1, IBV_SEND_SOLICITED, true},
		{0, 1, 0, true},   {1, 0, 0, true},
		{1, 1, 0, false},  {1, 1, IBV_SEND_SOLICITED, true},
	};
	struct rig *rig = *state;

	for (size_t i = 0; i < COUNT(cases); i++) {
		assert_int_equal(ibv_req_notify_cq(rig->cq[1], cases[i].first), 0);
		if (cases[i].second >= 0)
			assert_int_equal(ibv_req_notify_cq(rig->cq[1], cases[i].second), 0);
		send_one(rig, i, cases[i].flags);
		if (!cases[i].event) {
			no_event(rig);
			/* takes the event, so that the queue is armed no more */
			send_one(rig, i, IBV_SEND_SOLICITED);
		}
		expect_event(rig, rig->cq[1]);
		while (ibv_poll_cq(rig->cq[1], 1, &(struct ibv_wc){0}))
			;
		while (ibv_poll_cq(rig->cq[0], 1, &(struct ibv_wc){0}))
			;
	}
}

/* A completion in error counts as solicited, on either side. */
static void solicited_by_error(void **state)
{
	struct rig *rig = *state;

	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_req_notify_cq(rig->cq[i], 1), 0);
	assert_int_equal(rig_receive(rig->qp[0], 1, NULL, NULL, 0), 0);
	assert_int_equal(rig_receive(rig->qp[1], 2, NULL, NULL, 0), 0);
	rig_modify(rig->qp[0], IBV_QPS_ERR, 0);
	expect_event(rig, rig->cq[0]);
	no_event(rig);
	rig_modify(rig->qp[1], IBV_QPS_ERR, 0);
	expect_event(rig, rig->cq[1]);
}

static void writes_with_immediate(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0);
	assert_int_equal(rig_receive(rig->qp[1], 7, NULL, NULL, 0), 0);
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 1, NULL, NULL, 0, 0, 0), 0);
	no_event(rig);
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE_WITH_IMM, 2, NULL, NULL, 0, 0, 0),
			 0);
	expect_event(rig, rig->cq[1]);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 7);
}

/* As another queue pair of the completion queue is destroyed, completions are moved from rings before the
 * event's cause was looked at: the event comes all the same. */
static void solicited_beside_a_destroyed_one(void **state)
{
	struct rig *rig = *state;

	for (int round = 0; round < 300; round++) {
		struct ibv_qp_init_attr init = rig_init(rig->cq[1], rig->cq[1]);
		struct ibv_qp *qp = ibv_create_qp(rig->pd, &init);

		assert_non_null(qp);
		rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
		assert_int_equal(ibv_req_notify_cq(rig->cq[1], 1), 0);
		send_one(rig, 1, IBV_SEND_SOLICITED);
		assert_int_equal(ibv_destroy_qp(qp), 0);
		expect_event(rig, rig->cq[1]);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, 1);
	}
}

/* ---- Ways of waiting ---- */

static void *send_later(void *rig)
{
	sleep_us(20000);
	send_one(rig, 1, 0);
	return NULL;
}

static void blocking(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *cq;
	pthread_t thread;
	void *arg;

	assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, send_later, rig), 0);
	assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &arg), 0);
	assert_ptr_equal(cq, rig->cq[1]);
	ibv_ack_cq_events(cq, 1);
	pthread_join(thread, NULL);
	rig_expect(rig->cq[1], IBV_WC_SUCCESS, 1);
}

static void by_epoll(void **state)
{
	struct rig *rig = *state;
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int epoll = epoll_create1(EPOLL_CLOEXEC);

	assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, rig->channel->fd, &event), 0);
	for (uint64_t i = 0; i < 20; i++) {
		assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0);
		assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
		send_one(rig, i, 0);
		assert_int_equal(epoll_wait(epoll, &event, 1, PATIENCE_MS), 1);
		expect_event(rig, rig->cq[1]);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
	}
	close(epoll);
}

/* Makes it look as if a producer stood still between claiming the alarm and writing to the channel: the
 * helper delivers the event in its place, and the test keeps the word that the producer would write. */
static uint64_t stand_still(struct rig *rig, struct ibv_cq *cq)
{
	uint64_t word;

	assert_int_equal(read(rig->channel->fd, &word, sizeof(word)), sizeof(word));
	expect_event(rig, cq);
	return word;
}

static void go_on(struct rig *rig, uint64_t word)
{
	char path[40];
	int end;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", rig->channel->fd);
	end = open(path, O_WRONLY);
	assert_int_equal(write(end, &word, sizeof(word)), sizeof(word));
	close(end);
}

/* After the helper has delivered the event the producer writes its word, too: a second event is read without
 * an error, and no completion need be there. */
static void word_too_many(void **state)
{
	struct rig *rig = *state;
	uint64_t word;

	assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0);
	send_one(rig, 1, 0);
	word = stand_still(rig, rig->cq[1]);
	for (int i = 0; i < 2; i++)
		rig_expect(rig->cq[i], IBV_WC_SUCCESS, 1);
	go_on(rig, word);
	expect_event(rig, rig->cq[1]);
	no_event(rig);
	rig_none(rig->cq[1]);
}

static void word_too_many_of_a_destroyed_one(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *cq = ibv_create_cq(rig->context, 4, rig, rig->channel, 0);
	struct ibv_qp_init_attr init = rig_init(cq, cq);
	struct ibv_qp *qp = ibv_create_qp(rig->pd, &init);
	uint64_t word;
	void *arg;

	assert_non_null(qp);
	rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
	assert_int_equal(rig_receive(qp, 1, NULL, NULL, 0), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	rig_modify(qp, IBV_QPS_ERR, 0);
	word = stand_still(rig, cq);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	go_on(rig, word);
	assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &arg), -1);
	assert_int_equal(errno, EAGAIN);
	no_event(rig);
}

static void nonblocking(void **state)
{
	struct rig *rig = *state;
	struct ibv_async_event event;
	struct ibv_cq *cq;
	void *arg;

	set_nonblocking(rig->channel->fd);
	set_nonblocking(rig->context->async_fd);
	errno = 0;
	assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &arg), -1);
	assert_int_equal(errno, EAGAIN);
	errno = 0;
	assert_int_equal(ibv_get_async_event(rig->context, &event), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0);
	send_one(rig, 1, 0);
	expect_event(rig, rig->cq[1]);
	assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &arg), -1);
	assert_int_equal(errno, EAGAIN);
}

/* ---- Acknowledging and destroying ---- */

static atomic_bool destroyed;

static void *destroy_cq(void *cq)
{
	int err = ibv_destroy_cq(cq);

	atomic_store(&destroyed, true);
	return (void *)(intptr_t)err;
}

static void *destroy_qp(void *qp)
{
	int err = ibv_destroy_qp(qp);

	atomic_store(&destroyed, true);
	return (void *)(intptr_t)err;
}

static void destroy_qps(struct rig *rig)
{
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_qp(rig->qp[i]), 0);
		rig->qp[i] = NULL;
	}
}

static void cq_waits_for_acknowledgement(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *cq;
	pthread_t thread;
	void *arg;

	for (uint64_t i = 0; i < 3; i++) {
		assert_int_equal(ibv_req_notify_cq(rig->cq[1], 0), 0);
		send_one(rig, i, 0);
		assert_int_equal(ibv_get_cq_event(rig->channel, &cq, &arg), 0);
	}
	destroy_qps(rig);
	atomic_store(&destroyed, false);
	assert_int_equal(pthread_create(&thread, NULL, destroy_cq, cq), 0);
	sleep_us(20000);
	ibv_ack_cq_events(cq, 1);
	sleep_us(20000);
	assert_false(atomic_load(&destroyed));
	ibv_ack_cq_events(cq, 2); /* one call may acknowledge both events */
	pthread_join(thread, &arg);
	assert_null(arg);
	rig->cq[1] = NULL;
}

/* Events that were not read go with the completion queue. */
static void cq_with_unread_event(void **state)
{
	struct rig *rig = *state;

	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_req_notify_cq(rig->cq[i], 0), 0);
	send_one(rig, 1, 0);
	assert_true(readable(rig->channel->fd, PATIENCE_MS));
	sleep_us(5000); /* by then both events have come */
	destroy_qps(rig);
	assert_int_equal(ibv_destroy_cq(rig->cq[1]), 0);
	rig->cq[1] = NULL;
	expect_event(rig, rig->cq[0]);
	no_event(rig);
}

static void *post_when_cancelled(void *arg)
{
	pthread_cancel(pthread_self());
	send_one(arg, 1, 0);
	send_one(arg, 2, 0);
	pthread_testcancel();
	return NULL;
}

/* Posting wakes a sleeper with locks held: a thread with a cancellation pending is not cancelled before the
 * post is done. */
static void posting_is_no_point_of_cancellation(void **state)
{
	struct rig *rig = *state;
	pthread_t thread;
	void *result;

	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_req_notify_cq(rig->cq[i], 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, post_when_cancelled, rig), 0);
	assert_int_equal(pthread_join(thread, &result), 0);
	assert_ptr_equal(result, PTHREAD_CANCELED);
	for (uint64_t i = 1; i <= 2; i++)
		rig_expect(rig->cq[1], IBV_WC_SUCCESS, i);
	for (int i = 0; i < 2; i++)
		next_event(rig);
	no_event(rig);
}

static void fail_qp(struct rig *rig)
{
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_RDMA_WRITE, 1, NULL, NULL, 0, 0, 0), 0);
	assert_int_equal(rig_rdma(rig->qp[0], IBV_WR_ATOMIC_FETCH_AND_ADD, 2, NULL, NULL, 0, 1, 1),
			 0);
	rig_expect(rig->cq[0], IBV_WC_SUCCESS, 1);
	rig_expect(rig->cq[0], IBV_WC_LOC_LEN_ERR, 2);
	rig_modify(rig->qp[0], IBV_QPS_RESET, 0);
}

/* Makes an asynchronous event for queue pair 1, by a message that is longer than its receive. */
static void overfill(struct rig *rig)
{
	struct ibv_mr *mr = rig_region(rig->pd, 4096);

	assert_int_equal(rig_receive(rig->qp[1], 1, mr, mr->addr, 1), 0);
	assert_int_equal(rig_send(rig->qp[0], 2, mr, mr->addr, 2), 0);
	rig_expect(rig->cq[0], IBV_WC_REM_INV_REQ_ERR, 2);
	rig_region_end(mr);
}

static void qp_waits_for_acknowledgement(void **state)
{
	struct rig *rig = *state;
	struct ibv_async_event event;
	pthread_t thread;
	void *result;

	overfill(rig);
	assert_int_equal(ibv_get_async_event(rig->context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_QP_REQ_ERR);
	assert_ptr_equal(event.element.qp, rig->qp[1]);
	atomic_store(&destroyed, false);
	assert_int_equal(pthread_create(&thread, NULL, destroy_qp, rig->qp[1]), 0);
	sleep_us(20000);
	assert_false(atomic_load(&destroyed));
	ibv_ack_async_event(&event);
	pthread_join(thread, &result);
	assert_null(result);
	rig->qp[1] = NULL;
}

static void qp_with_unread_event(void **state)
{
	struct rig *rig = *state;

	overfill(rig);
	assert_true(readable(rig->context->async_fd, PATIENCE_MS));
	assert_int_equal(ibv_destroy_qp(rig->qp[1]), 0);
	rig->qp[1] = NULL;
	assert_false(readable(rig->context->async_fd, 0));
}

/* A requester's own failure is told by its completion, not by an asynchronous event. */
static void no_event_for_completions(void **state)
{
	struct rig *rig = *state;

	fail_qp(rig);
	assert_false(readable(rig->context->async_fd, 5));
}

/* More completions than the queue holds: one event, and the queue pair whose completions are lost fails. */
static void overrun(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *cq = ibv_create_cq(rig->context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = rig_init(cq, cq);
	struct ibv_qp *qp;

	init.cap.max_send_wr = (uint32_t)cq->cqe + 10;
	qp = ibv_create_qp(rig->pd, &init);
	assert_non_null(qp);
	rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
	for (int i = 0; i < cq->cqe; i++)
		assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 1, NULL, NULL, 0, 0, 0), 0);
	/* the queue is full, and has lost nothing */
	assert_false(readable(rig->context->async_fd, 5));
	for (int i = 0; i < 10; i++)
		assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 1, NULL, NULL, 0, 0, 0), 0);
	rig_event(rig->context, IBV_EVENT_CQ_ERR, cq);
	rig_event(rig->context, IBV_EVENT_QP_FATAL, qp);
	assert_int_equal(rig_state(qp), IBV_QPS_ERR);
	assert_false(readable(rig->context->async_fd, 5));
	for (int i = 0; i < cq->cqe; i++)
		rig_expect(cq, IBV_WC_SUCCESS, 1);
	rig_none(cq); /* the others are lost */
	/* after RESET and a new connection nothing of it is left */
	rig_modify(qp, IBV_QPS_RESET, 0);
	rig_modify(qp, IBV_QPS_RTS, qp->qp_num);
	assert_int_equal(rig_rdma(qp, IBV_WR_RDMA_WRITE, 2, NULL, NULL, 0, 0, 0), 0);
	rig_expect(cq, IBV_WC_SUCCESS, 2);
	assert_false(readable(rig->context->async_fd, 5));
	assert_int_equal(rig_state(qp), IBV_QPS_RTS);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* More receives than the queue holds, completed by peers: the poll that finds the overrun tells of it. */
static void overrun_by_receives(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq *cq = ibv_create_cq(rig->context, 1, NULL, NULL, 0);
	struct ibv_qp_init_attr init = rig_init(cq, cq);
	struct ibv_wc wc;
	struct ibv_qp *to, *from;

	to = ibv_create_qp(rig->pd, &init);
	init = rig_init(rig->cq[0], rig->cq[0]);
	from = ibv_create_qp(rig->pd, &init);
	assert_true(to && from && cq->cqe < 40);
	rig_modify(to, IBV_QPS_RTS, from->qp_num);
	rig_modify(from, IBV_QPS_RTS, to->qp_num);
	for (uint64_t i = 0; i < 40; i++) {
		assert_int_equal(rig_receive(to, i, NULL, NULL, 0), 0);
		assert_int_equal(rig_send(from, i, NULL, NULL, 0), 0);
		rig_expect(rig->cq[0], IBV_WC_SUCCESS, i);
	}
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	rig_event(rig->context, IBV_EVENT_CQ_ERR, cq);
	rig_event(rig->context, IBV_EVENT_QP_FATAL, to);
	assert_int_equal(ibv_destroy_qp(to), 0);
	assert_int_equal(ibv_destroy_qp(from), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

/* ---- Races ---- */

/* One side of a ping-pong whose threads sleep while they wait. An error ends the thread. */
struct player {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_comp_channel *channel;
	bool serves;
	int rounds;
	const char *failed;
};

static bool await_receive(struct player *p)
{
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *arg;
	int n;

	for (;;) {
		while ((n = ibv_poll_cq(p->cq, 1, &wc)))
			if (n < 0 || wc.status)
				return false;
			else if (wc.opcode == IBV_WC_RECV)
				return true;
		if (ibv_req_notify_cq(p->cq, 0))
			return false;
		/* what came before the arming makes no event, so it has to be polled */
		n = ibv_poll_cq(p->cq, 1, &wc);
		if (n && (n < 0 || wc.status))
			return false;
		if (n && wc.opcode == IBV_WC_RECV)
			return true;
		if (n)
			continue;
		if (!readable(p->channel->fd, PATIENCE_MS) ||
		    ibv_get_cq_event(p->channel, &cq, &arg))
			return false;
		ibv_ack_cq_events(cq, 1);
	}
}

static void *play(void *player)
{
	struct player *p = player;

	for (int i = 0; i < p->rounds; i++) {
		if (!p->serves && !await_receive(p)) {
			p->failed = "a wake-up was lost";
			break;
		}
		if (rig_receive(p->qp, 1, NULL, NULL, 0) || rig_send(p->qp, 2, NULL, NULL, 0)) {
			p->failed = "posting";
			break;
		}
		if (p->serves && !await_receive(p)) {
			p->failed = "a wake-up was lost";
			break;
		}
	}
	return NULL;
}

static void no_wake_up_lost(void **state)
{
	struct rig *rig = *state;
	struct ibv_comp_channel *channel[2];
	struct player player[2];
	struct ibv_cq *cq[2];
	pthread_t thread;

	destroy_qps(rig);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init;

		channel[i] = ibv_create_comp_channel(rig->context);
		cq[i] = ibv_create_cq(rig->context, 16, NULL, channel[i], 0);
		init = rig_init(cq[i], cq[i]);
		rig->qp[i] = ibv_create_qp(rig->pd, &init);
		player[i] = (struct player){rig->qp[i], cq[i], channel[i], i == 0, 20000, NULL};
	}
	rig_connect(rig, &(struct rig_wish){.access = 0});
	assert_int_equal(rig_receive(rig->qp[1], 1, NULL, NULL, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, play, &player[1]), 0);
	play(&player[0]);
	pthread_join(thread, NULL);
	for (int i = 0; i < 2; i++)
		if (player[i].failed)
			fail_msg("player %d: %s", i, player[i].failed);
	destroy_qps(rig);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_destroy_cq(cq[i]), 0);
		assert_int_equal(ibv_destroy_comp_channel(channel[i]), 0);
	}
}

/* Reads all asynchronous events of a context, until one about the last queue pair. */
static void *read_events(void *rig)
{
	struct ibv_async_event event;
	bool last;

	do {
		if (ibv_get_async_event(((struct rig *)rig)->context, &event))
			return "failed";
		last = event.element.qp->qp_context == rig;
		ibv_ack_async_event(&event);
	} while (!last);
	return NULL;
}

/* Queue pairs are destroyed while another thread reads their events. */
static void destroyed_under_a_reader(void **state)
{
	struct rig *rig = *state;
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, read_events, rig), 0);
	for (int round = 0; round <= 300; round++) {
		destroy_qps(rig);
		for (int i = 0; i < 2; i++) {
			struct ibv_qp_init_attr init = rig_init(rig->cq[i], rig->cq[i]);

			init.qp_context = round == 300 ? rig : NULL;
			rig->qp[i] = ibv_create_qp(rig->pd, &init);
		}
		rig_connect(rig, &(struct rig_wish){.access = 0});
		overfill(rig);
	}
	pthread_join(thread, &result);
	assert_null(result);
}

int main(void)
{
#define CONNECTED(name) cmocka_unit_test_setup_teardown(name, rig_setup_connected, rig_teardown)
	const struct CMUnitTest tests[] = {
		CONNECTED(one_for_each_arming),
		CONNECTED(solicited_only),
		CONNECTED(solicited_by_error),
		CONNECTED(writes_with_immediate),
		CONNECTED(solicited_beside_a_destroyed_one),
		CONNECTED(blocking),
		CONNECTED(by_epoll),
		CONNECTED(word_too_many),
		CONNECTED(word_too_many_of_a_destroyed_one),
		CONNECTED(nonblocking),
		CONNECTED(cq_waits_for_acknowledgement),
		CONNECTED(cq_with_unread_event),
		CONNECTED(posting_is_no_point_of_cancellation),
		CONNECTED(qp_waits_for_acknowledgement),
		CONNECTED(qp_with_unread_event),
		CONNECTED(no_event_for_completions),
		CONNECTED(overrun),
		CONNECTED(overrun_by_receives),
		CONNECTED(no_wake_up_lost),
		CONNECTED(destroyed_under_a_reader),
	};

	return cmocka_run_group_tests_name("event", tests, make_pool, remove_pool);
}
