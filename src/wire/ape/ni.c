/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What leaves the network interface: which packet is next, and how it is made. */
#include "wire/ape/ni.h"
#include "wire/ape/verbs.h"

#define NEVER	  UINT64_MAX
#define LAST_PART 16u /* of a patience is left to a message that has waited for all of it */

bool weft_ape_ni_config_holds(const struct weft_ape_ni_config *config)
{
	return weft_ape_node_config_holds(&config->node) && config->life &&
	       config->life <= WEFT_APE_LIFE_MAX && config->engines >= 1 &&
	       config->engines <= WEFT_APE_ENGINES && config->times.again_ns &&
	       config->times.give_up_ns;
}

void weft_ape_ni_init(struct weft_ape_ni *c, const struct weft_ape_ni_config *config,
		      struct weft_ape_word *memory, const struct weft_ape_world *world, void *owner)
{
	__builtin_memset(c, 0, offsetof(struct weft_ape_ni, peer));
	c->config = *config;
	c->world = world;
	c->owner = owner;
	for (unsigned int e = 0; e < WEFT_APE_ENGINES; e++)
		c->engine[e] = WEFT_APE_NO_MESSAGE;
	c->wake_ns = NEVER;
	weft_ape_node_init(&c->node, &config->node, memory, world->send, owner, weft_ape_ni_deliver,
			   c);
	c->node.send_words = world->send_words;
	c->node.router.deliver_packet = weft_ape_ni_deliver_packet;
}

/* The way of packets from a peer to here. */
static void find_way(const struct weft_ape_ni *c, struct weft_ape_peer *p)
{
	const struct weft_ape_lattice *l = &c->config.node.lattice;
	struct weft_ape_coord at = p->at;
	unsigned int from = WEFT_APE_PORTS;
	struct weft_ape_hop hop;

	while (weft_ape_route(l, at, c->config.node.me, from, p->vc, 0x3f, &hop) == WEFT_APE_ON) {
		weft_ape_lattice_neighbour(l, at, hop.cable, &at);
		from = hop.cable ^ 1u;
		p->vc = hop.vc;
		p->hops++;
	}
}

static void begin_peer(struct weft_ape_ni *c, unsigned int which, struct weft_ape_coord at)
{
	const struct weft_ape_lattice *l = &c->config.node.lattice;
	uint32_t sum = weft_ape_lattice_index(l, at) + weft_ape_lattice_index(l, c->config.node.me);

	c->peers |= 1ull << which;
	c->peer[which] = (struct weft_ape_peer){.at = at, .port = sum % c->config.node.locals};
	find_way(c, &c->peer[which]);
}

struct weft_ape_peer *weft_ape_ni_peer(struct weft_ape_ni *c, struct weft_ape_coord at)
{
	const struct weft_ape_lattice *l = &c->config.node.lattice;
	uint32_t index = weft_ape_lattice_index(l, at);

	for (unsigned int i = 0; i < WEFT_APE_PEERS; i++) {
		unsigned int which = (index + i) % WEFT_APE_PEERS;
		struct weft_ape_peer *p = &c->peer[which];

		if (!(c->peers >> which & 1)) {
			begin_peer(c, which, at);
			return p;
		}
		if (weft_ape_coord_equal(p->at, at))
			return p;
	}
	return NULL;
}

/* ---- Packets ---- */

static void give_packet(struct weft_ape_ni *c, struct weft_ape_peer *p, enum weft_ape_class class,
			struct weft_ape_header *h, const uint8_t *payload, uint32_t seq)
{
	struct weft_ape_flow *f = &p->flow[class];
	unsigned int words = weft_ape_payload_words(h->bytes);
	struct weft_ape_footer footer = {
		.seq = seq,
		.ack = f->expect,
		.from = c->config.node.me,
		.life = c->config.life,
		.peer_life = p->life,
	};
	struct weft_ape_word header;

	h->to = p->at;
	h->port = p->port;
	weft_ape_header_bare(h, &header);
	footer.crc = weft_ape_packet_crc(c->world->crc32c, header, payload, words,
					 weft_ape_footer_build(&footer));
	(h->type == WEFT_APE_VERBS ? weft_ape_node_lend : weft_ape_node_give)(
		&c->node, p->port, header, payload, words, weft_ape_footer_build(&footer));
	weft_ape_flow_acks(f, h->type < WEFT_APE_ACK || h->type > WEFT_APE_WELCOME,
			   &c->config.times, c->now_ns);
}

/* Sends what a class of flows has to say by itself: HELLO, WELCOME, ACK and NAK name their class as channel. */
static bool say_class(struct weft_ape_ni *c, struct weft_ape_peer *p, enum weft_ape_class class)
{
	struct weft_ape_flow *f = &p->flow[class];
	struct weft_ape_header h = {.channel = class};

	if (f->hello_due) {
		h.type = WEFT_APE_HELLO;
		weft_ape_flow_asked(f, &c->config.times, c->now_ns);
		weft_ape_ni_wake(c, f->again_ns);
	} else if (f->welcome_due) {
		h.type = WEFT_APE_WELCOME;
		f->welcome_due = false;
	} else if (f->nak_due) {
		h.type = WEFT_APE_NAK;
		f->nak_due = false;
	} else if (f->ack_due) {
		h.type = WEFT_APE_ACK;
	} else {
		return false;
	}
	give_packet(c, p, class, &h, NULL, f->una);
	return true;
}

/* The memory that a GET asks for is gone: the asker is told. */
static void job_failed(struct weft_ape_ni *c, struct weft_ape_peer *p, struct weft_ape_slot *slot)
{
	uint16_t id = slot->channel;

	for (unsigned int i = 0; i < WEFT_APE_JOBS; i++)
		if (c->job[i].id == id && &c->peer[c->job[i].peer] == p)
			c->jobs &= ~(1ull << i);
	*slot = (struct weft_ape_slot){
		.type = WEFT_APE_NOTHING,
		.channel = WEFT_APE_NO_MESSAGE,
		.message = WEFT_APE_NO_MESSAGE,
		.is_small = true,
	};
	weft_ape_refuse(c, p, true, id, WEFT_APE_REMOTE_FAULT);
}

static bool send_next(struct weft_ape_ni *c, struct weft_ape_peer *p, enum weft_ape_class class)
{
	struct weft_ape_flow *f = &p->flow[class];
	uint8_t *place = weft_ape_node_place(&c->node, p->port);
	uint8_t *to = place ? place : c->payload;
	const uint8_t *payload = to;
	struct weft_ape_slot *slot;
	uint32_t seq;

	if (!weft_ape_flow_next(f, &c->config.times, c->now_ns, &seq))
		return false;
	weft_ape_ni_wake(c, f->again_ns);
	slot = weft_ape_flow_slot(f, seq);
	if (slot->bytes % WEFT_APE_WORD_BYTES)
		__builtin_memset(to + (slot->bytes & ~15u), 0, WEFT_APE_WORD_BYTES);
	if (slot->type == WEFT_APE_VERBS)
		payload = weft_ape_verbs_payload(c, p, slot);
	else if (slot->is_small)
		__builtin_memcpy(to, slot->small, slot->bytes);
	else if (slot->bytes &&
		 !c->world->read(c->owner, slot->process, slot->from, to, slot->bytes)) {
		if (slot->message != WEFT_APE_NO_MESSAGE)
			weft_ape_message_fail(c, &c->message[slot->message], WEFT_APE_LOCAL_FAULT);
		else
			job_failed(c, p, slot);
	}
	struct weft_ape_header h = {
		.channel = slot->channel,
		.type = slot->type,
		.bytes = slot->bytes,
		.addr = slot->addr,
	};

	give_packet(c, p, class, &h, payload, seq);
	return true;
}

/* ---- What becomes packets ---- */

static uint32_t part(uint64_t bytes, uint64_t done)
{
	return bytes - done < WEFT_APE_PAYLOAD_BYTES ? bytes - done : WEFT_APE_PAYLOAD_BYTES;
}

static bool cut_job(struct weft_ape_ni *c, struct weft_ape_job *j)
{
	struct weft_ape_flow *f = &c->peer[j->peer].flow[WEFT_APE_ANSWERS];
	uint32_t bytes = part(j->bytes, j->done);
	struct weft_ape_slot slot = {
		.type = j->done + bytes == j->bytes ? WEFT_APE_DATA_LAST : WEFT_APE_DATA,
		.channel = j->id,
		.bytes = bytes,
		.process = j->process,
		.message = WEFT_APE_NO_MESSAGE,
		.addr = j->done,
		.from = j->addr + j->done,
	};

	if (!weft_ape_flow_takes(f))
		return false;
	weft_ape_flow_push(f, &slot, c->now_ns);
	j->done += bytes;
	if (j->done == j->bytes)
		c->jobs &= ~(1ull << (j - c->job));
	c->counters.get_bytes += bytes;
	return true;
}

static void put_le(uint8_t *to, uint64_t value, unsigned int bytes)
{
	for (unsigned int i = 0; i < bytes; i++)
		to[i] = value >> 8 * i;
}

static void message_slot(const struct weft_ape_ni *c, const struct weft_ape_message *m,
			 struct weft_ape_slot *slot)
{
	uint32_t bytes = part(m->bytes, m->done);
	bool last = m->done + bytes == m->bytes;

	*slot = (struct weft_ape_slot){
		.type = last ? WEFT_APE_PUT_LAST : WEFT_APE_PUT,
		.channel = m->channel,
		.bytes = bytes,
		.process = m->process,
		.message = m - c->message,
		.addr = m->remote + m->done,
		.from = m->local + m->done,
	};
	if (m->opcode == WEFT_APE_OP_SEND) {
		slot->type = last ? WEFT_APE_SEND_LAST : WEFT_APE_SEND;
		slot->addr = (uint64_t)m->process << 32 | m->done;
	} else if (m->opcode == WEFT_APE_OP_GET) {
		slot->type = WEFT_APE_GET;
		slot->bytes = WEFT_APE_SMALL;
		slot->is_small = true;
		put_le(slot->small, m->bytes, 8);
		put_le(slot->small + 8, (m - c->message) | m->generation << 8, 2);
	}
}

/*
 * From when the first packet of a message counts its patience. What has waited behind others for dead nodes has
 * used up most of it, unless its own node is known to live: else the n-th would be told after n times as long.
 */
static uint64_t since(const struct weft_ape_ni *c, const struct weft_ape_flow *f,
		      const struct weft_ape_message *m)
{
	uint64_t waited_ns = c->now_ns - m->posted_ns, give_up_ns = c->config.times.give_up_ns;
	uint64_t most_ns = give_up_ns - give_up_ns / LAST_PART;

	if (f->state != WEFT_APE_FLOW_CLOSED)
		return c->now_ns;
	return c->now_ns - (waited_ns < most_ns ? waited_ns : most_ns);
}

static bool cut_message(struct weft_ape_ni *c, struct weft_ape_message *m)
{
	struct weft_ape_flow *f = &c->peer[m->peer].flow[WEFT_APE_REQUESTS];
	struct weft_ape_slot slot;

	if (!weft_ape_flow_takes(f))
		return false;
	message_slot(c, m, &slot);
	weft_ape_flow_push(f, &slot, since(c, f, m));
	m->under_way++;
	if (m->opcode == WEFT_APE_OP_GET) {
		m->cut = true;
		return true;
	}
	m->done += slot.bytes;
	m->cut = m->done == m->bytes;
	return true;
}

static uint16_t free_message(struct weft_ape_ni *c)
{
	return ~c->messages ? __builtin_ctzll(~c->messages) : WEFT_APE_NO_MESSAGE;
}

static bool is_held_back(const struct weft_ape_ni *c, unsigned int which)
{
	for (unsigned int e = 0; e < c->config.engines; e++)
		if (c->engine[e] == which)
			return true;
	return false;
}

static void begin_message(struct weft_ape_ni *c, unsigned int process, uint16_t which)
{
	struct weft_ape_process *p = &c->process[process];
	const struct weft_ape_descriptor *d = &p->posted[p->first];
	struct weft_ape_message *m = &c->message[which];

	*m = (struct weft_ape_message){
		.used = true,
		.opcode = d->opcode,
		.process = process,
		.generation = m->generation,
		.peer = weft_ape_ni_peer(c, d->to) - c->peer,
		.channel = d->channel,
		.bytes = d->bytes,
		.local = d->local,
		.remote = d->remote,
		.tag = d->tag,
		.posted_ns = p->posted_ns[p->first],
		.begun_ns = c->now_ns,
		.progress_ns = c->now_ns,
	};
	c->messages |= 1ull << which;
	p->first = (p->first + 1) % WEFT_APE_POSTED;
	if (!--p->waiting)
		c->posters &= ~(1ull << process);
	p->stalled = d->opcode == WEFT_APE_OP_SEND;
}

static bool stands_still(const struct weft_ape_peer *p)
{
	return weft_ape_flow_stands_still(&p->flow[WEFT_APE_REQUESTS]);
}

/* Small messages to a node that has just died take places at once, and keep them until they are given up: some are left for others. */
static bool has_its_share(const struct weft_ape_ni *c, unsigned int process)
{
	unsigned int count = 0;

	for (uint64_t left = c->messages; left;)
		count += c->message[weft_ape_next_bit(&left)].process == process;
	return count >= WEFT_APE_SHARE;
}

/* What is for a node that is silent is not begun, so that it has no engine that others could have. */
static bool is_worth_an_engine(struct weft_ape_ni *c, unsigned int process)
{
	const struct weft_ape_process *p = &c->process[process];

	return !p->stalled && !has_its_share(c, process) &&
	       !stands_still(weft_ape_ni_peer(c, p->posted[p->first].to));
}

/* An engine without work: a SEND that is tried again, a message whose flow goes on, or the next process's descriptor. */
static void find_work(struct weft_ape_ni *c, unsigned int engine)
{
	unsigned int first = c->next_process % WEFT_APE_PROCESSES;
	uint16_t which;

	for (uint64_t left = c->messages; left;) {
		unsigned int i = weft_ape_next_bit(&left);

		if (!c->message[i].cut && !is_held_back(c, i) &&
		    !stands_still(&c->peer[c->message[i].peer])) {
			c->engine[engine] = i;
			return;
		}
	}
	which = free_message(c);
	for (uint64_t left = weft_ape_turned(c->posters, first);
	     left && which != WEFT_APE_NO_MESSAGE;) {
		unsigned int process = (first + weft_ape_next_bit(&left)) % WEFT_APE_PROCESSES;

		if (!is_worth_an_engine(c, process))
			continue;
		c->next_process = process + 1;
		begin_message(c, process, which);
		c->engine[engine] = which;
		return;
	}
}

static bool run_engine(struct weft_ape_ni *c, unsigned int engine)
{
	uint16_t which = c->engine[engine];

	if (which != WEFT_APE_NO_MESSAGE && stands_still(&c->peer[c->message[which].peer]))
		c->engine[engine] = WEFT_APE_NO_MESSAGE;
	if (c->engine[engine] == WEFT_APE_NO_MESSAGE)
		find_work(c, engine);
	if (c->engine[engine] == WEFT_APE_NO_MESSAGE)
		return false;
	struct weft_ape_message *m = &c->message[c->engine[engine]];
	bool cut = m->cut || cut_message(c, m);

	if (m->cut)
		c->engine[engine] = WEFT_APE_NO_MESSAGE;
	return cut;
}

/* Turns are those of jobs, then of engines, then of verbs. */
#define ENGINES_TURN WEFT_APE_JOBS

static unsigned int verbs_turn(const struct weft_ape_ni *c)
{
	return ENGINES_TURN + c->config.engines;
}

static bool take_turn(struct weft_ape_ni *c, unsigned int turn)
{
	if (turn < ENGINES_TURN)
		return cut_job(c, &c->job[turn]);
	if (turn < verbs_turn(c))
		return run_engine(c, turn - ENGINES_TURN);
	return weft_ape_verbs_cut(c);
}

/* As bits, the turns in which there may be something to do. */
static uint64_t turns_wanted(const struct weft_ape_ni *c)
{
	uint64_t wanted = c->jobs;

	if (c->messages | c->posters)
		wanted |= ((1ull << c->config.engines) - 1) << ENGINES_TURN;
	if (c->verbs_waiting)
		wanted |= 1ull << verbs_turn(c);
	return wanted;
}

/* Makes one packet more: engines, answers and verbs take turns. */
static bool make_one(struct weft_ape_ni *c)
{
	unsigned int first = c->turn;

	for (uint64_t left = weft_ape_turned(turns_wanted(c), first); left;) {
		unsigned int turn = (first + weft_ape_next_bit(&left)) % 64;

		if (take_turn(c, turn)) {
			c->turn = turn + 1;
			return true;
		}
	}
	return false;
}

static bool send_from_flows(struct weft_ape_ni *c, unsigned int port)
{
	unsigned int first = c->next_peer % WEFT_APE_PEERS;

	for (uint64_t left = weft_ape_turned(c->peers, first); left;) {
		unsigned int which = (first + weft_ape_next_bit(&left)) % WEFT_APE_PEERS;
		struct weft_ape_peer *p = &c->peer[which];

		if (p->port != port)
			continue;
		if (say_class(c, p, WEFT_APE_ANSWERS) || say_class(c, p, WEFT_APE_REQUESTS) ||
		    send_next(c, p, WEFT_APE_ANSWERS) || send_next(c, p, WEFT_APE_REQUESTS)) {
			c->next_peer = which + 1;
			return true;
		}
	}
	return false;
}

/* ---- Time ---- */

static void message_timer(struct weft_ape_ni *c, struct weft_ape_message *m)
{
	bool awaited = m->opcode == WEFT_APE_OP_GET && m->cut && !m->under_way;
	uint64_t give_up_ns = m->progress_ns + c->config.times.give_up_ns;

	if (awaited && give_up_ns <= c->now_ns) {
		weft_ape_message_end(c, m, WEFT_APE_UNREACHABLE);
	} else if (awaited) {
		weft_ape_ni_wake(c, give_up_ns);
	} else if (m->retry_ns && m->retry_ns <= c->now_ns) {
		m->retry_ns = 0;
		m->done = 0;
		m->cut = false;
		m->status = WEFT_APE_OK;
		weft_ape_ni_stir(c);
	} else if (m->retry_ns) {
		weft_ape_ni_wake(c, m->retry_ns);
	}
}

static void flow_timer(struct weft_ape_ni *c, struct weft_ape_peer *p, enum weft_ape_class class)
{
	struct weft_ape_flow *f = &p->flow[class];

	if (weft_ape_flow_late(f, c->now_ns))
		weft_ape_ni_stir(c);
	if (f->late.due_ns)
		weft_ape_ni_wake(c, f->late.due_ns);
	switch (weft_ape_flow_timer(f, &c->config.times, c->now_ns)) {
	case WEFT_APE_FLOW_GIVE_UP:
		weft_ape_peer_fail(c, p, class, WEFT_APE_UNREACHABLE);
		return;
	case WEFT_APE_FLOW_AGAIN:
		weft_ape_ni_stir(c);
		break;
	case WEFT_APE_FLOW_QUIET:
		break;
	}
	if (f->una == f->next)
		return;
	weft_ape_ni_wake(c, f->progress_ns + c->config.times.give_up_ns);
	if (f->again_ns)
		weft_ape_ni_wake(c, f->again_ns);
}

static void run_timers(struct weft_ape_ni *c)
{
	c->wake_ns = NEVER;
	for (uint64_t left = c->peers; left;) {
		struct weft_ape_peer *p = &c->peer[weft_ape_next_bit(&left)];

		for (unsigned int class = 0; class < WEFT_APE_CLASSES; class ++)
			flow_timer(c, p, class);
		weft_ape_verbs_timer(c, p);
	}
	for (unsigned int i = 0; i < WEFT_APE_MESSAGES; i++)
		if (c->messages >> i & 1)
			message_timer(c, &c->message[i]);
}

void weft_ape_ni_beat(struct weft_ape_ni *c, unsigned int cable, const struct weft_ape_beat *beat,
		      uint64_t now_ns)
{
	c->now_ns = now_ns;
	weft_ape_node_beat(&c->node, cable, beat, now_ns);
}

void weft_ape_ni_beats(struct weft_ape_ni *c, unsigned int cable, const uint64_t *quad,
		       unsigned int count, uint64_t now_ns)
{
	c->now_ns = now_ns;
	weft_ape_node_beats(&c->node, cable, quad, count, now_ns);
}

static bool port_is_taken(struct weft_ape_ni *c, unsigned int port)
{
	return weft_ape_node_waiting(&c->node, port) || !weft_ape_node_has_room(&c->node, port);
}

/* A port gets a packet when none waits behind the one that leaves. */
static bool fill_port(struct weft_ape_ni *c, unsigned int port)
{
	if (port_is_taken(c, port))
		return false;
	if (!(c->dry >> port & 1) && send_from_flows(c, port))
		return true;
	c->dry |= 1u << port;
	if (!make_one(c))
		return false;
	/* of all that was dry that packet's flow is not; one that the port has taken leaves it as it was */
	if (!send_from_flows(c, port))
		c->dry = 0;
	return true;
}

bool weft_ape_ni_step(struct weft_ape_ni *c, uint64_t now_ns)
{
	bool moved = false, full = false;

	c->now_ns = now_ns;
	if (c->wake_ns <= now_ns)
		run_timers(c);
	for (unsigned int port = 0; port < c->config.node.locals && !c->quiet; port++) {
		bool gave = fill_port(c, port);

		moved |= gave;
		full |= gave || port_is_taken(c, port);
	}
	c->quiet |= !full;
	return weft_ape_node_step(&c->node, now_ns) || moved;
}

uint64_t weft_ape_ni_deadline(const struct weft_ape_ni *c)
{
	uint64_t node = weft_ape_node_deadline(&c->node);

	return node < c->wake_ns ? node : c->wake_ns;
}
