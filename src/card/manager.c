/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "card/manager.h"

#include <errno.h>
#include <string.h>

#include "mailbox/port.h"
#include "pool/format_mailbox.h"

#define ID_BITS	    22u		   /* as in cm/agent.c: its member stands above */
#define FORGET_NS   60000000000ull /* of a connection that was begun, or is about to end */
#define LEAVE_NS    200000000ull   /* between two DREQs */
#define LEAVE_TIMES 25u

enum stage { BEGUN, MADE, ENDING };

struct weft_manager_entry {
	struct weft_manager_entry *next;
	struct weft_address member; /* far: the other host; near: our address */
	enum stage stage;
	uint32_t our_id, their_id, their_qpn;
	uint64_t seen_ns; /* when it came to this stage, or the last DREQ of a dead member's went */
	uint32_t leaves;
};

struct weft_manager_held {
	struct weft_manager_held *next;
	uint64_t until_ns;
	uint8_t from[16], to[16];
	uint8_t bytes[WEFT_MAD_BYTES];
};

/* ---- What is remembered ---- */

static struct weft_manager_entry **bucket_of(struct weft_manager *g, uint32_t their_id)
{
	return &g->bucket[their_id * 2654435761u >> 8 & (WEFT_MANAGER_BUCKETS - 1)];
}

/* NULL at the end of the list: there is none. */
static struct weft_manager_entry **entry_at(struct weft_manager *g, uint32_t their_id,
					    const uint8_t far[16])
{
	struct weft_manager_entry **at = bucket_of(g, their_id);

	while (*at && ((*at)->their_id != their_id || memcmp((*at)->member.far, far, 16) != 0))
		at = &(*at)->next;
	return at;
}

static void strike(struct weft_manager *g, struct weft_manager_entry **at)
{
	struct weft_manager_entry *entry = *at;

	*at = entry->next;
	g->count--;
	g->calls->free(g, entry);
}

/* Notes the id and the queue pair that the other host has for the connection. Without memory it is not noted, and nothing ends the
 * connection if the member dies. */
static struct weft_manager_entry *note_id(struct weft_manager *g, struct weft_address member,
					  uint32_t their_id, uint32_t their_qpn, uint64_t now_ns)
{
	struct weft_manager_entry **at = entry_at(g, their_id, member.far), *entry = *at;

	if (!entry) {
		entry = g->calls->alloc(g, sizeof(*entry));
		if (!entry)
			return NULL;
		*at = entry;
		g->count++;
	}
	*entry = (struct weft_manager_entry){.next = entry->next,
					     .member = member,
					     .their_id = their_id,
					     .their_qpn = their_qpn,
					     .seen_ns = now_ns};
	return entry;
}

/* Remembers what a datagram that goes to the member (comes), or from it, says about a connection. */
static void remember(struct weft_manager *g, struct weft_address member, const struct weft_mad *mad,
		     bool comes, uint64_t now_ns)
{
	uint32_t their_id = comes ? mad->local_id : mad->remote_id,
		 our_id = comes ? mad->remote_id : mad->local_id;
	struct weft_manager_entry **at = entry_at(g, their_id, member.far), *entry = *at;

	if (comes && mad->kind == WEFT_MAD_REQ) {
		if (!entry)
			note_id(g, member, their_id, mad->req.qpn, now_ns);
	} else if (comes && mad->kind == WEFT_MAD_REP) {
		/* of a member that is not there nothing would end it, and a leave be taken that was asked for by a stranger */
		entry = !member.incarnation ? NULL
					    : note_id(g, member, their_id, mad->rep.qpn, now_ns);
		if (!entry)
			return;
		entry->our_id = our_id;
		entry->stage = MADE;
	} else if (!entry) {
		return;
	} else if (mad->kind == WEFT_MAD_REP) {
		entry->our_id = our_id;
		entry->stage = MADE;
	} else if (mad->kind == WEFT_MAD_DREP || mad->kind == WEFT_MAD_REJ) {
		strike(g, at);
	} else if (mad->kind == WEFT_MAD_DREQ) {
		entry->stage = ENDING;
		entry->seen_ns = now_ns;
	}
}

/* ---- From other hosts ---- */

static void refuse_stray(struct weft_manager *g, const uint8_t from[16], const struct weft_mad *mad)
{
	struct weft_conn_out out;

	if (weft_conn_answer_stray(mad, &out))
		g->calls->send(g, from, out.wire);
}

/* 0, or as weft_port_find says. */
static int find_listener(struct weft_manager *g, const struct weft_mad *mad,
			 struct weft_address *member)
{
	uint64_t service =
		mad->kind == WEFT_MAD_REQ ? mad->req.service_id : mad->sidr_req.service_id;
	struct weft_pool_port wanted = {.port = (uint16_t)service,
					.space = (uint16_t)(service >> 16)};
	struct weft_mad_ip ip;

	if (service >> 32 || weft_mad_get_ip(mad->private_data, &ip))
		return -ECONNREFUSED;
	memcpy(wanted.addr, ip.dst, 16);
	return weft_port_find(g->pool, &wanted, member);
}

static bool find_member(struct weft_manager *g, const uint8_t far[16], const struct weft_mad *mad,
			struct weft_address *member)
{
	uint32_t id = mad->kind == WEFT_MAD_SIDR_REP ? mad->local_id : mad->remote_id;
	const struct weft_manager_entry *entry = *entry_at(g, mad->local_id, far);

	/* a requester that gave up before it had an answer does not know the member's id */
	if (!id && !entry)
		return false;
	*member = weft_mailbox_address(g->pool,
				       id ? (uint16_t)(id >> ID_BITS) : entry->member.member);
	return member->incarnation;
}

static bool is_request(const struct weft_mad *mad)
{
	return mad->kind == WEFT_MAD_REQ || mad->kind == WEFT_MAD_SIDR_REQ;
}

/* 0, or -EAGAIN of a request, if it insists: no listener is there yet, or the member's mailbox is full. */
static int find_and_post(struct weft_manager *g, const uint8_t from[16], const uint8_t to[16],
			 const uint8_t bytes[WEFT_MAD_BYTES], bool insists, uint64_t now_ns)
{
	struct weft_address member = {0};
	struct weft_mad mad;
	int err, posted;

	if (weft_mad_decode(bytes, WEFT_MAD_BYTES, &mad))
		return 0;
	if (is_request(&mad))
		err = find_listener(g, &mad, &member);
	else
		err = find_member(g, from, &mad, &member) ? 0 : -ESRCH;
	memcpy(member.far, from, 16);
	memcpy(member.near, to, 16);
	posted = err ? err : weft_mailbox_post(g->pool, member, bytes, now_ns);
	if (posted == -EAGAIN && insists && is_request(&mad))
		return posted;
	if (err || posted == -ESRCH)
		refuse_stray(g, from, &mad);
	if (!posted || !is_request(&mad))
		remember(g, member, &mad, true, now_ns);
	return 0;
}

/* False: there is no room. */
static bool hold_request(struct weft_manager *g, const uint8_t from[16], const uint8_t to[16],
			 const uint8_t bytes[WEFT_MAD_BYTES], uint64_t now_ns)
{
	struct weft_manager_held **end = &g->held, *held = NULL;

	if (g->held_count < WEFT_MANAGER_HELD)
		held = g->calls->alloc(g, sizeof(*held));
	if (!held)
		return false;
	while (*end)
		end = &(*end)->next;
	*held = (struct weft_manager_held){.until_ns = now_ns + WEFT_PORT_HELD_NS};
	memcpy(held->from, from, 16);
	memcpy(held->to, to, 16);
	memcpy(held->bytes, bytes, WEFT_MAD_BYTES);
	*end = held;
	g->held_count++;
	return true;
}

static void unhold(struct weft_manager *g, struct weft_manager_held **at)
{
	struct weft_manager_held *held = *at;

	*at = held->next;
	g->held_count--;
	g->calls->free(g, held);
}

void weft_manager_arrived(struct weft_manager *g, const uint8_t from[16], const uint8_t to[16],
			  const uint8_t bytes[WEFT_MAD_BYTES], uint64_t now_ns)
{
	if (find_and_post(g, from, to, bytes, true, now_ns) &&
	    !hold_request(g, from, to, bytes, now_ns))
		find_and_post(g, from, to, bytes, false, now_ns);
}

void weft_manager_try(struct weft_manager *g, uint64_t now_ns)
{
	if (!g->held || now_ns < g->try_ns)
		return;
	g->try_ns = now_ns + WEFT_MANAGER_TRY_NS;
	for (struct weft_manager_held **at = &g->held, *held; (held = *at);)
		if (find_and_post(g, held->from, held->to, held->bytes, now_ns < held->until_ns,
				  now_ns))
			at = &held->next;
		else
			unhold(g, at);
}

/* ---- From members ---- */

void weft_manager_look(struct weft_manager *g, uint64_t now_ns)
{
	uint8_t bytes[WEFT_DATAGRAM_BYTES];
	struct weft_address member;
	struct weft_mad mad;

	while (weft_mailbox_take(g->pool, &member, bytes)) {
		if (weft_mad_decode(bytes, WEFT_MAD_BYTES, &mad))
			continue;
		remember(g, member, &mad, false, now_ns);
		g->calls->send(g, member.far, bytes);
	}
}

/* ---- In a dead member's stead ---- */

static bool has_died(const struct weft_manager *g, const struct weft_manager_entry *entry)
{
	return weft_mailbox_address(g->pool, entry->member.member).incarnation !=
	       entry->member.incarnation;
}

/* Sends a DREQ in the dead member's stead, if it is time. Returns whether that is over. */
static bool take_leave(struct weft_manager *g, struct weft_manager_entry *entry, uint64_t now_ns)
{
	struct weft_mad mad = {.kind = WEFT_MAD_DREQ,
			       .tid = entry->our_id,
			       .local_id = entry->our_id,
			       .remote_id = entry->their_id,
			       .dreq_qpn = entry->their_qpn};
	uint8_t wire[WEFT_MAD_BYTES];

	if (!entry->our_id || entry->leaves == LEAVE_TIMES)
		return true;
	if (entry->leaves && now_ns - entry->seen_ns < LEAVE_NS)
		return false;
	entry->leaves++;
	entry->seen_ns = now_ns;
	weft_mad_encode(&mad, wire);
	g->calls->send(g, entry->member.far, wire);
	return false;
}

static bool is_done_with(struct weft_manager *g, struct weft_manager_entry *entry, uint64_t now_ns)
{
	if (has_died(g, entry))
		return take_leave(g, entry, now_ns);
	return entry->stage != MADE && now_ns - entry->seen_ns > FORGET_NS;
}

void weft_manager_watch(struct weft_manager *g, uint64_t now_ns)
{
	for (uint32_t i = 0; i < WEFT_MANAGER_BUCKETS && g->count; i++)
		for (struct weft_manager_entry **at = &g->bucket[i]; *at;)
			if (is_done_with(g, *at, now_ns))
				strike(g, at);
			else
				at = &(*at)->next;
}

void weft_manager_end(struct weft_manager *g)
{
	for (uint32_t i = 0; i < WEFT_MANAGER_BUCKETS; i++)
		while (g->bucket[i])
			strike(g, &g->bucket[i]);
	while (g->held)
		unhold(g, &g->held);
}
