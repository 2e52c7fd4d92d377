/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A team over a Weft torus: `weft torus run --each -- PROGRAM`. A message is one PUT, and a slot's counter says how many came. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/ape.h>

#include "team_parts.h"

#define PROCESS 0u	   /* the number of all of us on our nodes */
#define HELLO	TEAM_SLOTS /* the tag of an address that is told, beside those of messages */

struct message {
	uint64_t bytes;
	uint8_t at[];
};

static struct ape *ape;
static size_t room;			 /* of a message, with its length */
static uint8_t *inbox, *outbox;		 /* two messages a slot; one a message */
static uint64_t their_inbox[TEAM_MAX];	 /* where those of the others are */
static int buffer[TEAM_SLOTS];		 /* of the slots of the inbox */
static uint64_t received[TEAM_SLOTS];	 /* messages that we have read */
static uint64_t sent[TEAM_SLOTS];	 /* that we have sent */
static unsigned int waiting[TEAM_SLOTS]; /* PUTs that are not done */
static uint64_t heard;			 /* for ape_wait() */
static unsigned int told, known;	 /* hellos that are done; that have come */

static int must(int answer, const char *what)
{
	if (answer < 0) {
		fprintf(stderr, "cannot %s: %s\n", what, ape_strerror(answer));
		exit(1);
	}
	return answer;
}

static void *allocate(size_t bytes)
{
	void *at = ape_alloc(ape, bytes);

	if (!at)
		must(-ENOMEM, "allocate memory");
	return at;
}

/* ---- Events ---- */

static void say_hello(unsigned int rank)
{
	must(ape_send(ape, rank, PROCESS, &inbox, sizeof(inbox), HELLO), "tell an address");
}

static void hear(const struct ape_event *event)
{
	if (event->kind == APE_SENT && event->tag == HELLO && event->status == APE_NOT_READY) {
		say_hello(event->rank); /* the other has not begun yet */
	} else if (event->status != APE_OK) {
		fprintf(stderr, "a message was lost: %s\n", ape_status_str(event->status));
		exit(1);
	} else if (event->kind == APE_RECEIVED) {
		known++;
	} else if (event->tag == HELLO) {
		told++;
	} else {
		waiting[event->tag]--;
	}
}

/* Takes what has happened, or sleeps until something does. */
static void listen_once(void)
{
	struct ape_event event[16];
	int n = ape_poll(ape, event, 16);

	for (int i = 0; i < n; i++)
		hear(&event[i]);
	if (!n)
		must(ape_wait(ape, &heard, -1), "wait");
}

/* ---- Coming and going ---- */

/* Each tells each other where its inbox is. Any hello may meet any receive: the event says whose it was. */
static void meet_others(const struct team *team)
{
	static uint64_t hello[TEAM_MAX];

	for (unsigned int i = 0; i < team->ranks; i++)
		must(ape_receive(ape, &hello[i], sizeof(hello[i]), i), "receive");
	for (unsigned int i = 0; i < team->ranks; i++)
		say_hello(i);
	while (told < team->ranks || known < team->ranks) {
		struct ape_event event;

		if (!ape_poll(ape, &event, 1)) {
			must(ape_wait(ape, &heard, -1), "wait");
			continue;
		}
		hear(&event);
		if (event.kind == APE_RECEIVED)
			their_inbox[event.rank] = hello[event.tag];
	}
}

void team_begin(struct team *team, int argc, char **argv)
{
	struct ape_info info;

	(void)argc;
	(void)argv;
	must(ape_open(NULL, PROCESS, &ape), "open the node; `weft torus run` starts programs");
	ape_query(ape, &info);
	memcpy(team->size, info.size, sizeof(team->size));
	team_place(team, info.rank);
}

void team_open(struct team *team, unsigned int slots, size_t bytes)
{
	team_count_slots(slots);
	room = (sizeof(struct message) + bytes + 63) & ~(size_t)63;
	inbox = allocate(2 * team_slots * room);
	outbox = allocate(team_slots * room);
	for (unsigned int i = 0; i < team_slots; i++)
		buffer[i] = must(ape_register(ape, inbox + 2 * i * room, 2 * room, APE_MAY_PUT),
				 "register a slot");
	meet_others(team);
}

void team_end(struct team *team)
{
	team_sum(team, 0); /* no rank goes while others wait for what it has sent */
	for (unsigned int i = 0; i < team_slots; i++)
		while (waiting[i])
			listen_once();
	ape_close(ape);
}

/* ---- Messages ---- */

static struct message *outgoing(unsigned int n)
{
	return (struct message *)(outbox + n * room);
}

void *team_message(struct team *team, unsigned int n)
{
	(void)team;
	while (waiting[n])
		listen_once();
	return outgoing(n)->at;
}

/* Messages go into the two places of a slot by turns. */
void team_send(struct team *team, unsigned int n, unsigned int rank, unsigned int slot,
	       size_t bytes)
{
	uint64_t place = 2 * slot + sent[n]++ % 2;

	(void)team;
	outgoing(n)->bytes = bytes;
	must(ape_put(ape, rank, PROCESS, outgoing(n), sizeof(struct message) + bytes,
		     their_inbox[rank] + place * room, n),
	     "send");
	waiting[n]++;
}

const void *team_receive(struct team *team, unsigned int slot, size_t *bytes)
{
	const struct message *m =
		(const struct message *)(inbox + (2 * slot + received[slot] % 2) * room);

	(void)team;
	while (ape_count(ape, buffer[slot]) <= received[slot])
		listen_once();
	received[slot]++;
	*bytes = m->bytes;
	return m->at;
}
