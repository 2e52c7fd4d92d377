/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What arrives at the network interface. Nothing is believed before its footer holds. */
#include "wire/ape/ni.h"
#include "wire/ape/verbs.h"

static uint64_t get_le(const uint8_t *from, unsigned int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | from[bytes];
	return value;
}

/* ---- Buffers ---- */

static struct weft_ape_buffer *find_buffer(struct weft_ape_process *p, uint8_t right, uint64_t addr,
					   uint64_t bytes)
{
	for (unsigned int i = 0; i < WEFT_APE_BUFFERS; i++) {
		struct weft_ape_buffer *b = &p->buffer[i];

		if (b->rights & right && addr >= b->addr && bytes <= b->bytes &&
		    addr - b->addr <= b->bytes - bytes)
			return b;
	}
	return NULL;
}

/* The receive that was posted first. */
static struct weft_ape_buffer *oldest_receive(struct weft_ape_process *p)
{
	struct weft_ape_buffer *oldest = NULL;

	for (unsigned int i = 0; i < WEFT_APE_BUFFERS; i++) {
		struct weft_ape_buffer *b = &p->buffer[i];

		if (b->rights & WEFT_APE_RECEIVES && !b->taken &&
		    (!oldest || b->order < oldest->order))
			oldest = b;
	}
	return oldest;
}

static struct weft_ape_reception *find_reception(struct weft_ape_ni *c, unsigned int peer,
						 unsigned int process)
{
	for (unsigned int i = 0; i < WEFT_APE_MESSAGES; i++)
		if (c->reception[i].used && c->reception[i].peer == peer &&
		    c->reception[i].process == process)
			return &c->reception[i];
	return NULL;
}

/* Gives up a SEND that will not be whole: its receive waits for another again, at its old place in the order. */
static void abort_reception(struct weft_ape_ni *c, struct weft_ape_reception *r)
{
	c->process[r->channel].buffer[r->buffer].taken = false;
	r->used = false;
}

static void abort_receptions(struct weft_ape_ni *c, unsigned int peer)
{
	for (unsigned int i = 0; i < WEFT_APE_MESSAGES; i++)
		if (c->reception[i].used && c->reception[i].peer == peer)
			abort_reception(c, &c->reception[i]);
}

/* ---- Requests ---- */

struct packet {
	struct weft_ape_header h;
	struct weft_ape_footer f;
	const uint8_t *payload;
	struct weft_ape_peer *peer;
};

static enum weft_ape_status take_put(struct weft_ape_ni *c, const struct packet *p)
{
	struct weft_ape_process *process = &c->process[p->h.channel % WEFT_APE_PROCESSES];
	struct weft_ape_buffer *b = find_buffer(process, WEFT_APE_MAY_PUT, p->h.addr, p->h.bytes);

	if (p->h.channel >= WEFT_APE_PROCESSES || !b)
		return WEFT_APE_REMOTE_RANGE;
	if (p->h.bytes &&
	    !c->world->place(c->owner, p->h.channel, p->h.addr, p->payload, p->h.bytes))
		return WEFT_APE_REMOTE_FAULT;
	c->counters.put_bytes += p->h.bytes;
	if (p->h.type == WEFT_APE_PUT_LAST)
		c->world->count(c->owner, p->h.channel, b - process->buffer, ++b->count);
	return WEFT_APE_OK;
}

static struct weft_ape_reception *begin_reception(struct weft_ape_ni *c, const struct packet *p,
						  unsigned int process)
{
	struct weft_ape_process *to = &c->process[p->h.channel];
	struct weft_ape_buffer *b = oldest_receive(to);

	for (unsigned int i = 0; i < WEFT_APE_MESSAGES && b; i++) {
		struct weft_ape_reception *r = &c->reception[i];

		if (r->used)
			continue;
		*r = (struct weft_ape_reception){
			.used = true,
			.peer = p->peer - c->peer,
			.process = process,
			.channel = p->h.channel,
			.buffer = b - to->buffer,
		};
		b->taken = true;
		return r;
	}
	return NULL;
}

static void end_reception(struct weft_ape_ni *c, const struct packet *p,
			  struct weft_ape_reception *r)
{
	struct weft_ape_buffer *b = &c->process[r->channel].buffer[r->buffer];
	struct weft_ape_event event = {
		.kind = WEFT_APE_RECEIVED,
		.tag = b->tag,
		.bytes = r->done,
		.from = p->peer->at,
		.channel = r->process,
	};

	r->used = false;
	b->taken = false;
	b->rights = 0;
	c->world->count(c->owner, r->channel, r->buffer, ++b->count);
	c->world->event(c->owner, r->channel, &event);
}

/* Takes a packet of a SEND: its address is the sending process, and how far the message has come. */
static enum weft_ape_status take_send(struct weft_ape_ni *c, const struct packet *p)
{
	unsigned int process = p->h.addr >> 32;
	uint64_t done = p->h.addr & UINT32_MAX;
	struct weft_ape_reception *r = find_reception(c, p->peer - c->peer, process);
	enum weft_ape_status status = WEFT_APE_OK;
	const struct weft_ape_buffer *b;

	if (p->h.channel >= WEFT_APE_PROCESSES || process >= WEFT_APE_PROCESSES)
		return WEFT_APE_REMOTE_RANGE;
	if (!done && r) {
		abort_reception(c, r);
		r = NULL;
	}
	if (!done)
		r = begin_reception(c, p, process);
	if (!r || r->done != done || r->channel != p->h.channel)
		return WEFT_APE_NOT_READY;
	b = &c->process[r->channel].buffer[r->buffer];
	if (p->h.bytes > b->bytes - r->done)
		status = WEFT_APE_TOO_LONG;
	else if (p->h.bytes &&
		 !c->world->place(c->owner, r->channel, b->addr + r->done, p->payload, p->h.bytes))
		status = WEFT_APE_REMOTE_FAULT;
	if (status != WEFT_APE_OK) {
		abort_reception(c, r);
		return status;
	}
	r->done += p->h.bytes;
	c->counters.send_bytes += p->h.bytes;
	if (p->h.type == WEFT_APE_SEND_LAST)
		end_reception(c, p, r);
	return WEFT_APE_OK;
}

/* Takes a GET. False: there is no room for another, and the packet will come again. */
static bool take_get(struct weft_ape_ni *c, const struct packet *p, enum weft_ape_status *status)
{
	uint64_t bytes = get_le(p->payload, 8);
	unsigned int free;

	*status = WEFT_APE_REMOTE_RANGE;
	if (p->h.bytes != WEFT_APE_SMALL || p->h.channel >= WEFT_APE_PROCESSES ||
	    !find_buffer(&c->process[p->h.channel], WEFT_APE_MAY_GET, p->h.addr, bytes))
		return true;
	*status = WEFT_APE_OK;
	free = (unsigned int)__builtin_ctzll(~c->jobs);
	if (free >= WEFT_APE_JOBS) {
		c->counters.no_room++;
		return false;
	}
	c->job[free] = (struct weft_ape_job){
		.peer = p->peer - c->peer,
		.process = p->h.channel,
		.id = get_le(p->payload + 8, 2),
		.addr = p->h.addr,
		.bytes = bytes,
	};
	c->jobs |= 1ull << free;
	weft_ape_ni_stir(c);
	return true;
}

static void deliver_verbs(struct weft_ape_ni *c, const struct packet *p)
{
	c->counters.verbs_bytes += p->h.bytes;
	weft_ape_verbs_came(c, p->peer);
	if (c->world->verbs)
		c->world->verbs(c->owner, p->peer->at, p->payload, p->h.bytes);
}

/* ---- Answers ---- */

static struct weft_ape_message *asked_message(struct weft_ape_ni *c, const struct packet *p,
					      uint16_t id)
{
	struct weft_ape_message *m = &c->message[(id & 255) % WEFT_APE_MESSAGES];

	if (!m->used || m->opcode != WEFT_APE_OP_GET || m->generation != id >> 8 ||
	    &c->peer[m->peer] != p->peer || (id & 255) >= WEFT_APE_MESSAGES)
		return NULL;
	return m;
}

static void take_data(struct weft_ape_ni *c, const struct packet *p)
{
	struct weft_ape_message *m = asked_message(c, p, p->h.channel);
	enum weft_ape_status status = WEFT_APE_OK;

	if (!m || p->h.addr != m->done || p->h.bytes > m->bytes - m->done)
		return;
	if (p->h.bytes &&
	    !c->world->place(c->owner, m->process, m->local + m->done, p->payload, p->h.bytes))
		status = WEFT_APE_LOCAL_FAULT;
	m->done += p->h.bytes;
	m->progress_ns = c->now_ns;
	if (status != WEFT_APE_OK)
		m->status = status;
	if (p->h.type != WEFT_APE_DATA_LAST)
		return;
	weft_ape_message_end(c, m, m->status);
}

bool weft_ape_refuse(struct weft_ape_ni *c, struct weft_ape_peer *p, bool is_get, uint32_t what,
		     enum weft_ape_status status)
{
	struct weft_ape_flow *f = &p->flow[WEFT_APE_ANSWERS];
	struct weft_ape_slot slot = {
		.type = WEFT_APE_REFUSED,
		.bytes = WEFT_APE_SMALL,
		.message = WEFT_APE_NO_MESSAGE,
		.is_small = true,
	};

	if (!weft_ape_flow_has_room(f))
		return false;
	for (unsigned int i = 0; i < 4; i++)
		slot.small[i] = what >> 8 * i;
	slot.small[4] = status;
	slot.small[5] = is_get;
	weft_ape_flow_push(f, &slot, c->now_ns);
	c->counters.refused++;
	weft_ape_ni_stir(c);
	return true;
}

static void take_refused(struct weft_ape_ni *c, const struct packet *p)
{
	struct weft_ape_flow *f = &p->peer->flow[WEFT_APE_REQUESTS];
	uint32_t what = get_le(p->payload, 4);
	enum weft_ape_status status = p->payload[4];
	struct weft_ape_message *m;
	uint16_t which;

	if (p->h.bytes != WEFT_APE_SMALL || status < WEFT_APE_LOCAL_FAULT ||
	    status >= WEFT_APE_STATUSES)
		return;
	if (p->payload[5]) {
		m = asked_message(c, p, what);
		if (m)
			weft_ape_message_end(c, m, status);
		return;
	}
	if (weft_ape_seq_ahead(what, f->una) < 0 || weft_ape_seq_ahead(what, f->next) >= 0)
		return;
	which = weft_ape_flow_slot(f, what)->message;
	if (which == WEFT_APE_NO_MESSAGE || weft_ape_flow_slot(f, what)->type == WEFT_APE_NOTHING)
		return;
	weft_ape_message_fail(c, &c->message[which], status);
	weft_ape_flow_go_back(f);
}

/* ---- Flows ---- */

/* What the packet does, in its turn. False: it is not taken yet. */
static bool act(struct weft_ape_ni *c, const struct packet *p)
{
	struct weft_ape_flow *f = &p->peer->flow[WEFT_APE_REQUESTS];
	enum weft_ape_status status = WEFT_APE_OK;
	struct weft_ape_reception *r;

	if (f->refusing && p->h.type != WEFT_APE_NOTHING && p->h.type < WEFT_APE_DATA)
		return false;
	switch (p->h.type) {
	case WEFT_APE_PUT:
	case WEFT_APE_PUT_LAST:
		status = take_put(c, p);
		break;
	case WEFT_APE_SEND:
	case WEFT_APE_SEND_LAST:
		status = take_send(c, p);
		break;
	case WEFT_APE_GET:
		if (!take_get(c, p, &status))
			return false;
		break;
	case WEFT_APE_DATA:
	case WEFT_APE_DATA_LAST:
		take_data(c, p);
		break;
	case WEFT_APE_REFUSED:
		take_refused(c, p);
		break;
	case WEFT_APE_VERBS:
		deliver_verbs(c, p);
		break;
	case WEFT_APE_NOTHING:
		r = find_reception(c, p->peer - c->peer, p->h.addr >> 32);
		if (r)
			abort_reception(c, r);
		break;
	}
	if (status == WEFT_APE_OK)
		return true;
	f->refusing = weft_ape_refuse(c, p->peer, false, p->f.seq, status);
	return false;
}

static bool is_answer(unsigned int type)
{
	return type == WEFT_APE_DATA || type == WEFT_APE_DATA_LAST || type == WEFT_APE_REFUSED;
}

static void acknowledged(struct weft_ape_ni *c, struct weft_ape_peer *p, enum weft_ape_class class,
			 uint32_t ack)
{
	struct weft_ape_flow *f = &p->flow[class];
	uint32_t from = f->una;
	uint32_t count = weft_ape_flow_acked(f, ack, &c->config.times, c->now_ns);

	if (count)
		weft_ape_message_acked(c, f, from, count);
	if (count && class == WEFT_APE_REQUESTS)
		weft_ape_verbs_acked(c, p, from, count);
	if (f->again_ns)
		weft_ape_ni_wake(c, f->again_ns);
}

static void take_in_turn(struct weft_ape_ni *c, struct weft_ape_flow *f, bool end)
{
	weft_ape_flow_taken(f, end, &c->config.times, c->now_ns);
	if (f->late.due_ns)
		weft_ape_ni_wake(c, f->late.due_ns);
}

static void take_content(struct weft_ape_ni *c, const struct packet *p)
{
	enum weft_ape_class class = is_answer(p->h.type) ? WEFT_APE_ANSWERS : WEFT_APE_REQUESTS;
	struct weft_ape_flow *f;
	bool end = p->h.type == WEFT_APE_VERBS
			   ? p->h.channel
			   : p->h.type != WEFT_APE_PUT && p->h.type != WEFT_APE_SEND &&
				     p->h.type != WEFT_APE_DATA;

	/* NOTHING may stand in the place of a request or an answer: its channel says of which. */
	if (p->h.type == WEFT_APE_NOTHING && p->h.channel == WEFT_APE_NO_MESSAGE)
		class = WEFT_APE_ANSWERS;
	f = &p->peer->flow[class];
	acknowledged(c, p->peer, class, p->f.ack);
	if (weft_ape_flow_arrived(f, p->f.seq) == WEFT_APE_TAKE && act(c, p))
		take_in_turn(c, f, end);
}

static void take_control(struct weft_ape_ni *c, const struct packet *p)
{
	enum weft_ape_class class = p->h.channel % WEFT_APE_CLASSES;
	struct weft_ape_flow *f = &p->peer->flow[class];

	if (p->h.type == WEFT_APE_HELLO) {
		if (weft_ape_flow_hello(f, p->f.seq) && class == WEFT_APE_REQUESTS)
			abort_receptions(c, p->peer - c->peer);
		return;
	}
	if (p->h.type == WEFT_APE_WELCOME) {
		weft_ape_flow_welcome(f, p->f.ack, c->now_ns);
		return;
	}
	acknowledged(c, p->peer, class, p->f.ack);
	if (p->h.type == WEFT_APE_NAK && p->f.ack == f->una)
		weft_ape_flow_go_back(f);
}

/* The peer's card is another than it was: nothing of before holds. */
static void begin_anew(struct weft_ape_ni *c, struct weft_ape_peer *p, uint16_t life)
{
	bool knew = p->life;

	p->life = life;
	for (unsigned int class = 0; class < WEFT_APE_CLASSES; class ++) {
		struct weft_ape_flow *f = &p->flow[class];

		f->heard = f->refusing = f->ack_due = f->nak_due = f->nak_sent = false;
		f->late.due_ns = 0;
		f->welcome_due = false;
		if (knew)
			weft_ape_peer_fail(c, p, class, WEFT_APE_RESTARTED);
	}
	abort_receptions(c, p - c->peer);
}

/* Whether the packet is for this life of this card, from the peer's last one. */
static bool is_of_this_life(struct weft_ape_ni *c, const struct packet *p)
{
	int16_t newer = p->f.life - p->peer->life;

	if (!p->f.life || p->f.life > WEFT_APE_LIFE_MAX)
		return false;
	if (p->f.peer_life != c->config.life && p->h.type != WEFT_APE_HELLO) {
		/* The packet is for an earlier life of this card: WELCOME tells the peer which life is here. */
		if (p->f.life == p->peer->life || !p->peer->life || newer > 0) {
			p->peer->life = p->peer->life ? p->peer->life : p->f.life;
			p->peer->flow[WEFT_APE_REQUESTS].welcome_due = true;
		}
		return false;
	}
	if (p->f.life == p->peer->life)
		return true;
	if (p->peer->life && newer < 0)
		return false;
	begin_anew(c, p->peer, p->f.life);
	return true;
}

/* Hops and channel, which no footer covers, are those of the way from there to here. A packet from here to here has the channel
 * that it was given. */
static bool came_its_way(const struct packet *p)
{
	return p->h.hops == p->peer->hops &&
	       (!p->peer->hops || (p->h.vc == p->peer->vc && p->h.last));
}

static void take_packet(struct weft_ape_ni *c, struct weft_ape_word header, const uint8_t *payload,
			unsigned int words, struct weft_ape_word footer)
{
	struct packet p = {.payload = payload};
	struct weft_ape_word unsummed = footer;

	weft_ape_header_parse(header, &p.h);
	unsummed.lo &= ~(uint64_t)UINT32_MAX;
	if (!weft_ape_footer_parse(footer, &p.f)) {
		c->counters.filler++;
		return;
	}
	if (weft_ape_packet_crc(c->world->crc32c, header, payload, words, unsummed) != p.f.crc ||
	    !weft_ape_lattice_has(&c->config.node.lattice, p.f.from)) {
		c->counters.bad_crc++;
		return;
	}
	p.peer = weft_ape_ni_peer(c, p.f.from);
	if (!p.peer) {
		c->counters.no_room++;
		return;
	}
	if (!came_its_way(&p)) {
		c->counters.bad_way++;
		return;
	}
	weft_ape_ni_stir(c);
	if (!is_of_this_life(c, &p)) {
		c->counters.bad_life++;
		return;
	}
	c->counters.packets++;
	if (p.h.type >= WEFT_APE_ACK && p.h.type <= WEFT_APE_WELCOME)
		take_control(c, &p);
	else if (p.h.type != WEFT_APE_ETHERNET && p.h.type <= WEFT_APE_VERBS)
		take_content(c, &p);
}

void weft_ape_ni_deliver(void *card, unsigned int local, struct weft_ape_word word, bool end)
{
	struct weft_ape_ni *c = card;
	struct weft_ape_incoming *in = &c->incoming[local];

	if (!in->within) {
		in->header = word;
		in->words = 0;
		in->within = !end;
	} else if (!end) {
		weft_ape_word_store(word, in->payload + (size_t)in->words++ * WEFT_APE_WORD_BYTES);
	} else {
		in->within = false;
		take_packet(c, in->header, in->payload, in->words, word);
	}
}

void weft_ape_ni_deliver_packet(void *card, unsigned int local, struct weft_ape_word header,
				struct weft_ape_fifo *payload, unsigned int words,
				struct weft_ape_word footer)
{
	struct weft_ape_ni *c = card;
	const uint8_t *bytes = weft_ape_fifo_pop_bytes(payload, words, c->incoming[local].payload);

	take_packet(c, header, bytes, words, footer);
}
