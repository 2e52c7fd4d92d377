/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The words of scripts that check something: completions, events, bytes. */
#include "nic/cq.h"
#include "nic/qp.h"
#include "pool/sge.h"
#include "script.h"

#include <string.h>

#define QUARTER (ENDS_BYTES / 4)

static const struct {
	const char *word;
	enum weft_wc_status status;
} statuses[] = {
	{"ok", WEFT_WC_SUCCESS},
	{"flush", WEFT_WC_WR_FLUSH_ERR},
	{"access", WEFT_WC_REM_ACCESS_ERR},
	{"request", WEFT_WC_REM_INV_REQ_ERR},
	{"op", WEFT_WC_REM_OP_ERR},
	{"retry", WEFT_WC_RETRY_EXC_ERR},
	{"rnr", WEFT_WC_RNR_RETRY_EXC_ERR},
	{"prot", WEFT_WC_LOC_PROT_ERR},
	{"len", WEFT_WC_LOC_LEN_ERR},
	{"qpop", WEFT_WC_LOC_QP_OP_ERR},
};

void script_settle(void)
{
	if (script_now.held)
		world_look();
	else
		script_now.in->settle();
}

static struct weft_cq *cq_of(uint64_t wr_id)
{
	return wr_id > 100 ? &ends_peer_cq : &world.cq;
}

void script_expect(uint64_t wr_id, const char *status)
{
	struct weft_wc wc;

	script_settle();
	if (weft_cq_poll(cq_of(wr_id), 1, &wc, 0) != 1)
		fail_msg("%s: no completion where that of %lu was to be %s", script_now.name,
			 (unsigned long)wr_id, status);
	for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
		if (!strcmp(status, statuses[i].word)) {
			if (wc.wr_id != wr_id || wc.status != statuses[i].status)
				fail_msg("%s: a completion of %lu with status %u where that of %lu "
					 "was to be %s",
					 script_now.name, (unsigned long)wc.wr_id, wc.status,
					 (unsigned long)wr_id, status);
			return;
		}
	fail_msg("%s: %s is no status", script_now.name, status);
}

void script_expect_none(uint64_t wr_id)
{
	struct weft_wc wc;

	script_settle();
	if (weft_cq_poll(cq_of(wr_id), 1, &wc, 0))
		fail_msg("%s: a completion of %lu with status %u where none was to be",
			 script_now.name, (unsigned long)wc.wr_id, wc.status);
}

void script_none(void)
{
	script_expect_none(1);
}

void script_peer_none(void)
{
	script_expect_none(101);
}

void script_drained(void)
{
	script_settle();
	if (world.drained_events != ++script_now.drained)
		fail_msg("%s: %u events of SQ_DRAINED, not %u", script_now.name,
			 world.drained_events, script_now.drained);
}

void script_undrained(void)
{
	script_settle();
	if (world.drained_events != script_now.drained)
		fail_msg("%s: SQ_DRAINED came too soon", script_now.name);
}

void script_quarters(const struct end *e, const char *quarters)
{
	uint8_t m[ENDS_BYTES + 1];

	script_settle();
	e->kind->read(e, 0, m, sizeof(m));
	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		if (m[i] != (uint8_t)quarters[i / QUARTER])
			fail_msg("%s: byte %u of %s is %c, not %c", script_now.name, i,
				 e == &ends_near ? "near" : "peer", m[i], quarters[i / QUARTER]);
	assert_int_equal(m[ENDS_BYTES], e == &ends_peer ? 'p' : m[ENDS_BYTES]);
}

void script_word(const struct end *e, uint64_t at, uint64_t value)
{
	uint64_t seen;

	script_settle();
	e->kind->read(e, ENDS_WORDS + 8 * at, &seen, 8);
	if (seen != value)
		fail_msg("%s: word %lu of %s is %lu, not %lu", script_now.name, (unsigned long)at,
			 e == &ends_near ? "near" : "peer", (unsigned long)seen,
			 (unsigned long)value);
}

/* A program that polls the last byte of a message must see all of it then: checks that at any time. */
void script_check_poller(void)
{
	uint8_t m[ENDS_BYTES];

	ends_peer.kind->read(&ends_peer, ENDS_BYTES - 1, &m[ENDS_BYTES - 1], 1);
	if (m[ENDS_BYTES - 1] != 'n')
		return;
	ends_peer.kind->read(&ends_peer, 0, m, ENDS_BYTES);
	for (uint32_t i = 0; i < ENDS_BYTES; i++)
		if (m[i] != 'n')
			fail_msg("%s: the last byte is there before byte %u", script_now.name, i);
}
