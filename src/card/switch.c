/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/switch.h"

#include <errno.h>
#include <string.h>

/* ---- By number ---- */

static struct weft_switch_port **bucket(const struct weft_switch *sw, uint32_t qpn)
{
	return &sw->table[(qpn * 2654435761u >> 8) & (sw->size - 1)];
}

static struct weft_switch_port *port_of(const struct weft_switch *sw, uint32_t qpn)
{
	struct weft_switch_port *p = *bucket(sw, qpn);

	while (p && p->qp->config.qpn != qpn)
		p = p->next_same;
	return p;
}

/* ---- By deadline: a heap ---- */

static uint64_t due(const struct weft_switch_port *p)
{
	return p->qp->deadline_ns;
}

static void put_at(struct weft_switch *sw, uint32_t place, struct weft_switch_port *p)
{
	sw->heap[place] = p;
	p->place = place;
}

static void up(struct weft_switch *sw, struct weft_switch_port *p)
{
	uint32_t at = p->place;

	while (at > 1 && due(sw->heap[at / 2]) > due(p)) {
		put_at(sw, at, sw->heap[at / 2]);
		at /= 2;
	}
	put_at(sw, at, p);
}

static void down(struct weft_switch *sw, struct weft_switch_port *p)
{
	uint32_t at = p->place;

	for (;;) {
		uint32_t child = 2 * at;

		if (child < sw->timed && due(sw->heap[child + 1]) < due(sw->heap[child]))
			child++;
		if (child > sw->timed || due(sw->heap[child]) >= due(p))
			break;
		put_at(sw, at, sw->heap[child]);
		at = child;
	}
	put_at(sw, at, p);
}

static void leave_heap(struct weft_switch *sw, struct weft_switch_port *p)
{
	struct weft_switch_port *last;

	if (!p->place)
		return;
	last = sw->heap[sw->timed--];
	if (last != p) {
		put_at(sw, p->place, last);
		up(sw, last);
		down(sw, last);
	}
	p->place = 0;
}

/* To be called when the engine's deadline may have changed. */
static void note_deadline(struct weft_switch *sw, struct weft_switch_port *p)
{
	if (!due(p)) {
		leave_heap(sw, p);
		return;
	}
	if (!p->place)
		put_at(sw, ++sw->timed, p);
	up(sw, p);
	down(sw, p);
}

/* ---- By turn ---- */

void weft_switch_stir(struct weft_switch *sw, struct weft_switch_port *port)
{
	struct weft_switch_port *first = sw->ready;

	if (port->next_ready)
		return;
	if (!first) {
		port->next_ready = port->prev_ready = port;
		sw->ready = port;
		return;
	}
	port->next_ready = first;
	port->prev_ready = first->prev_ready;
	first->prev_ready->next_ready = port;
	first->prev_ready = port;
}

static void rest(struct weft_switch *sw, struct weft_switch_port *p)
{
	if (!p->next_ready)
		return;
	if (sw->ready == p)
		sw->ready = p->next_ready == p ? NULL : p->next_ready;
	p->next_ready->prev_ready = p->prev_ready;
	p->prev_ready->next_ready = p->next_ready;
	p->next_ready = p->prev_ready = NULL;
}

/* ---- A turn of one ---- */

static bool begin_turn(struct weft_switch *sw, struct weft_switch_port *p,
		       const struct weft_roce_packet *packet)
{
	return !sw->calls || sw->calls->enter(sw, p, packet);
}

static void end_turn(struct weft_switch *sw, struct weft_switch_port *p)
{
	if (sw->calls)
		sw->calls->leave(sw, p);
	note_deadline(sw, p);
}

/* ---- What comes ---- */

static struct weft_switch_port *find_engine(struct weft_switch *sw, uint32_t qpn)
{
	struct weft_switch_port *p = port_of(sw, qpn);

	return p || !sw->calls || !sw->calls->find(sw, qpn) ? p : port_of(sw, qpn);
}

/* Linux counts identifications for each pair of addresses by itself. */
static struct weft_roce_source *source_of(struct weft_switch *sw, const uint8_t from[16],
					  const uint8_t to[16], uint64_t now_ns)
{
	uint32_t oldest = 0;

	for (uint32_t i = 0; i < WEFT_SWITCH_SOURCES; i++) {
		if (sw->sources[i].last_ns && !memcmp(sw->sources[i].from, from, 16) &&
		    !memcmp(sw->sources[i].to, to, 16)) {
			sw->sources[i].last_ns = now_ns;
			return &sw->sources[i].source;
		}
		if (sw->sources[i].last_ns < sw->sources[oldest].last_ns)
			oldest = i;
	}
	memset(&sw->sources[oldest], 0, sizeof(sw->sources[oldest]));
	memcpy(sw->sources[oldest].from, from, 16);
	memcpy(sw->sources[oldest].to, to, 16);
	sw->sources[oldest].last_ns = now_ns;
	return &sw->sources[oldest].source;
}

static bool is_whole(struct weft_switch *sw, const struct weft_udp_datagram *d,
		     struct weft_roce_arrival *arrival, uint64_t since_ns, uint64_t now_ns)
{
	enum weft_roce_icrc_verdict verdict = weft_roce_icrc_check(
		sw->icrc, source_of(sw, d->from, d->to, now_ns), &arrival->route, d->at, d->bytes,
		d->segment, since_ns, now_ns, &arrival->id);

	sw->counters.wrong_icrc += verdict == WEFT_ROCE_ICRC_WRONG;
	sw->counters.weak_icrc += verdict == WEFT_ROCE_ICRC_WEAK;
	return verdict != WEFT_ROCE_ICRC_WRONG;
}

void weft_switch_receive(struct weft_switch *sw, const struct weft_udp_datagram *d,
			 uint64_t since_ns, uint64_t now_ns)
{
	struct weft_roce_arrival arrival = {
		.route = {.src_port = d->from_port, .dst_port = d->to_port},
		.traffic_class = d->traffic_class,
		.hop_limit = d->hop_limit,
		.udp_bytes = (uint16_t)d->bytes,
	};
	struct weft_roce_packet packet;
	struct weft_switch_port *port;

	sw->counters.came++;
	sw->counters.came_bytes += d->bytes;
	if (weft_roce_parse(d->at, d->bytes, &packet)) {
		sw->counters.foreign++;
		return;
	}
	memcpy(arrival.route.src, d->from, 16);
	memcpy(arrival.route.dst, d->to, 16);
	if (sw->icrc && !is_whole(sw, d, &arrival, since_ns, now_ns))
		return;
	if (sw->calls && sw->calls->datagram && weft_roce_service(packet.opcode) == WEFT_ROCE_UD) {
		sw->calls->datagram(sw, &arrival, &packet, now_ns);
		return;
	}
	port = find_engine(sw, packet.dest_qpn);
	if (!port) {
		sw->counters.no_qp++;
		return;
	}
	if (begin_turn(sw, port, &packet))
		weft_roce_receive(port->qp, &arrival, &packet, now_ns);
	end_turn(sw, port);
	weft_switch_stir(sw, port);
}

/* ---- Turns ---- */

static void do_due(struct weft_switch *sw, uint64_t now_ns)
{
	/* an engine may set a deadline that has passed: each has one turn */
	for (uint32_t most = sw->timed; most && sw->timed && due(sw->heap[1]) <= now_ns; most--) {
		struct weft_switch_port *p = sw->heap[1];

		begin_turn(sw, p, NULL);
		weft_roce_timer(p->qp, now_ns);
		end_turn(sw, p);
		weft_switch_stir(sw, p);
	}
}

bool weft_switch_run(struct weft_switch *sw, uint32_t share, uint64_t now_ns)
{
	struct weft_switch_port *p, *last;

	do_due(sw, now_ns);
	last = sw->ready ? sw->ready->prev_ready : NULL;
	while ((p = sw->ready)) {
		bool more;

		begin_turn(sw, p, NULL);
		more = weft_roce_run(p->qp, share, now_ns);
		end_turn(sw, p);
		rest(sw, p);
		if (more)
			weft_switch_stir(sw, p); /* behind the others */
		if (p == last)
			break;
	}
	return sw->ready;
}

uint64_t weft_switch_deadline_ns(const struct weft_switch *sw)
{
	return sw->timed ? due(sw->heap[1]) : 0;
}

/* ---- Taking part ---- */

void weft_switch_begin(struct weft_switch *sw, const struct weft_roce_icrc *icrc,
		       struct weft_switch_port **table, struct weft_switch_port **heap,
		       uint32_t size)
{
	memset(sw, 0, sizeof(*sw));
	sw->icrc = icrc;
	sw->table = table;
	sw->heap = heap;
	sw->size = size;
}

int weft_switch_add(struct weft_switch *sw, struct weft_switch_port *port)
{
	struct weft_switch_port **at = bucket(sw, port->qp->config.qpn);

	if (sw->count == sw->size)
		return -ENOSPC;
	if (port_of(sw, port->qp->config.qpn))
		return -EEXIST;
	port->next_ready = port->prev_ready = NULL;
	port->place = 0;
	port->next_same = *at;
	*at = port;
	sw->count++;
	return 0;
}

void weft_switch_remove(struct weft_switch *sw, struct weft_switch_port *port)
{
	struct weft_switch_port **at = bucket(sw, port->qp->config.qpn);

	rest(sw, port);
	leave_heap(sw, port);
	while (*at != port)
		at = &(*at)->next_same;
	*at = port->next_same;
	sw->count--;
}
