/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/landing.h"

#include <errno.h>
#include <stdlib.h>

int weft_landing_begin(struct weft_landing *l, uint32_t buffers, uint32_t slots,
		       uint32_t slot_bytes, uint32_t bytes, uint32_t footer_bytes, uint8_t *memory)
{
	*l = (struct weft_landing){slots, slot_bytes, bytes, slot_bytes - footer_bytes, memory};
	if (!slots)
		return 0;
	l->free = malloc((size_t)buffers * slots * sizeof(*l->free));
	l->left = malloc(buffers * sizeof(*l->left));
	if (!l->free || !l->left) {
		weft_landing_end(l);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < buffers; i++)
		weft_landing_reset(l, i);
	return 0;
}

void weft_landing_end(struct weft_landing *l)
{
	free(l->free);
	free(l->left);
}

static uint32_t *stack(const struct weft_landing *l, uint32_t buffer)
{
	return l->free + (size_t)buffer * l->slots;
}

void weft_landing_reset(struct weft_landing *l, uint32_t buffer)
{
	if (!l->slots)
		return;
	if (buffer == l->buffer)
		l->offered = 0;
	l->left[buffer] = l->slots;
	for (uint32_t i = 0; i < l->slots; i++)
		stack(l, buffer)[i] = l->slots - 1 - i;
}

/* The i-th of those offered. */
static uint32_t *offered_place(const struct weft_landing *l, uint32_t i)
{
	return stack(l, l->buffer) + l->left[l->buffer] - 1 - i;
}

void weft_landing_offer(struct weft_landing *l, uint32_t buffer, uint32_t most,
			struct weft_stream_places *places)
{
	l->buffer = buffer;
	l->offered = l->left[buffer] < most ? l->left[buffer] : most;
	if (l->offered > WEFT_STREAM_RUN)
		l->offered = WEFT_STREAM_RUN;
	l->used = 0;
	places->count = l->offered;
	places->bytes = l->longest;
	for (uint32_t i = 0; i < l->offered; i++)
		places->at[i] = l->memory + (size_t)buffer * l->bytes +
				(size_t)*offered_place(l, i) * l->slot_bytes;
}

void weft_landing_withdraw(struct weft_landing *l)
{
	l->offered = 0;
}

uint32_t weft_landing_take(struct weft_landing *l, uint32_t buffer, uint32_t place, bool *lies)
{
	*lies = place != WEFT_STREAM_NOWHERE && buffer == l->buffer && place < l->offered;
	if (*lies) {
		l->used |= 1ull << place;
		return *offered_place(l, place);
	}
	return stack(l, buffer)[--l->left[buffer]];
}

void weft_landing_settle(struct weft_landing *l)
{
	uint32_t kept = l->offered ? l->left[l->buffer] - l->offered : 0;

	/* pushes the places that were not used back onto the stack: the last offered lies lowest */
	for (uint32_t i = l->offered; i--;)
		if (!(l->used >> i & 1))
			stack(l, l->buffer)[kept++] = *offered_place(l, i);
	if (l->offered)
		l->left[l->buffer] = kept;
	l->offered = 0;
}
