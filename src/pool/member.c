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

static void describe(struct weft_pool_member *m)
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

uint16_t weft_members_end(const struct weft_pool *pool)
{
	struct weft_pool_header *header = (void *)pool->base;

	/* acquire: pairs with the release in weft_member_join; the pages are reserved */
	uint64_t end = atomic_load_explicit(&header->members_end, memory_order_acquire);

	return end < WEFT_MEMBERS ? (uint16_t)end : WEFT_MEMBERS;
}

struct weft_pool_member *weft_pool_member(struct weft_pool *pool, uint16_t i)
{
	if (i >= weft_members_end(pool))
		return NULL;
	return weft_pool_window(pool, WEFT_OFF_MEMBERS + i * sizeof(struct weft_pool_member),
				sizeof(struct weft_pool_member));
}

int weft_member_join(struct weft_attachment *a)
{
	struct weft_pool_header *header = (void *)a->pool.base;
	struct weft_pool_member *m;
	int err;

	for (uint16_t i = 0; i < WEFT_MEMBERS; i++) {
		m = &a->pool.members[i];
		if (i >= weft_members_end(&a->pool)) {
			err = weft_reserve_pages(a, WEFT_OFF_MEMBERS + i * sizeof(*m), sizeof(*m));
			if (err)
				return err;
			WEFT_STEP(member_reserved);
			atomic_store_explicit(&header->members_end, i + 1ull, memory_order_release);
		}
		if (!weft_pool_member(&a->pool, i))
			return -ENOMEM;
		if (atomic_load_explicit(&m->incarnation, memory_order_relaxed))
			continue;
		err = a->on->prove(a->backed, i);
		if (err == -EAGAIN)
			continue;
		if (err)
			return err;
		WEFT_STEP(member_claimed);
		memset(m, 0, sizeof(*m));
		describe(m);
		a->pool.me = i;
		a->pool.self = m;
		a->pool.incarnation = ++header->incarnations;
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
	caller->line = &pool->self->line[i];
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
