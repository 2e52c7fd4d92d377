/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The process's connection manager: which connection a datagram is for, what its state machine
 * makes of it, and what becomes of that. The mutex is held in all calls.
 */
#ifndef WEFT_CM_AGENT_H
#define WEFT_CM_AGENT_H

#include "cm/cm.h"

/* The identifier gets an end of a connection and an id for it. */
void weft_agent_register(struct weft_cm_id *id);
/* It has none any more; harmless if it never had. */
void weft_agent_unregister(struct weft_cm_id *id);
/* Sends, tells and times what an input to id->conn has brought. */
void weft_agent_apply(struct weft_cm_id *id, const struct weft_conn_out *out,
		      const struct weft_mad *mad);
/* The helper's part (service.h). Takes the mutex itself. */
uint64_t weft_agent_run(uint64_t now_ns);
/* What datagrams have come, for a thread that is here before the helper. */
void weft_agent_look(void);
/* In a fork's child: all of it is the parent's. */
void weft_agent_forget(void);

#endif
