/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cm/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define RETRY_NS 1000000u

struct waiting {
	struct waiting *next;
	struct weft_address to;
	uint8_t wire[WEFT_MAD_BYTES];
};

static struct waiting *first, **last = &first;

static int post(struct weft_address to, const uint8_t wire[WEFT_MAD_BYTES], uint64_t now_ns)
{
	return weft_cm.service->post(weft_cm.pool, to, wire, now_ns);
}

int weft_link_send(struct weft_address to, const uint8_t wire[WEFT_MAD_BYTES], uint64_t now_ns)
{
	int err = first ? -EAGAIN : post(to, wire, now_ns);
	struct waiting *w;

	if (err != -EAGAIN)
		return err == -ESRCH ? err : 0;
	w = malloc(sizeof(*w));
	if (!w)
		return 0;
	w->next = NULL;
	w->to = to;
	memcpy(w->wire, wire, WEFT_MAD_BYTES);
	*last = w;
	last = &w->next;
	weft_cm.service->kick();
	return 0;
}

bool weft_link_take(struct weft_address *from, uint8_t wire[WEFT_MAD_BYTES])
{
	return weft_cm.service->take(weft_cm.pool, from, wire);
}

uint64_t weft_link_flush(uint64_t now_ns)
{
	while (first && post(first->to, first->wire, now_ns) != -EAGAIN) {
		struct waiting *w = first;

		first = w->next;
		free(w);
	}
	if (first)
		return now_ns + RETRY_NS;
	last = &first;
	return UINT64_MAX;
}

bool weft_link_alive(struct weft_address member)
{
	return weft_cm.service->alive(weft_cm.pool, member.member, member.incarnation);
}

void weft_link_forget(void)
{
	first = NULL;
	last = &first;
}
