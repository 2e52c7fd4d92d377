/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Acknowledgements that wait, so that they go with a packet that is sent anyway: where messages were answered soon, 16
 * in a row. Programs that greet each other, and then take an acknowledgement for a signal, answer fewer. Each time that no
 * answer came, twice as many have to be before the next one waits, as there are programs that answer every second
 * message, and wait for the other's acknowledgement.
 */
#ifndef WEFT_WIRE_APE_LATE_H
#define WEFT_WIRE_APE_LATE_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_APE_LATE_FIRST 16u
#define WEFT_APE_LATE_TWICE 3u /* so often at most */

struct weft_ape_late {
	uint64_t due_ns;  /* when what waits goes by itself; 0: nothing waits */
	uint64_t came_ns; /* when the last message came, until it is answered */
	uint8_t run; /* messages that were answered soon, in a row; counted as far as are wanted */
	uint8_t in_vain; /* acknowledgements that have waited so, as far as that counts */
};

static inline bool weft_ape_late_may_wait(const struct weft_ape_late *l)
{
	return l->run >= WEFT_APE_LATE_FIRST << l->in_vain;
}

/* Something goes that the program there has been waiting for. */
static inline void weft_ape_late_answer(struct weft_ape_late *l, uint64_t soon_ns, uint64_t now_ns)
{
	if (!l->came_ns)
		return;
	if (now_ns - l->came_ns >= soon_ns)
		l->run = 0;
	else if (!weft_ape_late_may_wait(l))
		l->run++;
	l->came_ns = 0;
}

/* Whether what waits has waited in vain, and is to go. */
static inline bool weft_ape_late_is_over(struct weft_ape_late *l, uint64_t now_ns)
{
	if (!l->due_ns || l->due_ns > now_ns)
		return false;
	l->due_ns = 0;
	l->run = 0;
	l->in_vain += l->in_vain < WEFT_APE_LATE_TWICE;
	return true;
}

#endif
