/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A card for the pool of its environment: `card SEED [PART_BYTES [FATE]]`. It plays the addresses of all
 * members of its network namespace, says so on its output, and ends when its input does, with the number of
 * requests that it has carried. Each letter on its input it answers with one, once everything that was posted
 * before has ended or waits for its peer. It reaches memory in place as the kernel lets it, and not by the
 * owner's helper. FATE (fate.h), where it is built with steps: what becomes of it after it has said that it
 * is ready.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "courier.h"
#include "fate.h"
#include "nic/nic.h"
#include "pool/clock.h"
#include "pool/format_member.h"
#include "pool/format_region.h"

#define IDLE_NS	 1000000
#define WATCH_NS 100000000ull

static struct weft_nic nic;
static struct courier courier;

/* ---- What the nic needs of its machine ---- */

static void *zeroed(void *context, size_t bytes)
{
	void *at = aligned_alloc(64, (bytes + 63) & ~63ull);

	return at ? memset(at, 0, bytes) : NULL;
}

static void free_it(void *context, void *at)
{
	free(at);
}

static void nothing(void *context)
{
}

static uint32_t not_told_apart(void *context)
{
	return 0;
}

static uint64_t stamp_ns(void *context)
{
	return weft_clock_now_ns();
}

static void copy(uint8_t *to, const uint8_t *from, size_t bytes)
{
	memmove(to, from, bytes);
}

static int reach(void *context, const struct weft_caller *caller,
		 const struct weft_in_place *memory, void *here, uint64_t bytes, bool write)
{
	const struct weft_pool_member *m = weft_pool_member(nic.pool, memory->grant->member);
	struct iovec local = {here, bytes}, remote = {(void *)(uintptr_t)memory->va, bytes};
	uint64_t id = memory->id;
	ssize_t n;

	if (atomic_load(memory->grant->word) != memory->grant->was)
		return -ESRCH;
	if (atomic_load(&nic.pool->mrs[(uint32_t)id >> WEFT_KEY_BITS].id) != id)
		return -EACCES;
	n = write ? process_vm_writev((pid_t)m->pid, &local, 1, &remote, 1, 0)
		  : process_vm_readv((pid_t)m->pid, &local, 1, &remote, 1, 0);
	return n == (ssize_t)bytes ? 0 : errno == ESRCH ? -ESRCH : -EFAULT;
}

/* Atomic with respect to all that this card carries, and to nothing else. */
static int change(void *context, const struct weft_caller *caller,
		  const struct weft_in_place *memory, bool add, uint64_t compare_add, uint64_t swap,
		  uint64_t *value)
{
	uint64_t to;
	int err = reach(context, caller, memory, value, sizeof(*value), false);

	if (err || (!add && *value != compare_add))
		return err;
	to = add ? *value + compare_add : swap;
	return reach(context, caller, memory, &to, sizeof(to), true);
}

static const struct weft_machine machine = {
	.alloc = zeroed,
	.free = free_it,
	.copy = copy,
	.memory = {[WEFT_MEMORY_THERE] = {reach, change}},
	.yield = nothing,
	.self = not_told_apart,
	.kick = nothing,
	.stamp_ns = stamp_ns,
};

/* ---- Addresses ---- */

static void publish(const uint8_t gid[16])
{
	struct weft_pool_member *self = nic.pool->self;
	struct weft_pool_gid *at = &self->gid[self->ngids];
	uint64_t half[2];

	if (weft_member_has_gid(self, gid) || self->ngids == WEFT_MEMBER_GIDS)
		return;
	memcpy(half, gid, 16);
	at->half[0] = half[0];
	at->half[1] = half[1];
	atomic_fetch_or(&at->guard, 1);
	self->ngids++;
}

static void follow(void)
{
	const struct weft_pool_member *m;
	uint8_t gid[16];

	for (uint16_t i = 0; (m = weft_pool_member(nic.pool, i)); i++)
		for (uint32_t k = 0; m != nic.pool->self && k < m->ngids; k++)
			if (m->net_ns == nic.pool->self->net_ns && weft_gid_read(&m->gid[k], gid))
				publish(gid);
}

/* ---- Work, and letters ---- */

static void look_around(uint64_t now_ns)
{
	static uint64_t looked_ns;

	follow();
	if (now_ns - looked_ns < WATCH_NS)
		return;
	looked_ns = now_ns;
	weft_pool_watch(nic.pool);
	weft_card_sweep(&courier.card);
}

static bool asked;

static bool goes_on(int patience_ms)
{
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	char letter;

	if (poll(&in, 1, patience_ms) <= 0)
		return true;
	asked = read(STDIN_FILENO, &letter, 1) == 1;
	return asked;
}

static void answer(void)
{
	if (!asked || !courier_rests(&courier, weft_clock_now_ns()))
		return;
	follow();
	asked = write(STDOUT_FILENO, ".", 1) != 1;
}

/* A card that was ever asked must see the next letter, too, while it has nothing to do. */
static void sleep_a_while(void)
{
	static bool is_asked;

	is_asked |= asked;
	if (!is_asked)
		weft_pool_sleep(nic.pool, IDLE_NS);
	else if (!asked)
		goes_on(IDLE_NS / 1000000);
}

int main(int argc, char **argv)
{
	static char where[4096];
	struct weft_caller caller;
	const char *why;
	int err = weft_pool_get(NULL, &nic.pool, where, &why);

	if (err || argc < 2) {
		fprintf(stderr, "card: %s\n", err ? why : "a seed must be given");
		return 1;
	}
	nic.machine = &machine;
	weft_pool_caller_get(nic.pool, &caller);
	caller.thread = 0;
	courier.random = strtoull(argv[1], NULL, 0) | 1;
	courier.part_bytes = argc > 2 ? (uint32_t)atoi(argv[2]) : 0;
	if (courier_begin(&courier, &nic, &caller))
		return 1;
	follow();
	printf("ready\n");
	fflush(stdout);
#ifdef WEFT_STEPS
	fate_begin(argc > 3 ? argv[3] : NULL);
#endif
	for (uint64_t now_ns = weft_clock_now_ns(); goes_on(0); now_ns = weft_clock_now_ns()) {
		bool busy = false;

		for (int i = 0; i < 64; i++)
			busy |= courier_step(&courier, now_ns);
		look_around(now_ns);
		answer();
		if (!busy)
			sleep_a_while();
	}
	courier_end(&courier);
	printf("%llu carried, %llu refused\n", (unsigned long long)courier.carried,
	       (unsigned long long)courier.refused);
	weft_pool_caller_put(nic.pool, &caller);
	weft_pool_put(nic.pool);
	return 0;
}
