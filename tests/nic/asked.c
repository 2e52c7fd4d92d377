/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "asked.h"

#include <errno.h>
#include <string.h>

#include "ends.h"
#include "pool/format_qp.h"
#include "pool/format_region.h"

#define ASKS 64u

enum kind { FREE, COPY, ATOMIC };

static struct ask {
	enum kind kind;
	bool write, add, answered;
	uint64_t va, id, len_bytes, at, compare_add, swap, value;
	uint64_t conn; /* the peer's conn word: the grant that the asker relies on */
	int error;
	uint8_t bounce[ENDS_BYTES];
} asks[ASKS];

static bool is_held;

void asked_begin(void)
{
	memset(asks, 0, sizeof(asks));
	is_held = false;
}

void asked_hold(bool held)
{
	is_held = held;
}

/* ---- The helper ---- */

static uint64_t conn_of_peer(void)
{
	return ends_peer.qp.nic ? atomic_load(&ends_peer.qp.slot->conn) : 0;
}

static int carry_out_on_device(struct ask *ask)
{
	if (ask->kind == COPY)
		return world.devices->copy(ask->id, ask->va, ask->bounce, ask->len_bytes,
					   ask->write);
	return world.devices->change(ask->id, ask->va, ask->add, ask->compare_add, ask->swap,
				     &ask->value);
}

static void carry_out(struct ask *ask)
{
	uint8_t *there = (uint8_t *)(uintptr_t)ask->va;
	uint64_t old;

	ask->answered = true;
	ask->error =
		conn_of_peer() != ask->conn ? -ESRCH
		: atomic_load(&world.pool->mrs[(uint32_t)ask->id >> WEFT_KEY_BITS].id) != ask->id
			? -EACCES
			: 0;
	if (ask->error)
		return;
	if (weft_mr_on_device(&world.pool->mrs[(uint32_t)ask->id >> WEFT_KEY_BITS])) {
		ask->error = carry_out_on_device(ask);
		return;
	}
	if (ask->kind == COPY) {
		memcpy(ask->write ? there : ask->bounce, ask->write ? ask->bounce : there,
		       ask->len_bytes);
		return;
	}
	memcpy(&old, there, 8);
	ask->value = old;
	old = ask->add ? old + ask->compare_add : old == ask->compare_add ? ask->swap : old;
	memcpy(there, &old, 8);
}

void asked_work(void)
{
	for (struct ask *ask = asks; ask < asks + ASKS && !is_held; ask++)
		if (ask->kind && !ask->answered)
			carry_out(ask);
}

/* ---- The machine ---- */

/* The entry that later->ask names for this memory, found again as process/late.c does it. FREE: it is
 * asked for anew. */
static struct ask *find(struct weft_later *later, const struct ask *wanted)
{
	uint16_t *name = &later->ask[wanted->write];
	struct ask *ask = *name ? &asks[*name - 1] : NULL;

	if (ask && ask->kind == wanted->kind && ask->va == wanted->va && ask->id == wanted->id &&
	    ask->len_bytes == wanted->len_bytes && ask->at == wanted->at &&
	    ask->compare_add == wanted->compare_add && ask->swap == wanted->swap)
		return ask;
	if (ask)
		ask->kind = FREE;
	for (ask = asks; ask < asks + ASKS && ask->kind; ask++)
		;
	assert_true(ask < asks + ASKS);
	*name = (uint16_t)(ask - asks + 1);
	return ask;
}

static int ask_for(struct ask *ask, const struct ask *wanted)
{
	*ask = *wanted;
	ask->conn = conn_of_peer();
	return -EINPROGRESS;
}

/* Between the bounce buffer and near's memory, which may be a device's, too. 0 or an error. */
static int fill(const struct weft_in_place *memory, uint8_t *bounce, void *here, uint64_t len_bytes,
		bool write)
{
	if (memory->here_id)
		return world.devices->copy(memory->here_id, (uintptr_t)here, bounce, len_bytes,
					   !write);
	memcpy(write ? bounce : here, write ? here : bounce, len_bytes);
	return 0;
}

int asked_copy(void *context, const struct weft_caller *caller, const struct weft_in_place *memory,
	       void *here, uint64_t len_bytes, bool write)
{
	struct ask wanted = {.kind = COPY,
			     .write = write,
			     .va = memory->va,
			     .id = memory->id,
			     .len_bytes = len_bytes};
	struct ask *ask;
	int err;

	assert_non_null(memory->later);
	assert_in_range(len_bytes, 1, ENDS_BYTES);
	wanted.at = memory->later->at;
	ask = find(memory->later, &wanted);
	if (!ask->kind) {
		err = write ? fill(memory, wanted.bounce, here, len_bytes, true) : 0;
		return err ? err : ask_for(ask, &wanted);
	}
	if (!ask->answered)
		return -EINPROGRESS;
	return ask->error || write ? ask->error : fill(memory, ask->bounce, here, len_bytes, false);
}

int asked_atomic(void *context, const struct weft_caller *caller,
		 const struct weft_in_place *memory, bool add, uint64_t compare_add, uint64_t swap,
		 uint64_t *value)
{
	struct ask wanted = {.kind = ATOMIC,
			     .add = add,
			     .va = memory->va,
			     .id = memory->id,
			     .len_bytes = 8,
			     .compare_add = compare_add,
			     .swap = swap};
	struct ask *ask;

	assert_non_null(memory->later);
	ask = find(memory->later, &wanted);
	if (!ask->kind)
		return ask_for(ask, &wanted);
	*value = ask->value;
	return ask->answered ? ask->error : -EINPROGRESS;
}

bool asked_answered(void *context, const struct weft_later *later, uint64_t now_ns)
{
	for (int write = 0; write < 2; write++)
		if (later->ask[write] && !asks[later->ask[write] - 1].answered)
			return false;
	return true;
}

bool asked_carried_out(void *context, const struct weft_later *later, uint64_t *value)
{
	const struct ask *ask = later->ask[0] ? &asks[later->ask[0] - 1] : NULL;

	if (!ask || ask->kind != ATOMIC || !ask->answered || ask->error)
		return false;
	*value = ask->value;
	return true;
}

void asked_take_back(void *context, struct weft_later *later)
{
	for (int write = 0; write < 2; write++)
		if (later->ask[write]) {
			asks[later->ask[write] - 1].kind = FREE;
			later->ask[write] = 0;
		}
}
