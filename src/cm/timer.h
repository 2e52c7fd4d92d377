/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The identifiers whose connections wait for a time (conn.deadline_ns): a heap. The mutex is held in
 * all calls. */
#ifndef WEFT_CM_TIMER_H
#define WEFT_CM_TIMER_H

#include "cm/cm.h"

/* conn.deadline_ns may have changed. -ENOMEM: it is not timed. */
int weft_timer_update(struct weft_cm_id *id);
void weft_timer_remove(struct weft_cm_id *id);
/* The one that is due first, or NULL. */
struct weft_cm_id *weft_timer_first(void);
void weft_timer_forget(void); /* all of them */

#endif
