/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * tests/verbs/errors.tsv with the peer beyond a wire: each row that concerns what the engine does is
 * carried out between two queue pairs, and ends with the status, the receive and the peer's event that it says.
 * What the owner of a queue pair does on its own (flushes, completion queues) is none of the engine's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "rig.h"

#define FIELDS 8
#define BYTES  64u

enum field { VERB, CAUSE, STATUS, STATE, EVENT, RECEIVE, PEER, PEER_EVENT };

struct play {
	struct rig near, peer;
	bool silent;
	uint32_t shift; /* of the remote address */
	enum weft_opcode opcode;
	uint64_t length;
};

static const char *const status_names[] = {
	[WEFT_WC_SUCCESS] = "SUCCESS",
	[WEFT_WC_LOC_LEN_ERR] = "LOC_LEN_ERR",
	[WEFT_WC_LOC_QP_OP_ERR] = "LOC_QP_OP_ERR",
	[WEFT_WC_LOC_PROT_ERR] = "LOC_PROT_ERR",
	[WEFT_WC_REM_INV_REQ_ERR] = "REM_INV_REQ_ERR",
	[WEFT_WC_REM_ACCESS_ERR] = "REM_ACCESS_ERR",
	[WEFT_WC_REM_OP_ERR] = "REM_OP_ERR",
	[WEFT_WC_RETRY_EXC_ERR] = "RETRY_EXC_ERR",
	[WEFT_WC_RNR_RETRY_EXC_ERR] = "RNR_RETRY_EXC_ERR",
};

static const char *status_of(enum weft_cause cause)
{
#define STATUS_OF(name, status, clause, words) [WEFT_CAUSE_##name] = WEFT_WC_##status,
	static const uint8_t statuses[] = {WEFT_CAUSES(STATUS_OF)};
#undef STATUS_OF

	return status_names[statuses[cause]];
}

static const char *event_of(const struct rig *r)
{
	if (!r->nevents)
		return "-";
	return r->event == WEFT_EVENT_QP_REQ_ERR      ? "QP_REQ_ERR"
	       : r->event == WEFT_EVENT_QP_ACCESS_ERR ? "QP_ACCESS_ERR"
						      : "QP_FATAL";
}

static bool starts(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

static void unmap(struct rig *peer)
{
	peer->unmapped = true;
	peer->fill = WEFT_CAUSE_RECEIVE_MEMORY;
}

/* Arranges for one of the causes of a row. False: it is none that concerns the engine. */
static bool arrange(struct play *p, const char *cause)
{
	struct rig *peer = &p->peer;

	if (starts(cause, "more than 2 GiB"))
		p->length = (1ull << 31) + 1;
	else if (starts(cause, "atomic of 4"))
		p->length = 4;
	else if (starts(cause, "atomic of 16"))
		p->length = 16;
	else if (starts(cause, "max_rd_atomic 0"))
		p->near.qp.config.max_rd_atomic = 0;
	else if (starts(cause, "lkey") || starts(cause, "from ") || starts(cause, "into ") ||
		 starts(cause, "more than the region"))
		p->near.check = WEFT_CAUSE_LOCAL_KEY;
	else if (starts(cause, "rkey") || starts(cause, "to "))
		peer->key = RIG_KEY + 1;
	else if (starts(cause, "peer without"))
		peer->rights = 0;
	else if (starts(cause, "peer's max_dest"))
		peer->qp.config.max_dest_rd_atomic = 0;
	else if (starts(cause, "unaligned by 4"))
		p->shift = 4;
	else if (starts(cause, "unaligned by 1"))
		p->shift = 1;
	else if (starts(cause, "longer than the receive"))
		peer->receive_bytes = BYTES - 1;
	else if (starts(cause, "receive of no bytes"))
		peer->receive_bytes = 0;
	else if (starts(cause, "its lkey") || starts(cause, "receive's lkey") ||
		 starts(cause, "receive in what") || starts(cause, "receive beyond"))
		peer->fill = peer->receive_bytes < BYTES ? 0 : WEFT_CAUSE_RECEIVE_KEY;
	else if (starts(cause, "memory unmapped"))
		unmap(peer);
	else if (starts(cause, "no receive"))
		peer->receives = 0;
	else if (starts(cause, "peer in") || starts(cause, "peer connected") ||
		 starts(cause, "peer destroyed") || starts(cause, "number of") ||
		 starts(cause, "address of"))
		p->silent = true;
	else
		return false;
	if (starts(cause, "no receive, rnr_retry 0"))
		p->near.qp.config.rnr_retry = p->near.qp.requester.rnr_left = 0;
	if (starts(cause, "no receive, rnr_retry 6"))
		p->near.qp.config.rnr_retry = p->near.qp.requester.rnr_left = 6;
	return true;
}

static bool begin(struct play *p, const char *verb, char *causes)
{
	static const char *const verbs[] = {
		[WEFT_OP_WRITE] = "WRITE",	   [WEFT_OP_WRITE_IMM] = "WRITE_IMM",
		[WEFT_OP_SEND] = "SEND",	   [WEFT_OP_SEND_IMM] = "SEND_IMM",
		[WEFT_OP_READ] = "READ",	   [WEFT_OP_CMP_SWAP] = "CMP_SWAP",
		[WEFT_OP_FETCH_ADD] = "FETCH_ADD",
	};

	rig_open(&p->near, WEFT_ROCE_RC, 0);
	rig_open(&p->peer, WEFT_ROCE_RC, 4);
	p->silent = false;
	p->shift = 0;
	for (p->opcode = 0; p->opcode <= WEFT_OP_FETCH_ADD; p->opcode++)
		if (!strcmp(verbs[p->opcode], verb))
			break;
	p->length = weft_op_is_atomic(p->opcode) ? 8 : BYTES;
	for (char *next, *cause = causes; cause; cause = next) {
		next = strstr(cause, "; ");
		if (next) {
			*next = 0;
			next += 2;
		}
		if (p->opcode > WEFT_OP_FETCH_ADD || !arrange(p, cause))
			return false;
	}
	return true;
}

/* Carries all that one has sent to the other. Returns whether there was anything. */
static bool carry(struct rig *from, struct rig *to)
{
	static uint8_t bytes[RIG_MEMORY];
	uint32_t n = from->nsent;

	for (uint32_t i = 0; i < n; i++) {
		struct weft_roce_packet packet = from->sent[i];

		packet.dest_qpn = RIG_QPN;
		packet.payload = bytes;
		rig_receive(to, &packet);
	}
	rig_clear(from);
	return n;
}

static void play(struct play *p)
{
	rig_post(&p->near, p->opcode, p->length);
	p->near.ring[0].remote_addr += p->shift;
	for (int i = 0; i < 1000 && !p->near.ended; i++) {
		rig_run(&p->near);
		if (p->silent)
			rig_clear(&p->near);
		bool moved = carry(&p->near, &p->peer);

		rig_run(&p->peer);
		moved |= carry(&p->peer, &p->near);
		if (!moved && p->near.qp.deadline_ns) {
			p->near.now_ns = p->near.qp.deadline_ns;
			weft_roce_timer(&p->near.qp, p->near.now_ns);
		}
	}
}

static void judge(const struct play *p, char **field, const char *line)
{
	const char *receive = p->peer.nreceived ? status_of(p->peer.received.cause) : "-";

	if (p->near.ended != 1 || strcmp(status_of(p->near.cause), field[STATUS]) ||
	    strcmp(receive, field[RECEIVE]) || strcmp(event_of(&p->peer), field[PEER_EVENT]) ||
	    p->near.qp.requester.state != WEFT_ROCE_STOPPED)
		fail_msg("%s: %s, receive %s, the peer hears %s", line, status_of(p->near.cause),
			 receive, event_of(&p->peer));
	if (p->near.placed + p->peer.placed + p->peer.filled + p->peer.atomics)
		fail_msg("%s: bytes have changed", line);
}

static void each_row(void **state)
{
	FILE *file = fopen(*state, "r");
	unsigned int played = 0, others = 0;
	static struct play p;
	char line[300], copy[300];

	assert_non_null(file);
	while (fgets(line, sizeof(line), file)) {
		char *field[FIELDS + 1] = {0}, *rest = copy;

		strcpy(copy, line);
		for (int i = 0; i <= FIELDS && rest; i++)
			field[i] = strsep(&rest, "\t\n");
		if (line[0] == '#' || !field[PEER_EVENT] || !strcmp(field[VERB], "verb"))
			continue;
		if (!begin(&p, field[VERB], field[CAUSE])) {
			others++;
			continue;
		}
		play(&p);
		judge(&p, field, line);
		played++;
	}
	fclose(file);
	print_message("# %u rows played, %u are the owner's\n", played, others);
	assert_true(played >= 200);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(each_row, argv[argc - 1]),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
