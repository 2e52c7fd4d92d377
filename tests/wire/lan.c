/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "lan.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "math.h"

#define BUFFER_BYTES (4u << 20)
#define BUDGET	     64u
#define MESSAGES     16u

/* Packets that are to go: each message is of packets of one length, of which the last may be shorter. */
struct out {
	struct weft_udp_message messages[MESSAGES];
	struct iovec pieces[MESSAGES];
	uint32_t packets[MESSAGES];
	bool closed; /* the last message takes no more packets */
	uint32_t count;
	uint8_t bytes[MESSAGES][WEFT_UDP_BYTES + 512];
};

static struct weft_roce_icrc icrc;

_Noreturn void lan_fail(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t lan_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct lan_qp *mine(struct weft_roce_qp *qp)
{
	return (struct lan_qp *)qp;
}

/* ---- Sending ---- */

static void flush(struct lan *lan)
{
	struct out *o = lan->out;
	uint32_t gone = 0;

	for (uint32_t i = 0; i < o->count; i++) {
		o->messages[i].pieces = &o->pieces[i];
		lan->went += o->packets[i];
		if (o->packets[i] == 1)
			o->messages[i].segment_bytes = 0;
		else
			lan->cut += o->packets[i];
	}
	while (gone < o->count) {
		struct pollfd room = {weft_udp_fd(lan->udp), POLLOUT, 0};
		int answer = lan->fault
				     ? weft_fault_send(lan->fault, lan->udp, o->messages + gone,
						       o->count - gone)
				     : weft_udp_send(lan->udp, o->messages + gone, o->count - gone);

		if (answer == -EAGAIN) {
			poll(&room, 1, 1000);
			continue;
		}
		if (answer < 0) {
			errno = -answer;
			lan_fail("sending");
		}
		gone += (uint32_t)answer;
	}
	o->count = 0;
}

/* The message into which a packet of so many bytes goes. */
static uint32_t message_for(struct lan *lan, const struct weft_roce_route *route, size_t bytes)
{
	struct out *o = lan->out;
	uint32_t last = o->count - 1;

	if (o->count && !o->closed && !lan->fault &&
	    !memcmp(o->messages[last].to, route->dst, 16) &&
	    bytes <= o->messages[last].segment_bytes && o->packets[last] < WEFT_UDP_SEGMENTS &&
	    o->pieces[last].iov_len + bytes <= WEFT_UDP_BYTES) {
		o->closed = bytes < o->messages[last].segment_bytes;
		return last;
	}
	if (o->count == MESSAGES)
		flush(lan);
	last = o->count++;
	o->messages[last] = (struct weft_udp_message){
		.port = WEFT_ROCE_PORT,
		.interface = lan->interface,
		.segment_bytes = (uint32_t)bytes,
		.count = 1,
	};
	memcpy(o->messages[last].to, route->dst, 16);
	o->pieces[last] = (struct iovec){o->bytes[last], 0};
	o->packets[last] = 0;
	o->closed = false;
	return last;
}

static int gather(struct lan_qp *q, const struct weft_roce_bytes *bytes, uint8_t *to, uint32_t n)
{
	switch (bytes->from) {
	case WEFT_ROCE_NO_BYTES:
		return 0;
	case WEFT_ROCE_OF_REQUEST:
		memcpy(to, q->sends[bytes->position % LAN_RING].at + bytes->offset, n);
		return 0;
	case WEFT_ROCE_OF_MEMORY:
		return memory_gather(q->memory, bytes->rkey, bytes->va, to, n);
	}
	return 0;
}

static int send_packet(struct weft_roce_qp *qp, const struct weft_roce_packet *packet,
		       const struct weft_roce_bytes *bytes)
{
	struct lan_qp *q = mine(qp);
	struct weft_roce_route route = qp->config.route;
	uint8_t at[SEALED_BYTES];
	uint32_t m, crc;
	size_t n = weft_roce_head_bytes(packet->opcode) + packet->payload_bytes +
		   weft_roce_pad(packet->payload_bytes) + WEFT_ROCE_ICRC_BYTES;
	int answer = gather(q, bytes, seal_begin(packet, at), packet->payload_bytes);

	if (answer)
		return answer;
	if (bytes->from == WEFT_ROCE_OF_REQUEST && qp->config.service == WEFT_ROCE_UD)
		memcpy(route.dst, weft_roce_request_at(qp, bytes->position)->route.dst, 16);
	m = message_for(q->lan, &route, n);
	seal_end(&icrc, &route, (uint16_t)q->lan->out->packets[m]++, packet, at, &crc);
	memcpy(q->lan->out->bytes[m] + q->lan->out->pieces[m].iov_len, at, n);
	q->lan->out->pieces[m].iov_len += n;
	return 0;
}

/* ---- The requester's side ---- */

static void tell(struct lan_qp *q, const struct lan_done *done)
{
	if (q->done_tail - q->done_head == 2 * LAN_RING) {
		fprintf(stderr, "completions are lost\n");
		exit(1);
	}
	q->done[q->done_tail++ % (2 * LAN_RING)] = *done;
}

static int check(struct weft_roce_qp *qp, uint64_t position)
{
	return 0;
}

static int fetched(struct weft_roce_qp *qp, uint64_t position, uint64_t offset, const uint8_t *from,
		   uint32_t bytes)
{
	memcpy(mine(qp)->sends[position % LAN_RING].at + offset, from, bytes);
	return 0;
}

static void ended(struct weft_roce_qp *qp, uint64_t position, enum weft_cause cause)
{
	struct lan_qp *q = mine(qp);

	q->dead |= !!cause;
	tell(q, &(struct lan_done){.id = q->sends[position % LAN_RING].id, .cause = cause});
}

/* ---- The responder's side ---- */

static int allows(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, uint64_t bytes,
		  uint8_t access)
{
	return memory_allows(mine(qp)->memory, rkey, va, bytes, access);
}

static int place(struct weft_roce_qp *qp, uint32_t rkey, uint64_t va, const uint8_t *from,
		 uint32_t bytes)
{
	return memory_place(mine(qp)->memory, rkey, va, from, bytes);
}

static int atomic(struct weft_roce_qp *qp, const struct weft_roce_packet *request, uint64_t *old)
{
	memory_atomic(mine(qp)->memory, request, old);
	return 0;
}

static int take(struct weft_roce_qp *qp)
{
	struct lan_qp *q = mine(qp);

	if (q->taken == q->received)
		return WEFT_ROCE_NO_RECEIVE;
	q->taken++;
	return 0;
}

static int fill(struct weft_roce_qp *qp, uint64_t offset, const uint8_t *from, uint32_t bytes)
{
	struct lan_qp *q = mine(qp);
	uint32_t i = (q->taken - 1) % LAN_RING;

	if (offset + bytes > q->receives[i].bytes)
		return WEFT_CAUSE_RECEIVE_LENGTH;
	memcpy(q->receives[i].at + offset, from, bytes);
	return 0;
}

static int end_key(struct weft_roce_qp *qp, uint32_t key)
{
	return WEFT_CAUSE_REMOTE_INVALIDATE;
}

static void received(struct weft_roce_qp *qp, const struct weft_roce_received *what)
{
	struct lan_qp *q = mine(qp);

	tell(q, &(struct lan_done){.id = q->receives[(q->taken - 1) % LAN_RING].id,
				   .receive = true,
				   .cause = what->cause,
				   .what = *what});
}

static void event(struct weft_roce_qp *qp, enum weft_event event)
{
	if (event != WEFT_EVENT_COMM_EST)
		mine(qp)->dead = true;
	mine(qp)->event = event;
}

static const struct weft_roce_world world = {
	.send = send_packet,
	.check = check,
	.fetched = fetched,
	.ended = ended,
	.allows = allows,
	.place = place,
	.atomic = atomic,
	.take = take,
	.fill = fill,
	.end_key = end_key,
	.received = received,
	.event = event,
};

/* ---- A turn ---- */

static void take_in(struct lan *lan)
{
	struct weft_udp_datagram datagram;
	int answer = weft_udp_receive(lan->udp);

	if (answer < 0) {
		errno = -answer;
		lan_fail("receiving");
	}
	while (weft_udp_next(lan->udp, &datagram))
		weft_switch_receive(&lan->sw, &datagram, lan_now_ns(), lan_now_ns());
}

static bool has_news(const struct lan *lan)
{
	for (uint32_t i = 0; i < LAN_QPS; i++)
		if (lan->qp[i].open && lan->qp[i].done_head != lan->qp[i].done_tail)
			return true;
	return false;
}

bool lan_turn(struct lan *lan, int fd, int most_ms)
{
	struct pollfd wait[2] = {{weft_udp_fd(lan->udp), POLLIN, 0}, {fd, POLLIN, 0}};
	uint64_t most_ns = (uint64_t)most_ms * 1000000u, deadline_ns, now_ns;
	struct timespec patience;

	take_in(lan);
	if (weft_switch_run(&lan->sw, BUDGET, lan_now_ns()) || has_news(lan))
		most_ns = 0;
	flush(lan);
	now_ns = lan_now_ns();
	deadline_ns = weft_switch_deadline_ns(&lan->sw);
	if (deadline_ns)
		most_ns = deadline_ns <= now_ns		   ? 0
			  : deadline_ns - now_ns < most_ns ? deadline_ns - now_ns
							   : most_ns;
	patience =
		(struct timespec){(time_t)(most_ns / 1000000000u), (long)(most_ns % 1000000000u)};
	if (!ppoll(wait, 2, &patience, NULL) && lan->fault)
		weft_fault_flush(lan->fault, lan->udp);
	return wait[1].revents;
}

/* ---- Queue pairs ---- */

void lan_open(struct lan *lan, const char *address, const char *interface)
{
	struct weft_udp_config config = {.port = WEFT_ROCE_PORT, .buffer_bytes = BUFFER_BYTES};
	uint8_t *at = lan->address;
	int answer;

	memset(lan, 0, sizeof(*lan));
	lan->out = calloc(1, sizeof(*lan->out));
	lan->interface = interface ? if_nametoindex(interface) : 0;
	if (inet_pton(AF_INET, address, at + 12) == 1)
		at[10] = at[11] = 0xff;
	else if (inet_pton(AF_INET6, address, at) != 1)
		lan_fail(address);
	memcpy(config.address, at, 16);
	config.interface = lan->interface;
	if (!icrc.math)
		weft_roce_icrc_init(&icrc, &plain_math);
	weft_switch_begin(&lan->sw, &icrc, lan->table, lan->heap, LAN_QPS);
	answer = lan->out ? weft_udp_open(&config, &lan->udp) : -ENOMEM;
	if (answer) {
		errno = -answer;
		lan_fail("port 4791");
	}
}

void lan_spoil(struct lan *lan, const struct weft_fault_config *config)
{
	lan->fault = weft_fault_open(config);
	if (!lan->fault)
		lan_fail("memory");
}

void lan_close(struct lan *lan)
{
	weft_fault_close(lan->fault);
	weft_udp_close(lan->udp);
	free(lan->out);
}

struct lan_qp *lan_connect(struct lan *lan, const struct weft_roce_config *config,
			   struct memory *memory)
{
	struct lan_qp *q = lan->qp;

	while (q->open)
		if (++q == lan->qp + LAN_QPS) {
			errno = ENOSPC;
			lan_fail("queue pairs");
		}
	memset(q, 0, sizeof(*q));
	q->open = true;
	q->lan = lan;
	q->memory = memory;
	q->event = WEFT_EVENT_COMM_EST;
	q->qp.world = &world;
	q->qp.config = *config;
	memcpy(q->qp.config.route.src, lan->address, 16);
	q->qp.config.route.src_port = q->qp.config.route.dst_port = WEFT_ROCE_PORT;
	weft_roce_open(&q->qp, q->ring, LAN_RING);
	q->port.qp = &q->qp;
	errno = -weft_switch_add(&lan->sw, &q->port);
	if (errno)
		lan_fail("a queue pair");
	return q;
}

void lan_disconnect(struct lan_qp *q)
{
	weft_switch_remove(&q->lan->sw, &q->port);
	q->open = false;
}

bool lan_post(struct lan_qp *q, const struct weft_roce_request *request, uint8_t *at, uint64_t id)
{
	uint64_t position = q->qp.requester.posted;

	if (weft_roce_post(&q->qp, request))
		return false;
	q->sends[position % LAN_RING].at = at;
	q->sends[position % LAN_RING].id = id;
	weft_switch_stir(&q->lan->sw, &q->port);
	return true;
}

bool lan_receive(struct lan_qp *q, uint8_t *at, uint64_t bytes, uint64_t id)
{
	uint32_t i = q->received % LAN_RING;

	if (q->received - q->taken == LAN_RING - 1)
		return false;
	q->receives[i].at = at;
	q->receives[i].bytes = bytes;
	q->receives[i].id = id;
	q->received++;
	return true;
}

bool lan_poll(struct lan_qp *q, struct lan_done *done)
{
	if (q->done_head == q->done_tail)
		return false;
	*done = q->done[q->done_head++ % (2 * LAN_RING)];
	return true;
}

void lan_say(const struct lan *lan)
{
	const struct weft_switch_counters *in = &lan->sw.counters;
	struct weft_roce_counters sum = {0};

	for (uint32_t i = 0; i < LAN_QPS; i++) {
		const struct weft_roce_counters *c = &lan->qp[i].qp.counters;

		sum.probes += c->probes;
		sum.sent_again += c->sent_again;
		sum.duplicates += c->duplicates;
		sum.out_of_sequence += c->out_of_sequence;
		sum.timeouts += c->timeouts;
		sum.dropped += c->dropped;
	}
	printf("went=%lu came=%lu cut=%lu wrong_icrc=%lu weak_icrc=%lu foreign=%lu sent_again=%lu "
	       "duplicates=%lu out_of_sequence=%lu timeouts=%lu probes=%lu dropped=%lu\n",
	       lan->went, in->came, lan->cut, in->wrong_icrc, in->weak_icrc, in->foreign,
	       sum.sent_again, sum.duplicates, sum.out_of_sequence, sum.timeouts, sum.probes,
	       sum.dropped);
	if (lan->fault) {
		const struct weft_fault_counters c = weft_fault_counters(lan->fault);

		printf("lost=%lu doubled=%lu late=%lu corrupted=%lu\n", c.lost, c.doubled, c.late,
		       c.corrupted);
	}
}
