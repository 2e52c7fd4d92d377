/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Engines behind one address: each gets the packets of its queue pair number and no others, its timer when
 * that is due, and its turn to send. The engines are played here: their functions note that the switch has
 * called them.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "card/switch.h"

#define PORTS  64u
#define QPN(i) (0x100u + (i)*0x11u)

static struct weft_roce_qp qp[PORTS];
static struct weft_switch_port port[PORTS], *table[PORTS], *heap[PORTS + 1];
static struct weft_switch sw;
static struct {
	/* how often the engine got a packet, got its turn, had its timer called */
	uint32_t came, ran, timed;
	uint32_t turns; /* in how many more turns it has something to send */
} did[PORTS];
static uint32_t order[4 * PORTS], ran; /* the engines' indices, in the order of their turns */
static uint64_t next_deadline_ns;      /* the deadline that a timer sets next; 0: none */
static struct weft_roce_icrc of_cards;
static enum weft_roce_icrc_verdict verdict;
static const struct weft_roce_source *followed; /* the source by which the last packet was judged */

/* ---- The engines ---- */

static uint32_t index_of(const struct weft_roce_qp *q)
{
	return (uint32_t)(q - qp);
}

int weft_roce_parse(const uint8_t *at, size_t bytes, struct weft_roce_packet *packet)
{
	if (bytes != sizeof(packet->dest_qpn))
		return -EINVAL;
	memcpy(&packet->dest_qpn, at, bytes);
	return 0;
}

enum weft_roce_icrc_verdict weft_roce_icrc_check(const struct weft_roce_icrc *icrc,
						 struct weft_roce_source *source,
						 const struct weft_roce_route *route,
						 const uint8_t *at, size_t bytes, uint16_t segment,
						 uint64_t since_ns, uint64_t now_ns, uint16_t *id)
{
	followed = source;
	return verdict;
}

void weft_roce_receive(struct weft_roce_qp *q, const struct weft_roce_arrival *arrival,
		       const struct weft_roce_packet *packet, uint64_t now_ns)
{
	assert_int_equal(packet->dest_qpn, q->config.qpn);
	did[index_of(q)].came++;
}

void weft_roce_timer(struct weft_roce_qp *q, uint64_t now_ns)
{
	assert_true(q->deadline_ns && q->deadline_ns <= now_ns);
	did[index_of(q)].timed++;
	q->deadline_ns = next_deadline_ns;
}

bool weft_roce_run(struct weft_roce_qp *q, uint32_t share, uint64_t now_ns)
{
	uint32_t i = index_of(q);

	order[ran++] = i;
	did[i].ran++;
	if (did[i].turns)
		did[i].turns--;
	return did[i].turns;
}

/* ---- The cases ---- */

static int set_up(void **state)
{
	memset(qp, 0, sizeof(qp));
	memset(table, 0, sizeof(table));
	memset(heap, 0, sizeof(heap));
	memset(did, 0, sizeof(did));
	ran = 0;
	next_deadline_ns = 0;
	verdict = WEFT_ROCE_ICRC_RIGHT;
	weft_switch_begin(&sw, &of_cards, table, heap, PORTS);
	for (uint32_t i = 0; i < PORTS; i++) {
		qp[i].config.qpn = QPN(i);
		port[i].qp = &qp[i];
		assert_int_equal(weft_switch_add(&sw, &port[i]), 0);
	}
	return 0;
}

static void send_to(uint32_t to, uint32_t source, uint32_t qpn, uint64_t now_ns)
{
	struct weft_udp_datagram d = {.at = (const uint8_t *)&qpn, .bytes = sizeof(qpn)};

	memcpy(d.from, &source, sizeof(source));
	memcpy(d.to, &to, sizeof(to));
	weft_switch_receive(&sw, &d, now_ns, now_ns);
}

static void send_from(uint32_t source, uint32_t qpn, uint64_t now_ns)
{
	send_to(0, source, qpn, now_ns);
}

static void by_number(void **state)
{
	const struct weft_udp_datagram cut = {.at = (const uint8_t *)"", .bytes = 1};

	for (uint32_t i = 0; i < PORTS; i++) {
		send_from(1, QPN(i), 1);
		for (uint32_t k = 0; k < PORTS; k++)
			assert_int_equal(did[k].came, k <= i);
	}
	send_from(1, 5, 1);
	weft_switch_receive(&sw, &cut, 1, 1);
	verdict = WEFT_ROCE_ICRC_WRONG;
	send_from(1, QPN(0), 1);
	assert_int_equal(did[0].came, 1);
	verdict = WEFT_ROCE_ICRC_WEAK;
	send_from(1, QPN(0), 1);
	assert_int_equal(did[0].came, 2);
	assert_int_equal(sw.counters.came, PORTS + 4);
	assert_int_equal(sw.counters.no_qp, 1);
	assert_int_equal(sw.counters.foreign, 1);
	assert_int_equal(sw.counters.wrong_icrc, 1);
	assert_int_equal(sw.counters.weak_icrc, 1);
}

static void not_looked_at(void **state)
{
	sw.icrc = NULL;
	verdict = WEFT_ROCE_ICRC_WRONG;
	send_from(1, QPN(0), 1);
	assert_int_equal(did[0].came, 1);
	assert_int_equal(sw.counters.wrong_icrc, 0);
}

static void comes_and_goes(void **state)
{
	struct weft_switch_port again = {.qp = &qp[3]};

	assert_int_equal(weft_switch_add(&sw, &again), -ENOSPC);
	weft_switch_remove(&sw, &port[5]);
	assert_int_equal(weft_switch_add(&sw, &again), -EEXIST);
	send_from(1, QPN(5), 1);
	assert_int_equal(sw.counters.no_qp, 1);
	/* a removed port with packets to answer, and with a deadline, leaves nothing in the switch */
	qp[3].deadline_ns = 1;
	send_from(1, QPN(3), 1);
	weft_switch_remove(&sw, &port[3]);
	assert_int_equal(weft_switch_deadline_ns(&sw), 0);
	assert_false(weft_switch_run(&sw, 1, 2));
	assert_int_equal(did[3].ran + did[3].timed, 0);
	assert_int_equal(weft_switch_add(&sw, &again), 0);
	send_from(1, QPN(3), 3);
	assert_int_equal(did[3].came, 2);
}

/* Each timer is called when it is due, the earliest first, in whatever order deadlines were set, changed and
 * cleared. */
static void by_deadline(void **state)
{
	uint64_t seed = 7, least;
	uint32_t due;

	for (int round = 0; round < 2000; round++) {
		uint32_t i = (uint32_t)((seed = seed * 6364136223846793005u + 1) >> 33) % PORTS;

		qp[i].deadline_ns = round % 3 ? 1 + (seed >> 40) : 0;
		send_from(1, QPN(i), 1);
		least = 0;
		for (uint32_t k = 0; k < PORTS; k++)
			if (qp[k].deadline_ns && (!least || qp[k].deadline_ns < least))
				least = qp[k].deadline_ns;
		assert_int_equal(weft_switch_deadline_ns(&sw), least);
	}
	while ((least = weft_switch_deadline_ns(&sw))) {
		due = 0;
		for (uint32_t k = 0; k < PORTS; k++) {
			due += qp[k].deadline_ns == least;
			did[k].timed = 0;
		}
		ran = 0;
		weft_switch_run(&sw, 1, least);
		for (uint32_t k = 0; k < PORTS; k++)
			due -= did[k].timed;
		assert_int_equal(due, 0);
	}
}

/* A timer that sets a deadline in the past does not keep the others from being called. */
static void a_timer_in_the_past(void **state)
{
	qp[0].deadline_ns = qp[1].deadline_ns = 10;
	next_deadline_ns = 5;
	send_from(1, QPN(0), 1);
	send_from(1, QPN(1), 1);
	weft_switch_run(&sw, 1, 10);
	assert_int_equal(did[0].timed + did[1].timed, 2);
	assert_int_equal(weft_switch_deadline_ns(&sw), 5);
}

static void by_turn(void **state)
{
	static const uint32_t wanted[] = {0, 1, 2, 1, 2, 1};

	did[1].turns = 3;
	for (uint32_t i = 0; i < 3; i++)
		weft_switch_stir(&sw, &port[i]);
	weft_switch_stir(&sw, &port[0]); /* it is in the list already */
	assert_true(weft_switch_run(&sw, 1, 1));
	assert_int_equal(ran, 3);
	weft_switch_stir(&sw, &port[2]);
	assert_true(weft_switch_run(&sw, 1, 1));
	assert_false(weft_switch_run(&sw, 1, 1));
	assert_false(weft_switch_run(&sw, 1, 1));
	assert_int_equal(ran, 6);
	for (uint32_t i = 0; i < 6; i++)
		assert_int_equal(order[i], wanted[i]);
}

/* A new source for which there is no room takes the place of the one that was silent longest. */
static void sources(void **state)
{
	const struct weft_roce_source *first, *second;

	send_from(1, QPN(0), 1);
	first = followed;
	send_from(2, QPN(0), 2);
	second = followed;
	assert_ptr_not_equal(first, second);
	for (uint32_t i = 3; i <= WEFT_SWITCH_SOURCES; i++)
		send_from(i, QPN(0), i);
	send_from(1, QPN(0), 1000);
	assert_ptr_equal(followed, first);
	send_from(9999, QPN(0), 1001);
	assert_ptr_equal(followed, second);
	send_from(1, QPN(0), 1002);
	assert_ptr_equal(followed, first);
	/* the same host's packets to a multicast address count as another source */
	send_to(1, 2, QPN(0), 200);
	first = followed;
	send_to(0, 2, QPN(0), 201);
	assert_ptr_not_equal(followed, first);
	send_to(1, 2, QPN(0), 202);
	assert_ptr_equal(followed, first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(by_number, set_up),
		cmocka_unit_test_setup(not_looked_at, set_up),
		cmocka_unit_test_setup(comes_and_goes, set_up),
		cmocka_unit_test_setup(by_deadline, set_up),
		cmocka_unit_test_setup(a_timer_in_the_past, set_up),
		cmocka_unit_test_setup(by_turn, set_up),
		cmocka_unit_test_setup(sources, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
