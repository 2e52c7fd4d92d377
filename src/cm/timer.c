/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cm/timer.h"

#include <errno.h>
#include <stdlib.h>

static struct weft_cm_id **heap; /* from 1 */
static uint32_t count, room;

static void place_timer(struct weft_cm_id *id, uint32_t at)
{
	heap[at] = id;
	id->timer = at;
}

static bool before(const struct weft_cm_id *a, const struct weft_cm_id *b)
{
	return a->conn.deadline_ns < b->conn.deadline_ns;
}

/* Puts it at `at`, or above or below, where it belongs. */
static void settle_timer(struct weft_cm_id *id, uint32_t at)
{
	for (; at > 1 && before(id, heap[at / 2]); at /= 2)
		place_timer(heap[at / 2], at);
	for (uint32_t child = 2 * at; child <= count; child = 2 * at) {
		if (child < count && before(heap[child + 1], heap[child]))
			child++;
		if (!before(heap[child], id))
			break;
		place_timer(heap[child], at);
		at = child;
	}
	place_timer(id, at);
}

static int grow_heap(void)
{
	uint32_t more = room ? room * 2 : 64;
	struct weft_cm_id **larger = reallocarray(heap, more + 1, sizeof(struct weft_cm_id *));

	if (!larger)
		return -ENOMEM;
	heap = larger;
	room = more;
	return 0;
}

int weft_timer_update(struct weft_cm_id *id)
{
	if (!id->conn.deadline_ns) {
		weft_timer_remove(id);
		return 0;
	}
	if (!id->timer) {
		if (count == room && grow_heap())
			return -ENOMEM;
		id->timer = ++count;
	}
	settle_timer(id, id->timer);
	return 0;
}

void weft_timer_remove(struct weft_cm_id *id)
{
	uint32_t at = id->timer;
	struct weft_cm_id *moved;

	if (!at)
		return;
	id->timer = 0;
	moved = heap[count--];
	if (moved != id)
		settle_timer(moved, at);
}

struct weft_cm_id *weft_timer_first(void)
{
	return count ? heap[1] : NULL;
}

void weft_timer_forget(void)
{
	count = 0;
}
