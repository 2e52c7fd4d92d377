/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs and their engines: how they come and go, and what they are told of requests. */
#include "card/math.h"
#include "card/wire.h"
#include "nic/errors.h"
#include "nic/gather.h"
#include "pool/format_member.h"

#define MOST_LISTED (sizeof(struct weft_wqe) + WEFT_MAX_SGE * sizeof(struct weft_pool_sge))

static struct weft_carried *carried_at(const struct weft_switch_port *port)
{
	return (struct weft_carried *)((char *)port - offsetof(struct weft_carried, port));
}

/* ---- Requests ---- */

/* A copy of the request, which its owner cannot change; NULL: its length is no longer that with which it was taken over. */
const struct weft_wqe *weft_carried_request(struct weft_carried *c, uint64_t position)
{
	const struct weft_card_hand *hand = c->hand;
	struct weft_wqe *copy = weft_wire_of(hand)->request;
	uint64_t bytes = hand->sq_stride < MOST_LISTED ? hand->sq_stride : MOST_LISTED;

	__builtin_memcpy(copy, weft_card_request(hand, c->base + position), bytes);
	if (copy->flags & WEFT_SEND_INLINE)
		return copy;
	if (copy->num_sge > (bytes - sizeof(*copy)) / sizeof(struct weft_pool_sge) ||
	    weft_gather_listed_bytes(copy) != weft_roce_request_at(&c->qp, position)->length)
		return NULL;
	return copy;
}

static void take_over(struct weft_carried *c)
{
	struct weft_card_hand *hand = c->hand;
	struct weft_wqe wqe;

	__builtin_memcpy(&wqe, weft_card_request(hand, hand->begun), sizeof(wqe));
	weft_roce_post(&c->qp,
		       &(struct weft_roce_request){
			       .opcode = (enum weft_opcode)wqe.opcode,
			       .fence = wqe.flags & WEFT_SEND_FENCE,
			       .solicited = wqe.flags & WEFT_SEND_SOLICITED,
			       .imm = wqe.imm,
			       .length = wqe.len_bytes,
			       .remote_addr = wqe.remote_addr,
			       .rkey = wqe.rkey,
			       .compare_add = wqe.compare_add,
			       .swap = wqe.swap,
			       .srqn = hand->type == WEFT_QPT_XRC_SEND ? weft_xrc_number(&wqe) : 0,
		       });
	hand->begun++;
}

static bool is_idle(const struct weft_carried *c)
{
	return c->qp.requester.posted == c->qp.requester.ended;
}

/* Reads the attributes that may change while nothing is under way. */
static void read_path(struct weft_carried *c)
{
	const struct weft_pool_path *path = &c->hand->hand->path;
	struct weft_roce_config *config = &c->qp.config;

	config->timeout = path->timeout & 31;
	config->retry_cnt = path->retry_cnt & 7;
	config->rnr_retry = path->rnr_retry & 7;
	config->max_rd_atomic =
		path->max_rd_atomic < WEFT_ROCE_FETCHES ? path->max_rd_atomic : WEFT_ROCE_FETCHES;
	c->traffic_class = path->traffic_class;
}

/* To be called before the very first request, and before the first after an error that the queue pair has survived. */
static void begin_sending(struct weft_carried *c)
{
	struct weft_card_hand *hand = c->hand;
	const struct weft_roce_requester *r = &c->qp.requester;

	c->qp.config.sq_psn = c->base == UINT64_MAX ? hand->hand->path.sq_psn & WEFT_ROCE_PSN_MASK
						    : (uint32_t)r->next & WEFT_ROCE_PSN_MASK;
	weft_roce_restart(&c->qp);
	c->base = hand->begun;
	c->resumed = hand->resumed;
}

static void take_over_all(struct weft_carried *c)
{
	struct weft_card_hand *hand = c->hand;

	if (!weft_card_has_next(hand))
		return;
	if (is_idle(c))
		read_path(c);
	if (c->base == UINT64_MAX || c->resumed != hand->resumed)
		begin_sending(c);
	while (weft_card_has_next(hand) &&
	       c->qp.requester.posted - c->qp.requester.ended < c->qp.requester.ring_size)
		take_over(c);
}

void weft_carried_tell(struct weft_carried *c, uint64_t position, enum weft_cause cause)
{
	struct weft_card_hand *hand = c->hand;

	position += c->base;
	if (!c->entered) {
		c->pending_position = position;
		c->pending_cause = cause;
	} else if (cause) {
		weft_card_fail(hand, position, cause);
	} else {
		weft_card_succeed(hand, position, weft_card_request(hand, position));
	}
}

/* Tells the owner of the responder's error, once: what a rule of the nic has refused, the nic has told already. */
void weft_carried_blame(struct weft_carried *c, enum weft_event event)
{
	if (!c->entered)
		c->pending_event = event;
	else if (!weft_responder_is_gone(&c->hand->to))
		weft_responder_blame(&c->hand->to, event);
}

static void tell_pending(struct weft_carried *c)
{
	enum weft_cause cause = c->pending_cause;
	enum weft_event event = c->pending_event;

	c->pending_cause = WEFT_CAUSE_NONE;
	c->pending_event = WEFT_EVENT_COMM_EST;
	if (cause)
		weft_card_fail(c->hand, c->pending_position, cause);
	if (event != WEFT_EVENT_COMM_EST)
		weft_carried_blame(c, event);
}

/* ---- A turn ---- */

static enum weft_roce_service service_of(uint8_t type)
{
	switch (type) {
	case WEFT_QPT_XRC_SEND:
	case WEFT_QPT_XRC_RECV:
		return WEFT_ROCE_XRC;
	default:
		return type == WEFT_QPT_UC ? WEFT_ROCE_UC : WEFT_ROCE_RC;
	}
}

/* Bytes of a message that its packets carry. */
static uint32_t packet_bytes(const struct weft_carried *c)
{
	const struct weft_wire *wire = weft_wire_of(c->hand);
	uint8_t code = c->hand->hand->path.path_mtu;
	uint32_t mtu = 128u << (code < 5 ? code : 5);

	return wire->out->medium && mtu == wire->mtu ? wire->out->medium->message_bytes : mtu;
}

/* Opens the engine with the queue pair's attributes, once that can be entered. */
static bool open_engine(struct weft_carried *c)
{
	struct weft_card_hand *hand = c->hand;
	const struct weft_pool_path *path = &hand->hand->path;
	struct weft_roce_config *config = &c->qp.config;
	uint32_t ring_size = c->qp.requester.ring_size;

	if (weft_card_try(hand) != WEFT_DONE)
		return false;
	*config = (struct weft_roce_config){
		.service = service_of(hand->type),
		.route = {.src_port = WEFT_ROCE_PORT, .dst_port = WEFT_ROCE_PORT},
		.qpn = hand->qpn,
		.dest_qpn = path->dest_qpn,
		.pkey = WEFT_WIRE_PKEY,
		.mtu = packet_bytes(c),
		.rq_psn = hand->slot->rq_psn & WEFT_ROCE_PSN_MASK,
		.min_rnr_timer = hand->slot->min_rnr_timer,
		.max_dest_rd_atomic = path->max_dest_rd_atomic < WEFT_ROCE_FETCHES
					      ? path->max_dest_rd_atomic
					      : WEFT_ROCE_FETCHES,
	};
	__builtin_memcpy(config->route.src, path->sgid, 16);
	__builtin_memcpy(config->route.dst, path->dgid, 16);
	__builtin_memcpy(hand->to.from.dgid, path->sgid, 16);
	read_path(c);
	weft_card_leave(hand);
	weft_roce_open(&c->qp, c->ring, ring_size);
	/* it sends alone */
	c->qp.responder.stopped = hand->type == WEFT_QPT_XRC_SEND;
	c->open = true;
	return true;
}

/* Nothing arrives at one of XRC that sends: its line is entered without looking at what could. */
static enum weft_outcome enter_sender(struct weft_carried *c)
{
	enum weft_outcome outcome = weft_card_try(c->hand);

	c->message.caller = c->hand->card->caller;
	c->message.next = c->hand->next_busy;
	return outcome;
}

/* A message keeps the queue that its first packet has named. */
static void name_queue(struct weft_carried *c, const struct weft_roce_packet *packet)
{
	bool names = c->hand->type == WEFT_QPT_XRC_RECV && packet &&
		     weft_roce_row(packet->opcode)->headers & WEFT_ROCE_XRCETH;

	c->message.queue = names ? &c->hand->named : NULL;
	c->message.at = &c->hand->to;
	if (names && !c->qp.responder.taken)
		c->message.request.remote_srqn = packet->srqn;
}

static enum weft_outcome enter_both(struct weft_carried *c, const struct weft_roce_packet *packet)
{
	struct weft_caller *caller = c->hand->card->caller;
	enum weft_outcome outcome;

	if (c->hand->type == WEFT_QPT_XRC_SEND)
		return enter_sender(c);
	name_queue(c, packet);
	outcome = weft_incoming_enter(&c->message, caller);
	if (outcome == WEFT_NO_RECEIVE) {
		c->lost = true;
		outcome = weft_incoming_enter(&c->message, caller);
	}
	if (outcome != WEFT_DONE)
		return outcome;
	outcome = weft_card_look_at(c->hand);
	if (outcome != WEFT_DONE)
		weft_incoming_leave(&c->message);
	return outcome;
}

static bool enter_turn(struct weft_switch *sw, struct weft_switch_port *port,
		       const struct weft_roce_packet *packet)
{
	struct weft_carried *c = carried_at(port);

	c->entered = (c->open || open_engine(c)) && enter_both(c, packet) == WEFT_DONE;
	if (!c->entered) {
		weft_carried_wait(c);
		return false;
	}
	tell_pending(c);
	if (!packet)
		take_over_all(c);
	return true;
}

static void leave_turn(struct weft_switch *sw, struct weft_switch_port *port)
{
	struct weft_carried *c = carried_at(port);

	if (c->entered)
		weft_incoming_leave(&c->message);
	c->entered = false;
}

/* ---- Coming and going ---- */

static void comes(struct weft_card_hand *hand)
{
	static const struct weft_wqe blank = {.opcode = WEFT_OP_SEND};
	struct weft_wire *wire = weft_wire_of(hand);
	uint32_t n = hand->sq_mask < WEFT_CARRIED_MOST ? hand->sq_mask + 1 : WEFT_CARRIED_MOST;
	struct weft_carried *c =
		weft_nic_alloc(wire->card.nic, sizeof(*c) + n * sizeof(c->ring[0]));

	hand->carried = c;
	if (!c)
		return; /* its peer finds silence */
	c->hand = hand;
	c->base = UINT64_MAX;
	c->pending_event = WEFT_EVENT_COMM_EST;
	c->qp.world = &weft_wire_world;
	c->qp.config.qpn = hand->qpn;
	c->qp.requester.ring = c->ring;
	c->qp.requester.ring_size = n;
	c->port.qp = &c->qp;
	weft_incoming_prepare(&c->message, &hand->to, &blank, 0);
	if (weft_switch_add(&wire->sw, &c->port)) {
		weft_nic_free(wire->card.nic, c);
		hand->carried = NULL;
	}
}

static void add_counters(struct weft_roce_counters *to, const struct weft_roce_counters *from)
{
	to->sent_again += from->sent_again;
	to->duplicates += from->duplicates;
	to->out_of_sequence += from->out_of_sequence;
	to->rnr_sent += from->rnr_sent;
	to->rnr_received += from->rnr_received;
	to->timeouts += from->timeouts;
	to->dropped += from->dropped;
}

static void goes(struct weft_card_hand *hand)
{
	struct weft_wire *wire = weft_wire_of(hand);
	struct weft_carried *c = hand->carried;

	if (!c)
		return;
	weft_late_end(c);
	weft_roce_close(&c->qp);
	add_counters(&wire->gone, &c->qp.counters);
	weft_switch_remove(&wire->sw, &c->port);
	weft_nic_free(wire->card.nic, c);
	hand->carried = NULL;
}

static void rang(struct weft_card_hand *hand)
{
	struct weft_carried *c = hand->carried;

	if (c)
		weft_switch_stir(&weft_wire_of(hand)->sw, &c->port);
}

/* A queue pair that has never rung: its peer is the first to send. */
static bool find_port(struct weft_switch *sw, uint32_t qpn)
{
	const struct weft_card_hand *hand = weft_card_find(&weft_wire_with(sw)->card, qpn);

	return hand && hand->carried;
}

/* ---- The card ---- */

static const struct weft_switch_calls calls = {
	.find = find_port,
	.enter = enter_turn,
	.leave = leave_turn,
	.datagram = weft_wire_arrived,
};

static void free_all(struct weft_wire *wire, struct weft_nic *nic)
{
	weft_nic_free(nic, wire->table);
	weft_nic_free(nic, wire->heap);
	weft_nic_free(nic, wire->request);
}

int weft_wire_begin(struct weft_wire *wire, struct weft_nic *nic, struct weft_caller *caller,
		    const uint8_t address[16], uint32_t mtu, struct weft_out *out)
{
	struct weft_pool_card *card = &nic->pool->self->card;
	uint64_t half[2];
	int err;

	*wire = (struct weft_wire){
		.card = {.comes = comes,
			 .goes = goes,
			 .rang = rang,
			 .datagram = weft_wire_datagram},
		.out = out,
		.mtu = mtu,
		.request = weft_nic_alloc(nic, MOST_LISTED),
		.table = weft_nic_alloc(nic, WEFT_WIRE_QPS * sizeof(struct weft_switch_port *)),
		.heap = weft_nic_alloc(nic,
				       (WEFT_WIRE_QPS + 1) * sizeof(struct weft_switch_port *)),
	};
	if (!wire->request || !wire->table || !wire->heap) {
		free_all(wire, nic);
		return -ENOMEM;
	}
	__builtin_memcpy(wire->address, address, 16);
	wire->net_ns = nic->pool->self->net_ns;
	wire->manager.pool = nic->pool;
	wire->manager.calls = &weft_wire_manager;
	weft_roce_icrc_init(&wire->icrc, &weft_card_math);
	weft_switch_begin(&wire->sw, out->medium && out->medium->checks ? NULL : &wire->icrc,
			  wire->table, wire->heap, WEFT_WIRE_QPS);
	wire->sw.calls = &calls;
	__builtin_memcpy(half, address, 16);
	for (int i = 0; i < 2; i++)
		atomic_store_explicit(&card->address[i], half[i], memory_order_relaxed);
	atomic_store_explicit(&card->told[WEFT_CARD_MTU], mtu, memory_order_relaxed);
	err = weft_card_begin(&wire->card, nic, caller, WEFT_CARD_BEYOND);
	if (err)
		free_all(wire, nic);
	return err;
}

void weft_wire_end(struct weft_wire *wire)
{
	struct weft_nic *nic = wire->card.nic;

	weft_manager_end(&wire->manager);
	weft_card_end(&wire->card);
	free_all(wire, nic);
}

void weft_wire_resume(struct weft_wire *wire)
{
	if (!wire->any_waits)
		return;
	wire->any_waits = wire->lacks_room = false;
	wire->again_ns = 0;
	for (const struct weft_card_hand *hand = wire->card.hands; hand; hand = hand->next) {
		struct weft_carried *c = hand->carried;

		if (!c || !c->waits)
			continue;
		c->waits = false;
		weft_switch_stir(&wire->sw, &c->port);
	}
}

bool weft_wire_run(struct weft_wire *wire, uint32_t share, uint64_t now_ns)
{
	bool more;

	if (wire->again_ns && now_ns >= wire->again_ns)
		weft_wire_resume(wire);
	more = weft_switch_run(&wire->sw, share, now_ns);
	if (wire->any_waits && !wire->again_ns)
		wire->again_ns = now_ns + WEFT_WIRE_AGAIN_NS;
	return more;
}

uint64_t weft_wire_deadline_ns(const struct weft_wire *wire)
{
	uint64_t due_ns = weft_switch_deadline_ns(&wire->sw);

	return wire->again_ns && (!due_ns || wire->again_ns < due_ns) ? wire->again_ns : due_ns;
}

void weft_wire_tell(struct weft_wire *wire)
{
	const struct weft_switch_counters *in = &wire->sw.counters;
	struct weft_pool_card *card = &wire->card.nic->pool->self->card;
	struct weft_roce_counters all = wire->gone;
	uint64_t qps = 0;

	for (const struct weft_card_hand *hand = wire->card.hands; hand; hand = hand->next) {
		const struct weft_carried *c = hand->carried;

		qps++;
		if (c)
			add_counters(&all, &c->qp.counters);
	}
	const uint64_t told[WEFT_CARD_COUNTS] = {
		[WEFT_CARD_MTU] = wire->mtu,
		[WEFT_CARD_QPS] = qps,
		[WEFT_CARD_PACKETS_OUT] = wire->out->packets,
		[WEFT_CARD_BYTES_OUT] = wire->out->sent_bytes,
		[WEFT_CARD_PACKETS_IN] = in->came,
		[WEFT_CARD_BYTES_IN] = in->came_bytes,
		[WEFT_CARD_SENT_AGAIN] = all.sent_again,
		[WEFT_CARD_DUPLICATES] = all.duplicates,
		[WEFT_CARD_OUT_OF_SEQUENCE] = all.out_of_sequence,
		[WEFT_CARD_RNR] = all.rnr_sent + all.rnr_received,
		[WEFT_CARD_TIMEOUTS] = all.timeouts,
		[WEFT_CARD_WRONG_ICRC] = in->wrong_icrc,
		[WEFT_CARD_WEAK_ICRC] = in->weak_icrc,
		[WEFT_CARD_NO_QP] = in->no_qp,
		[WEFT_CARD_UNSENT] = wire->out->unsent,
	};

	for (unsigned int i = 0; i < WEFT_CARD_COUNTS; i++)
		atomic_store_explicit(&card->told[i], told[i], memory_order_relaxed);
}
