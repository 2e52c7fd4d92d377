/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Members: joining, and the lines of threads. Leaving and dying are in life.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/internal.h"
#include "pool/step.h"
#include "pool/witness.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_member.h"
#include "pool/sizes.h"

static uint64_t inode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_ino;
}

/* Field 22 of /proc/self/stat, counted after the name, which may hold anything. */
static uint64_t start_time_of_self(void)
{
	char text[1024] = "", *at;
	FILE *f = fopen("/proc/self/stat", "re");

	if (!f)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, f)] = '\0';
	fclose(f);
	at = strrchr(text, ')');
	for (int field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static void write_identity(struct weft_pool_member *m)
{
	FILE *f = fopen("/proc/self/comm", "re");

	m->pid = (uint32_t)getpid();
	m->uid = (uint32_t)geteuid();
	m->pid_ns = inode_of("/proc/thread-self/ns/pid");
	m->net_ns = inode_of("/proc/thread-self/ns/net");
	m->start_time = start_time_of_self();
	m->witness = weft_witness();
	memset(m->comm, 0, sizeof(m->comm));
	if (f) {
		if (fgets(m->comm, sizeof(m->comm), f))
			m->comm[strcspn(m->comm, "\n")] = '\0';
		fclose(f);
	}
}

struct weft_slice weft_members_of(const struct weft_pool *pool, uint32_t host)
{
	const struct weft_pool_header *header = (const void *)pool->base;
	struct weft_slice used = weft_slice_of(pool, WEFT_MEMBERS, host);

	/* acquire: pairs with the release in weft_member_join; the pages are reserved */
	uint64_t end = atomic_load_explicit(&header->members_end[host], memory_order_acquire);

	if (end < used.first)
		used.end = used.first;
	else if (end < used.end)
		used.end = (uint32_t)end;
	return used;
}

uint16_t weft_pool_next(const struct weft_pool *pool, uint16_t from)
{
	uint32_t i = from;

	while (i < weft_members_room(pool) && i >= weft_members_of(pool, weft_host_of(pool, i)).end)
		i = weft_slice_of(pool, WEFT_MEMBERS, weft_host_of(pool, i)).end;
	return i < weft_members_room(pool) ? (uint16_t)i : WEFT_MEMBERS;
}

static bool was_used(const struct weft_pool *pool, uint16_t i)
{
	return i < weft_members_room(pool) && i < weft_members_of(pool, weft_host_of(pool, i)).end;
}

struct weft_pool_member *weft_pool_member(struct weft_pool *pool, uint16_t i)
{
	if (!was_used(pool, i))
		return NULL;
	return weft_pool_window(pool, WEFT_OFF_MEMBERS + i * sizeof(struct weft_pool_member),
				sizeof(struct weft_pool_member));
}

struct weft_pool_near *weft_pool_near(struct weft_pool *pool, uint16_t i)
{
	if (!was_used(pool, i) || !weft_is_near(pool, i))
		return NULL;
	return weft_pool_window(pool, WEFT_OFF_NEAR + i * sizeof(struct weft_pool_near),
				sizeof(struct weft_pool_near));
}

static int reserve_lines(const struct weft_attachment *a, uint16_t i)
{
	const uint64_t bytes = sizeof(struct weft_pool_near);

	return weft_reserve_pages(a, WEFT_OFF_NEAR + i * bytes, bytes);
}

static int reserve_member(const struct weft_attachment *a, uint16_t i)
{
	const uint64_t bytes = sizeof(struct weft_pool_member);
	int err = weft_reserve_pages(a, WEFT_OFF_MEMBERS + i * bytes, bytes);

	return err ? err : reserve_lines(a, i);
}

int weft_member_join(struct weft_attachment *a)
{
	struct weft_pool_header *header = (void *)a->pool.base;
	struct weft_slice ours = weft_slice_of(&a->pool, WEFT_MEMBERS, a->pool.host);
	struct weft_pool_near *near;
	struct weft_pool_member *m;
	uint64_t quiesce;
	int err;

	for (uint16_t i = (uint16_t)ours.first, end = (uint16_t)ours.end; i < end; i++) {
		m = &a->pool.members[i];
		if (!was_used(&a->pool, i)) {
			err = reserve_member(a, i);
			if (err)
				return err;
			WEFT_STEP(member_reserved);
			atomic_store_explicit(&header->members_end[a->pool.host], i + 1ull,
					      memory_order_release);
		}
		/* a home may be younger than the pool */
		err = a->hosts ? reserve_lines(a, i) : 0;
		if (err)
			return err;
		near = weft_pool_near(&a->pool, i);
		if (!weft_pool_member(&a->pool, i) || !near)
			return -ENOMEM;
		if (atomic_load_explicit(&m->incarnation, memory_order_relaxed))
			continue;
		err = a->on->prove(a->backed, i);
		if (err == -EAGAIN)
			continue;
		if (err)
			return err;
		WEFT_STEP(member_claimed);
		/* hosts have answered up to there */
		quiesce = atomic_load_explicit(&m->quiesce, memory_order_relaxed);
		memset(m, 0, sizeof(*m));
		atomic_store_explicit(&m->quiesce, quiesce, memory_order_relaxed);
		memset(near, 0, sizeof(*near));
		write_identity(m);
		a->pool.me = i;
		a->pool.self = m;
		a->pool.own = near;
		a->pool.incarnation = ++a->pool.home->incarnations;
		/* release: a reader that sees the incarnation sees the description */
		WEFT_STEP(member_described);
		atomic_store_explicit(&m->incarnation, a->pool.incarnation, memory_order_release);
		WEFT_STEP(member_joined);
		return 0;
	}
	return -EBUSY;
}

void weft_pool_caller_get(struct weft_pool *pool, struct weft_caller *caller)
{
	struct weft_attachment *a = weft_attachment(pool);
	uint16_t i;

	pthread_mutex_lock(&a->mutex);
	i = ~a->lines_used ? (uint16_t)__builtin_ctzll(~a->lines_used) : WEFT_MEMBER_LINES - 1;
	a->lines_used |= 1ull << i;
	caller->index = i;
	caller->shared = i == WEFT_MEMBER_LINES - 1;
	caller->thread = caller->shared ? 0 : i + 1u;
	caller->line = &pool->own->line[i];
	caller->ask = &pool->self->ask[i];
	WEFT_STEP(member_line_taken);
	if (i >= atomic_load_explicit(&pool->self->lines, memory_order_relaxed))
		/* release: the line is idle before it counts */
		atomic_store_explicit(&pool->self->lines, i + 1u, memory_order_release);
	pthread_mutex_unlock(&a->mutex);
}

void weft_pool_caller_put(struct weft_pool *pool, struct weft_caller *caller)
{
	struct weft_attachment *a = weft_attachment(pool);

	if (caller->shared)
		return;
	pthread_mutex_lock(&a->mutex);
	a->lines_used &= ~(1ull << caller->index);
	pthread_mutex_unlock(&a->mutex);
}

void weft_pool_share_lock(struct weft_pool *pool)
{
	pthread_mutex_lock(&weft_attachment(pool)->shared_line);
}

void weft_pool_share_unlock(struct weft_pool *pool)
{
	pthread_mutex_unlock(&weft_attachment(pool)->shared_line);
}
