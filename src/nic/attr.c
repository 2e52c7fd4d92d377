/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which state follows which, and with which attributes: table 91 of 11.2.5.2. */
#include <stddef.h>

#include "nic/qp.h"
#include "pool/sizes.h"

/* bits of enum ibv_qp_attr_mask */
#define STATE	    (1u << 0)
#define CUR_STATE   (1u << 1)
#define SQD_NOTIFY  (1u << 2)
#define ACCESS	    (1u << 3)
#define PKEY	    (1u << 4)
#define PORT	    (1u << 5)
#define QKEY	    (1u << 6)
#define AV	    (1u << 7)
#define MTU	    (1u << 8)
#define TIMEOUT	    (1u << 9)
#define RETRY	    (1u << 10)
#define RNR_RETRY   (1u << 11)
#define RQ_PSN	    (1u << 12)
#define RD_ATOMIC   (1u << 13)
#define ALT_PATH    (1u << 14)
#define RNR_TIMER   (1u << 15)
#define SQ_PSN	    (1u << 16)
#define DEST_ATOMIC (1u << 17)
#define MIGRATION   (1u << 18)
#define DEST_QPN    (1u << 20)

struct transition {
	enum weft_qp_type type;
	enum weft_qp_state from, to;
	uint32_t required, optional;
};

static const struct transition transitions[] = {
	{WEFT_QPT_RC, WEFT_QPS_RESET, WEFT_QPS_INIT, PKEY | PORT | ACCESS, 0},
	{WEFT_QPT_RC, WEFT_QPS_INIT, WEFT_QPS_INIT, 0, PKEY | PORT | ACCESS},
	{WEFT_QPT_RC, WEFT_QPS_INIT, WEFT_QPS_RTR,
	 AV | MTU | DEST_QPN | RQ_PSN | DEST_ATOMIC | RNR_TIMER, ALT_PATH | ACCESS | PKEY},
	{WEFT_QPT_RC, WEFT_QPS_RTR, WEFT_QPS_RTS, TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD_ATOMIC,
	 CUR_STATE | ALT_PATH | ACCESS | RNR_TIMER | MIGRATION},
	{WEFT_QPT_RC, WEFT_QPS_RTS, WEFT_QPS_RTS, 0,
	 CUR_STATE | ALT_PATH | ACCESS | RNR_TIMER | MIGRATION},
	{WEFT_QPT_RC, WEFT_QPS_RTS, WEFT_QPS_SQD, 0, SQD_NOTIFY},
	{WEFT_QPT_RC, WEFT_QPS_SQD, WEFT_QPS_RTS, 0,
	 CUR_STATE | ALT_PATH | ACCESS | RNR_TIMER | MIGRATION},
	{WEFT_QPT_RC, WEFT_QPS_SQD, WEFT_QPS_SQD, 0,
	 PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD_ATOMIC | DEST_ATOMIC | ALT_PATH | PKEY |
		 ACCESS | RNR_TIMER | MIGRATION},
	{WEFT_QPT_XRC_SEND, WEFT_QPS_RESET, WEFT_QPS_INIT, PKEY | PORT | ACCESS, 0},
	{WEFT_QPT_XRC_SEND, WEFT_QPS_INIT, WEFT_QPS_INIT, 0, PKEY | PORT | ACCESS},
	/* programs also give what only the other side needs */
	{WEFT_QPT_XRC_SEND, WEFT_QPS_INIT, WEFT_QPS_RTR, AV | MTU | DEST_QPN | RQ_PSN,
	 DEST_ATOMIC | RNR_TIMER | ALT_PATH | ACCESS | PKEY},
	{WEFT_QPT_XRC_SEND, WEFT_QPS_RTR, WEFT_QPS_RTS,
	 TIMEOUT | RETRY | RNR_RETRY | SQ_PSN | RD_ATOMIC,
	 CUR_STATE | ALT_PATH | ACCESS | MIGRATION},
	{WEFT_QPT_XRC_SEND, WEFT_QPS_RTS, WEFT_QPS_RTS, 0,
	 CUR_STATE | ALT_PATH | ACCESS | MIGRATION},
	{WEFT_QPT_XRC_SEND, WEFT_QPS_RTS, WEFT_QPS_SQD, 0, SQD_NOTIFY},
	{WEFT_QPT_XRC_SEND, WEFT_QPS_SQD, WEFT_QPS_RTS, 0,
	 CUR_STATE | ALT_PATH | ACCESS | MIGRATION},
	{WEFT_QPT_XRC_SEND, WEFT_QPS_SQD, WEFT_QPS_SQD, 0,
	 PORT | AV | TIMEOUT | RETRY | RNR_RETRY | RD_ATOMIC | ALT_PATH | PKEY | ACCESS |
		 MIGRATION},
	{WEFT_QPT_XRC_RECV, WEFT_QPS_RESET, WEFT_QPS_INIT, PKEY | PORT | ACCESS, 0},
	{WEFT_QPT_XRC_RECV, WEFT_QPS_INIT, WEFT_QPS_INIT, 0, PKEY | PORT | ACCESS},
	{WEFT_QPT_XRC_RECV, WEFT_QPS_INIT, WEFT_QPS_RTR,
	 AV | MTU | DEST_QPN | RQ_PSN | DEST_ATOMIC | RNR_TIMER, ALT_PATH | ACCESS | PKEY},
	{WEFT_QPT_XRC_RECV, WEFT_QPS_RTR, WEFT_QPS_RTS, TIMEOUT | SQ_PSN,
	 RETRY | RNR_RETRY | RD_ATOMIC | CUR_STATE | ALT_PATH | ACCESS | RNR_TIMER | MIGRATION},
	{WEFT_QPT_XRC_RECV, WEFT_QPS_RTS, WEFT_QPS_RTS, 0,
	 CUR_STATE | ALT_PATH | ACCESS | RNR_TIMER | MIGRATION},
	{WEFT_QPT_UC, WEFT_QPS_RESET, WEFT_QPS_INIT, PKEY | PORT | ACCESS, 0},
	{WEFT_QPT_UC, WEFT_QPS_INIT, WEFT_QPS_INIT, 0, PKEY | PORT | ACCESS},
	{WEFT_QPT_UC, WEFT_QPS_INIT, WEFT_QPS_RTR, AV | MTU | DEST_QPN | RQ_PSN,
	 ALT_PATH | ACCESS | PKEY},
	{WEFT_QPT_UC, WEFT_QPS_RTR, WEFT_QPS_RTS, SQ_PSN,
	 CUR_STATE | ALT_PATH | ACCESS | MIGRATION},
	{WEFT_QPT_UC, WEFT_QPS_RTS, WEFT_QPS_RTS, 0, CUR_STATE | ALT_PATH | ACCESS | MIGRATION},
	{WEFT_QPT_UC, WEFT_QPS_RTS, WEFT_QPS_SQD, 0, SQD_NOTIFY},
	{WEFT_QPT_UC, WEFT_QPS_SQD, WEFT_QPS_RTS, 0, CUR_STATE | ALT_PATH | ACCESS | MIGRATION},
	{WEFT_QPT_UC, WEFT_QPS_SQD, WEFT_QPS_SQD, 0, AV | ALT_PATH | ACCESS | PKEY | MIGRATION},
	{WEFT_QPT_UC, WEFT_QPS_SQE, WEFT_QPS_RTS, 0, CUR_STATE | ACCESS},
	{WEFT_QPT_UD, WEFT_QPS_RESET, WEFT_QPS_INIT, PKEY | PORT | QKEY, 0},
	{WEFT_QPT_UD, WEFT_QPS_INIT, WEFT_QPS_INIT, 0, PKEY | PORT | QKEY},
	{WEFT_QPT_UD, WEFT_QPS_INIT, WEFT_QPS_RTR, 0, PKEY | QKEY},
	{WEFT_QPT_UD, WEFT_QPS_RTR, WEFT_QPS_RTS, SQ_PSN, CUR_STATE | QKEY},
	{WEFT_QPT_UD, WEFT_QPS_RTS, WEFT_QPS_RTS, 0, CUR_STATE | QKEY},
	{WEFT_QPT_UD, WEFT_QPS_RTS, WEFT_QPS_SQD, 0, SQD_NOTIFY},
	{WEFT_QPT_UD, WEFT_QPS_SQD, WEFT_QPS_RTS, 0, CUR_STATE | QKEY},
	{WEFT_QPT_UD, WEFT_QPS_SQD, WEFT_QPS_SQD, 0, PKEY | QKEY},
	{WEFT_QPT_UD, WEFT_QPS_SQE, WEFT_QPS_RTS, 0, CUR_STATE | QKEY},
};

bool weft_qp_transition(enum weft_qp_type type, enum weft_qp_state from, enum weft_qp_state to,
			uint32_t *required, uint32_t *allowed)
{
	*required = 0;
	*allowed = STATE;
	/* a queue pair can be reset always, and put in error once it has been initialised */
	if (to == WEFT_QPS_RESET || (to == WEFT_QPS_ERR && from != WEFT_QPS_RESET))
		return true;
	for (size_t i = 0; i < sizeof(transitions) / sizeof(*transitions); i++) {
		const struct transition *m = &transitions[i];

		if (m->type != type || m->from != from || m->to != to)
			continue;
		*required = m->required;
		*allowed |= m->required | m->optional;
		return true;
	}
	return false;
}
