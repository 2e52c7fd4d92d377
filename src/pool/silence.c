/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What this process makes of the other hosts by their beats. That one is silent is an opinion of each process, and
 * takes nothing away; that one is evicted an operator has said, and it takes away what is kept for it.
 */
#include <errno.h>

#include "pool/clock.h"
#include "pool/format_host.h"
#include "pool/host.h"

#define LOOK_NS	     50000000ull
#define LEAST_GAP_NS 200000000ull

static bool has_been_evicted(const struct weft_pool_host *h)
{
	uint64_t life = atomic_load_explicit(&h->life, memory_order_relaxed);

	/* acquire: pairs with the release in weft_pool_evict */
	return life && atomic_load_explicit(&h->evicted, memory_order_acquire) == life;
}

bool weft_host_is_evicted(const struct weft_attachment *a, uint32_t host)
{
	return has_been_evicted(&a->hosts->at[host]);
}

/* A process that has not looked for long may have stood still itself, with all others of its machine. */
static uint64_t gap_ns(const struct weft_hosts *hosts)
{
	return hosts->silence_ns / 2 > LEAST_GAP_NS ? hosts->silence_ns / 2 : LEAST_GAP_NS;
}

bool weft_host_is_silent(struct weft_attachment *a, uint32_t host)
{
	struct weft_hosts *hosts = a->hosts;
	struct weft_heard *seen = &hosts->seen[host];
	uint64_t now_ns, beat;
	bool silent;

	if (weft_host_is_evicted(a, host))
		return true;
	pthread_mutex_lock(&hosts->mutex);
	now_ns = weft_clock_now_ns();
	beat = atomic_load_explicit(&hosts->at[host].beat, memory_order_relaxed);
	if (seen->beat != beat || now_ns - seen->looked_ns > gap_ns(hosts)) {
		seen->beat = beat;
		seen->since_ns = now_ns;
	}
	seen->looked_ns = now_ns;
	silent = now_ns - seen->since_ns > hosts->silence_ns;
	pthread_mutex_unlock(&hosts->mutex);
	return silent;
}

void weft_silence_look(struct weft_attachment *a)
{
	struct weft_hosts *hosts = a->hosts;
	uint64_t now_ns = weft_clock_now_ns(), silent = 0, was;

	if (now_ns - atomic_load_explicit(&hosts->looked_ns, memory_order_relaxed) < LOOK_NS)
		return;
	atomic_store_explicit(&hosts->looked_ns, now_ns, memory_order_relaxed);
	for (uint32_t i = 0; i < 1u << a->pool.host_bits; i++)
		if (i != a->pool.host && weft_host_is_silent(a, i))
			silent |= 1ull << i;
	was = atomic_exchange_explicit(&hosts->silent, silent, memory_order_relaxed);
	if (silent & ~was)
		atomic_store_explicit(&hosts->lost, true, memory_order_relaxed);
}

bool weft_pool_has_lost_host(struct weft_pool *pool)
{
	struct weft_hosts *hosts = weft_attachment(pool)->hosts;

	return hosts && atomic_exchange_explicit(&hosts->lost, false, memory_order_relaxed);
}

int weft_pool_evict(struct weft_pool *pool, uint32_t host, const char **why)
{
	struct weft_attachment *a = weft_attachment(pool);
	uint64_t begun_ns = weft_clock_now_ns(), waited_ns = 0, life;

	*why = "the pool has no such host";
	if (!a->hosts || host >= 1u << pool->host_bits)
		return -EINVAL;
	*why = "that host is this machine";
	if (host == pool->host)
		return -EINVAL;
	*why = "that host has never come";
	life = atomic_load_explicit(&a->hosts->at[host].life, memory_order_acquire);
	if (!life)
		return -EINVAL;
	*why = "that host beats: only one that is off can be evicted";
	/* twice the time, as this process may have to wait for a processor in between */
	while (!weft_host_is_silent(a, host) && waited_ns <= 2 * a->hosts->silence_ns) {
		weft_host_tick(a);
		weft_pause(LOOK_NS);
		waited_ns = weft_clock_now_ns() - begun_ns;
	}
	if (!weft_host_is_silent(a, host) ||
	    atomic_load_explicit(&a->hosts->at[host].life, memory_order_acquire) != life)
		return -EBUSY;
	/* release: pairs with the acquire in has_been_evicted */
	atomic_store_explicit(&a->hosts->at[host].evicted, life, memory_order_release);
	return 0;
}
