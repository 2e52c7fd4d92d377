/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Descriptors, and the messages that they become. */
#include "wire/ape/ni.h"
#include "wire/ape/verbs.h"

#define ADDRESSES (1ull << 48)

static const char *const names[WEFT_APE_STATUSES] = {
	[WEFT_APE_OK] = "done",
	[WEFT_APE_BAD_OPCODE] = "no such opcode",
	[WEFT_APE_BAD_FLAGS] = "bits that must be zero are not",
	[WEFT_APE_BAD_NODE] = "no node of the lattice",
	[WEFT_APE_BAD_CHANNEL] = "no such process there",
	[WEFT_APE_BAD_LENGTH] = "more than 2 GiB",
	[WEFT_APE_BAD_REMOTE] = "a remote range beyond 48 bits",
	[WEFT_APE_BAD_LOCAL] = "a local range that wraps",
	[WEFT_APE_NO_PEER] = "the card speaks with as many nodes as it can",
	[WEFT_APE_LOCAL_FAULT] = "the local memory is not there",
	[WEFT_APE_REMOTE_RANGE] = "no buffer there has this range and right",
	[WEFT_APE_REMOTE_FAULT] = "the remote memory is not there",
	[WEFT_APE_TOO_LONG] = "longer than the receive that it met",
	[WEFT_APE_NOT_READY] = "no receive was posted there",
	[WEFT_APE_UNREACHABLE] = "the node does not answer",
	[WEFT_APE_RESTARTED] = "the node's card began anew",
};

const char *weft_ape_status_str(enum weft_ape_status status)
{
	return names[status];
}

static uint64_t load(const uint8_t *bytes, unsigned int count)
{
	uint64_t value = 0;

	while (count--)
		value = value << 8 | bytes[count];
	return value;
}

void weft_ape_descriptor_load(const uint8_t bytes[WEFT_APE_DESCRIPTOR_BYTES],
			      struct weft_ape_descriptor *d)
{
	*d = (struct weft_ape_descriptor){
		.opcode = bytes[0],
		.flags = bytes[1] | bytes[6] | bytes[7],
		.channel = load(bytes + 2, 2),
		.to = weft_ape_coord_unpack(load(bytes + 4, 2)),
		.bytes = load(bytes + 8, 8),
		.local = load(bytes + 16, 8),
		.remote = load(bytes + 24, 8),
		.tag = load(bytes + 32, 8),
	};
	for (unsigned int i = 40; i < WEFT_APE_DESCRIPTOR_BYTES; i++)
		d->flags |= bytes[i];
}

static enum weft_ape_status judge_descriptor(struct weft_ape_ni *c,
					     const struct weft_ape_descriptor *d)
{
	if (d->opcode >= WEFT_APE_OPS)
		return WEFT_APE_BAD_OPCODE;
	if (d->flags)
		return WEFT_APE_BAD_FLAGS;
	if (!weft_ape_lattice_has(&c->config.node.lattice, d->to))
		return WEFT_APE_BAD_NODE;
	if (d->channel >= WEFT_APE_PROCESSES)
		return WEFT_APE_BAD_CHANNEL;
	if (d->bytes > WEFT_APE_MESSAGE_BYTES)
		return WEFT_APE_BAD_LENGTH;
	if (d->opcode != WEFT_APE_OP_SEND &&
	    (d->remote >= ADDRESSES || d->bytes > ADDRESSES - d->remote))
		return WEFT_APE_BAD_REMOTE;
	if (d->bytes && d->local + d->bytes - 1 < d->local)
		return WEFT_APE_BAD_LOCAL;
	if (!weft_ape_ni_peer(c, d->to))
		return WEFT_APE_NO_PEER;
	return WEFT_APE_OK;
}

bool weft_ape_ni_post(struct weft_ape_ni *c, unsigned int process,
		      const struct weft_ape_descriptor *d, uint64_t now_ns)
{
	struct weft_ape_process *p = &c->process[process];
	struct weft_ape_event event = {
		.kind = WEFT_APE_SENT, .tag = d->tag, .from = d->to, .channel = d->channel};
	unsigned int place;

	c->now_ns = now_ns;
	if (p->waiting == WEFT_APE_POSTED)
		return false;
	event.status = judge_descriptor(c, d);
	if (event.status != WEFT_APE_OK) {
		c->world->event(c->owner, process, &event);
		return true;
	}
	place = (p->first + p->waiting++) % WEFT_APE_POSTED;
	p->posted[place] = *d;
	p->posted_ns[place] = now_ns;
	c->posters |= 1ull << process;
	weft_ape_ni_stir(c);
	return true;
}

/* ---- Ends ---- */

/* Makes engines, and packets that are still under way, forget the message. */
static void let_message_go(struct weft_ape_ni *c, const struct weft_ape_message *m)
{
	struct weft_ape_flow *f = &c->peer[m->peer].flow[WEFT_APE_REQUESTS];
	uint16_t which = m - c->message;

	for (unsigned int e = 0; e < c->config.engines; e++)
		if (c->engine[e] == which)
			c->engine[e] = WEFT_APE_NO_MESSAGE;
	for (uint32_t seq = f->una; m->under_way && seq != f->next; seq = weft_ape_seq_add(seq, 1))
		if (weft_ape_flow_slot(f, seq)->message == which)
			weft_ape_flow_slot(f, seq)->message = WEFT_APE_NO_MESSAGE;
}

void weft_ape_message_end(struct weft_ape_ni *c, struct weft_ape_message *m,
			  enum weft_ape_status status)
{
	struct weft_ape_event event = {
		.kind = WEFT_APE_SENT,
		.status = status,
		.tag = m->tag,
		.bytes = m->bytes,
		.from = c->peer[m->peer].at,
		.channel = m->channel,
	};

	let_message_go(c, m);
	if (m->opcode == WEFT_APE_OP_SEND)
		c->process[m->process].stalled = false;
	m->used = false;
	c->messages &= ~(1ull << (m - c->message));
	m->generation++;
	weft_ape_ni_stir(c);
	c->world->event(c->owner, m->process, &event);
}

/* To be called when none of the message's packets is under way any more. */
static void settle_message(struct weft_ape_ni *c, struct weft_ape_message *m)
{
	if (m->status == WEFT_APE_NOT_READY && c->now_ns - m->begun_ns < c->config.patience_ns) {
		m->retry_ns = c->now_ns + c->config.not_ready_ns;
		weft_ape_ni_wake(c, m->retry_ns);
		return;
	}
	if (m->opcode == WEFT_APE_OP_GET && m->status == WEFT_APE_OK) {
		m->progress_ns = c->now_ns; /* now its data are awaited */
		return;
	}
	weft_ape_message_end(c, m, m->status);
}

void weft_ape_message_acked(struct weft_ape_ni *c, struct weft_ape_flow *f, uint32_t from,
			    uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		uint16_t which = weft_ape_flow_slot(f, weft_ape_seq_add(from, i))->message;
		struct weft_ape_message *m = &c->message[which % WEFT_APE_MESSAGES];

		if (which == WEFT_APE_NO_MESSAGE)
			continue;
		m->under_way--;
		if (m->cut && !m->under_way)
			settle_message(c, m);
	}
}

/* Turns the slot's packet into NOTHING, which takes its place, and at the receiver ends a SEND of which a part has come. */
static void make_nothing(struct weft_ape_slot *slot)
{
	if (slot->type != WEFT_APE_SEND && slot->type != WEFT_APE_SEND_LAST)
		slot->addr = ADDRESSES - 1;
	slot->type = WEFT_APE_NOTHING;
	slot->bytes = 0;
	slot->is_small = true;
}

void weft_ape_message_fail(struct weft_ape_ni *c, struct weft_ape_message *m,
			   enum weft_ape_status status)
{
	struct weft_ape_flow *f = &c->peer[m->peer].flow[WEFT_APE_REQUESTS];

	m->status = status;
	m->cut = true;
	for (uint32_t seq = f->una; seq != f->next; seq = weft_ape_seq_add(seq, 1)) {
		struct weft_ape_slot *slot = weft_ape_flow_slot(f, seq);

		if (slot->message == m - c->message && slot->type != WEFT_APE_NOTHING)
			make_nothing(slot);
	}
	if (!m->under_way)
		settle_message(c, m);
}

void weft_ape_peer_fail(struct weft_ape_ni *c, struct weft_ape_peer *p, enum weft_ape_class class,
			enum weft_ape_status status)
{
	unsigned int which = p - c->peer;

	weft_ape_flow_close(&p->flow[class]);
	weft_ape_ni_stir(c); /* descriptors may wait for the flow */
	if (class == WEFT_APE_REQUESTS)
		weft_ape_verbs_lost(c, p);
	for (unsigned int i = 0; i < WEFT_APE_JOBS && class == WEFT_APE_ANSWERS; i++)
		if (c->job[i].peer == which)
			c->jobs &= ~(1ull << i);
	for (unsigned int i = 0; i < WEFT_APE_MESSAGES && class == WEFT_APE_REQUESTS; i++)
		if (c->message[i].used && c->message[i].peer == which)
			weft_ape_message_end(c, &c->message[i], status);
}

/* ---- Buffers ---- */

bool weft_ape_ni_register_at(struct weft_ape_ni *c, unsigned int process, unsigned int buffer,
			     uint8_t rights, uint64_t addr, uint64_t bytes, uint64_t tag)
{
	struct weft_ape_buffer *b = &c->process[process].buffer[buffer];

	if (!rights || bytes > ADDRESSES || addr > ADDRESSES - bytes || b->rights)
		return false;
	*b = (struct weft_ape_buffer){
		.rights = rights, .addr = addr, .bytes = bytes, .tag = tag, .order = ++c->orders};
	return true;
}

int weft_ape_ni_register(struct weft_ape_ni *c, unsigned int process, uint8_t rights, uint64_t addr,
			 uint64_t bytes, uint64_t tag)
{
	for (unsigned int i = 0; i < WEFT_APE_BUFFERS; i++)
		if (!c->process[process].buffer[i].rights)
			return weft_ape_ni_register_at(c, process, i, rights, addr, bytes, tag)
				       ? (int)i
				       : -1;
	return -1;
}

bool weft_ape_ni_unregister(struct weft_ape_ni *c, unsigned int process, unsigned int buffer)
{
	struct weft_ape_buffer *b = &c->process[process].buffer[buffer];

	if (!b->rights || b->taken)
		return false;
	b->rights = 0;
	return true;
}

bool weft_ape_ni_withdraw(struct weft_ape_ni *c, unsigned int process, unsigned int buffer)
{
	struct weft_ape_buffer *b = &c->process[process].buffer[buffer];

	for (unsigned int i = 0; i < WEFT_APE_MESSAGES && b->taken; i++)
		if (c->reception[i].used && c->reception[i].channel == process &&
		    c->reception[i].buffer == buffer)
			c->reception[i].used = false;
	b->taken = false;
	return weft_ape_ni_unregister(c, process, buffer);
}

void weft_ape_ni_leave(struct weft_ape_ni *c, unsigned int process)
{
	c->process[process].waiting = 0;
	c->posters &= ~(1ull << process);
	for (unsigned int i = 0; i < WEFT_APE_MESSAGES; i++)
		if (c->message[i].used && c->message[i].process == process)
			weft_ape_message_fail(c, &c->message[i], WEFT_APE_LOCAL_FAULT);
	for (unsigned int i = 0; i < WEFT_APE_BUFFERS; i++)
		weft_ape_ni_withdraw(c, process, i);
}

bool weft_ape_ni_is_quiet(const struct weft_ape_ni *c, unsigned int process)
{
	for (unsigned int i = 0; i < WEFT_APE_MESSAGES; i++)
		if (c->message[i].used && c->message[i].process == process)
			return false;
	return !c->process[process].waiting;
}
