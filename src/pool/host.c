/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/host.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_member.h"
#include "pool/step.h"

#define BEAT_NS	       50000000ull
#define NAP_LEAST_NS   50000u
#define NAP_BRIEF_NS   1000000u
#define NAP_MOST_NS    20000000u
#define LINGER_NS      100000000u /* naps stay brief for so long */
#define LIFE_BITS      20u	  /* of incarnations, below the life of the host */
#define MILLISECOND_NS 1000000ull

void weft_host_name(const struct weft_pool_host *h, char name[WEFT_HOST_NAME + 1])
{
	size_t i;

	for (i = 0; i < WEFT_HOST_NAME && h->name[i]; i++)
		name[i] = h->name[i] > ' ' && h->name[i] <= '~' ? h->name[i] : '?';
	name[i] = '\0';
}

/* ---- Coming ---- */

/* Whether members with another home beat there: within the time after which they would be silent to all others. */
static bool is_taken(const struct weft_pool_host *h, uint64_t silence_ns)
{
	uint64_t begun_ns = weft_clock_now_ns(), waited_ns = 0;
	uint64_t beat = atomic_load_explicit(&h->beat, memory_order_relaxed);

	while (waited_ns <= silence_ns) {
		if (atomic_load_explicit(&h->beat, memory_order_relaxed) != beat)
			return true;
		weft_pause(silence_ns);
		waited_ns = weft_clock_now_ns() - begun_ns;
	}
	return false;
}

/* Two machines that take one number at the same time both come; then only one of their homes is the host's. */
static bool is_ours(const struct weft_attachment *a)
{
	return atomic_load_explicit(&a->hosts->at[a->pool.host].home, memory_order_relaxed) ==
	       a->pool.home->id;
}

/* The life that our home is in has been given up for us. */
static bool is_evicted(const struct weft_attachment *a)
{
	return atomic_load_explicit(&a->hosts->at[a->pool.host].evicted, memory_order_relaxed) ==
	       a->pool.home->life;
}

static bool any_of_ours_lives(struct weft_attachment *a)
{
	struct weft_slice used = weft_members_of(&a->pool, a->pool.host);

	for (uint32_t i = used.first; i < used.end; i++) {
		const struct weft_pool_member *m = weft_pool_member(&a->pool, (uint16_t)i);

		if (m && atomic_load_explicit(&m->incarnation, memory_order_relaxed) &&
		    a->on->lives(a->backed, (uint16_t)i))
			return true;
	}
	return false;
}

/* The home's lock is held. Its members, that have died with the last home, are recovered as any are. No process beats
 * in the life `heard`. */
static int begin_life(struct weft_attachment *a, uint64_t heard)
{
	struct weft_pool_host *h = &a->hosts->at[a->pool.host];
	struct weft_pool_home *home = a->pool.home;
	uint64_t life = atomic_load_explicit(&h->life, memory_order_acquire);

	if (home->life && (home->life != life || !is_ours(a)))
		return -EBUSY;
	if (home->life && !is_evicted(a))
		return 0;
	if (home->life && any_of_ours_lives(a))
		return -ESTALE;
	/* one of our home that listened, too, may have died since it wrote the next life */
	if (life != heard && !(home->id && is_ours(a)))
		return -EBUSY;
	if (getrandom(&home->id, sizeof(home->id), 0) != sizeof(home->id))
		return -EIO;
	memset(h->name, 0, sizeof(h->name));
	gethostname(h->name, sizeof(h->name));
	/* a process that dies from here on leaves a home that has not come yet */
	atomic_store_explicit(&h->home, home->id, memory_order_relaxed);
	WEFT_STEP(host_named);
	atomic_store_explicit(&h->life, life + 1, memory_order_release);
	WEFT_STEP(host_life_begun);
	home->incarnations = (life + 1) << LIFE_BITS;
	home->life = life + 1;
	WEFT_STEP(host_came);
	return 0;
}

static const char *name_taker(const struct weft_attachment *a)
{
	static _Thread_local char text[128];
	char name[WEFT_HOST_NAME + 1];

	weft_host_name(&a->hosts->at[a->pool.host], name);
	snprintf(text, sizeof(text), "%s is host %u, and lives", name, a->pool.host);
	return text;
}

static int arrive_as(struct weft_attachment *a, const char **why)
{
	struct weft_pool_host *h = &a->hosts->at[a->pool.host];
	uint64_t life = atomic_load_explicit(&h->life, memory_order_acquire);
	int key, err;

	/* not under the lock: it takes long. What beats may be another process with this home */
	if (!a->pool.home->life && life && is_taken(h, a->hosts->silence_ns))
		life = UINT64_MAX;
	key = weft_enter(a);
	*why = WEFT_BACKING_STUCK;
	if (key < 0)
		return key;
	*why = "no random bytes for the home of the host";
	err = begin_life(a, life);
	if (err == -EBUSY)
		*why = name_taker(a);
	if (err == -ESTALE)
		*why = "this host was evicted: it comes again when its programs have ended";
	err = err == -ESTALE ? -EBUSY : err;
	weft_leave(a, key);
	return err;
}

int weft_host_arrive(struct weft_attachment *a, const char **why)
{
	const struct weft_pool_header *header = (const void *)a->pool.base;
	uint64_t bytes = sizeof(struct weft_pool_host) << a->pool.host_bits;
	int err;

	if (!header->pool_id)
		return 0;
	*why = "out of memory";
	a->hosts = calloc(1, sizeof(*a->hosts));
	if (!a->hosts)
		return -ENOMEM;
	a->hosts->at = weft_pool_window(&a->pool, WEFT_OFF_HOSTS, bytes);
	if (!a->hosts->at)
		return -ENOMEM;
	a->hosts->silence_ns = header->silence_ms * MILLISECOND_NS;
	pthread_mutex_init(&a->hosts->mutex, NULL);
	pthread_mutex_init(&a->hosts->asking, NULL);
	atomic_store(&a->hosts->nap_ns, NAP_LEAST_NS);
	err = arrive_as(a, why);
	if (!err)
		weft_host_tick(a);
	return err;
}

void weft_host_end(struct weft_attachment *a)
{
	free(a->hosts);
	a->hosts = NULL;
}

/* ---- Going on ---- */

static void beat(struct weft_attachment *a)
{
	_Atomic uint64_t *beat = &a->hosts->at[a->pool.host].beat;
	uint64_t now_ns = weft_clock_now_ns(),
		 last = atomic_load_explicit(beat, memory_order_relaxed);

	/* of this kernel's clock, or of one before it booted */
	if (now_ns - last >= BEAT_NS)
		atomic_store_explicit(beat, now_ns, memory_order_relaxed);
}

void weft_host_heard(struct weft_attachment *a)
{
	atomic_store_explicit(&a->hosts->heard_ns, weft_clock_now_ns(), memory_order_relaxed);
	atomic_store_explicit(&a->hosts->nap_ns, NAP_LEAST_NS, memory_order_relaxed);
}

/* Another machine has our number: that it came while we stood still, or at the same time, was not to be seen. Or we
 * stood still, and were evicted. */
static void give_up_number(struct weft_attachment *a, bool evicted)
{
	if (!atomic_exchange_explicit(&a->hosts->displaced, true, memory_order_relaxed))
		fprintf(stderr, "weft: host %u of %s %s: the queue pairs of this process fail\n",
			a->pool.host, a->path, evicted ? "was evicted" : "has another home now");
}

bool weft_pool_is_displaced(const struct weft_pool *pool)
{
	const struct weft_attachment *a = (const void *)pool;

	return a->hosts && atomic_load_explicit(&a->hosts->displaced, memory_order_relaxed);
}

void weft_host_tick(struct weft_attachment *a)
{
	_Atomic uint32_t *asked = &a->hosts->at[a->pool.host].asked;
	bool owes;

	/* neither beats nor answers are ours to give then */
	if (!is_ours(a) || is_evicted(a)) {
		give_up_number(a, is_ours(a));
		return;
	}
	weft_silence_look(a);
	owes = atomic_exchange_explicit(&a->hosts->owes, false, memory_order_relaxed);
	beat(a);
	/* acquire: pairs with the release in ask_hosts (quiesce.c) */
	if (!atomic_load_explicit(asked, memory_order_acquire) && !owes)
		return;
	atomic_store_explicit(asked, 0, memory_order_relaxed);
	/* pairs with the fence in weft_quiesce_ask: what is asked from now on stores `asked` after this */
	atomic_thread_fence(memory_order_seq_cst);
	weft_host_heard(a);
	WEFT_STEP(host_asked);
	WEFT_TURN(host_asked);
	weft_quiesce_answer(a);
}

int64_t weft_host_nap(struct weft_attachment *a, int64_t timeout_ns)
{
	struct weft_hosts *hosts = a->hosts;
	uint64_t nap_ns = atomic_load_explicit(&hosts->nap_ns, memory_order_relaxed),
		 next_ns = nap_ns * 2;
	uint64_t heard_ns = atomic_load_explicit(&hosts->heard_ns, memory_order_relaxed);
	uint64_t most_ns = weft_clock_now_ns() - heard_ns < LINGER_NS ? NAP_BRIEF_NS : NAP_MOST_NS;

	atomic_store_explicit(&hosts->nap_ns, next_ns < most_ns ? next_ns : most_ns,
			      memory_order_relaxed);
	return timeout_ns < 0 || (uint64_t)timeout_ns > nap_ns ? (int64_t)nap_ns : timeout_ns;
}

/* ---- Using what is another host's ---- */

bool weft_pool_use(struct weft_pool *pool, uint16_t member)
{
	struct weft_attachment *a = weft_attachment(pool);
	const struct weft_pool_member *m;
	_Atomic uint64_t *uses;
	uint64_t incarnation, known;

	if (!a->hosts || weft_is_near(pool, member))
		return true;
	m = weft_pool_member(pool, member);
	if (!m)
		return true;
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	uses = &a->hosts->at[pool->host].uses[member];
	known = atomic_load_explicit(uses, memory_order_relaxed);
	/* threads of this host alone write it: one that was stopped since it read must not take it back */
	while (known < incarnation &&
	       !atomic_compare_exchange_weak_explicit(uses, &known, incarnation,
						      memory_order_relaxed, memory_order_relaxed))
		;
	WEFT_STEP(host_used);
	WEFT_TURN(host_used);
	/* pairs with the fence in weft_quiesce_ask: it sees this, or we see what it has ended */
	atomic_thread_fence(memory_order_seq_cst);
	return !weft_host_is_silent(a, weft_host_of(pool, member));
}
