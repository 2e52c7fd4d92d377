/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Members: joining, leaving, the lines of threads, who is alive, and what the dead leave behind. */
#include <errno.h>
#include <linux/membarrier.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/internal.h"

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
	m->pid_ns = inode_of("/proc/self/ns/pid");
	m->net_ns = inode_of("/proc/self/ns/net");
	m->start_time = start_time_of_self();
	memset(m->comm, 0, sizeof(m->comm));
	if (f) {
		if (fgets(m->comm, sizeof(m->comm), f))
			m->comm[strcspn(m->comm, "\n")] = '\0';
		fclose(f);
	}
}

uint16_t weft_members_high(const struct weft_pool *pool)
{
	struct weft_pool_header *header = (void *)pool->base;

	/* acquire: pairs with the release in weft_member_join; the pages are reserved */
	return (uint16_t)atomic_load_explicit(&header->members_high, memory_order_acquire);
}

struct weft_pool_member *weft_pool_member(struct weft_pool *pool, uint16_t i)
{
	if (i >= weft_members_high(pool))
		return NULL;
	return weft_pool_window(pool, WEFT_OFF_MEMBERS + i * sizeof(struct weft_pool_member),
				sizeof(struct weft_pool_member));
}

int weft_member_join(struct weft_attachment *a)
{
	struct weft_pool_header *header = (void *)a->pool.base;
	struct weft_pool_member *m;
	int err;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0))
		return -errno;
	for (uint16_t i = 0; i < WEFT_MEMBERS; i++) {
		m = &a->pool.members[i];
		if (i >= weft_members_high(&a->pool)) {
			err = weft_reserve(a->fd, WEFT_OFF_MEMBERS + i * sizeof(*m), sizeof(*m));
			if (err)
				return err;
			atomic_store_explicit(&header->members_high, i + 1ull,
					      memory_order_release);
		}
		if (!weft_pool_member(&a->pool, i))
			return -ENOMEM;
		if (atomic_load_explicit(&m->incarnation, memory_order_relaxed))
			continue;
		err = weft_lock_member(a->fd, i);
		if (err == -EAGAIN)
			continue;
		if (err)
			return err;
		memset(m, 0, sizeof(*m));
		describe(m);
		a->pool.me = i;
		a->pool.self = m;
		a->pool.incarnation = ++header->incarnations;
		/* release: who sees the incarnation sees the description */
		atomic_store_explicit(&m->incarnation, a->pool.incarnation, memory_order_release);
		return 0;
	}
	return -EBUSY;
}

static void add(struct weft_counters *sum, const struct weft_counters *part)
{
	sum->ops_write += part->ops_write;
	sum->bytes_write += part->bytes_write;
	sum->ops_read += part->ops_read;
	sum->bytes_read += part->bytes_read;
	sum->ops_send += part->ops_send;
	sum->bytes_send += part->bytes_send;
	sum->ops_atomic += part->ops_atomic;
}

void weft_member_leave(struct weft_attachment *a, uint16_t member)
{
	struct weft_pool_header *header = (void *)a->pool.base;
	struct weft_pool_member *m = weft_pool_member(&a->pool, member);
	uint64_t incarnation;

	if (!m)
		return;
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	weft_lease_drop_all(a, incarnation << 16 | (member + 1u));
	for (uint32_t i = 0; i < WEFT_MEMBER_LINES; i++) {
		add(&header->departed, &m->line[i].counters);
		memset(&m->line[i].counters, 0, sizeof(m->line[i].counters));
		atomic_store_explicit(&m->line[i].busy, 0, memory_order_relaxed);
	}
	atomic_store_explicit(&m->lines, 0, memory_order_relaxed);
	atomic_store_explicit(&m->incarnation, 0, memory_order_release);
}

bool weft_pool_alive(struct weft_pool *pool, uint16_t member, uint64_t incarnation)
{
	struct weft_attachment *a = weft_attachment(pool);
	struct weft_pool_member *m = weft_pool_member(pool, member);
	int fd = weft_open_fd(a);

	if (!m || atomic_load_explicit(&m->incarnation, memory_order_acquire) != incarnation)
		return false;
	/* our own lock never stands in our own way */
	return member == pool->me || fd < 0 || weft_lock_member_held(fd, member);
}

/* Taking the dead member's byte is test and claim in one: it fails while the member lives or
 * another recoverer is at work, and comes free again if we die in the middle. */
static bool recover_one(struct weft_attachment *a, int fd, uint16_t member)
{
	struct weft_pool_member *m = weft_pool_member(&a->pool, member);

	if (!m || member == a->pool.me ||
	    !atomic_load_explicit(&m->incarnation, memory_order_acquire) ||
	    weft_lock_member(fd, member))
		return false;
	weft_member_leave(a, member);
	weft_lock_member_release(fd, member);
	return true;
}

unsigned int weft_pool_recover(struct weft_pool *pool)
{
	struct weft_attachment *a = weft_attachment(pool);
	unsigned int recovered = 0;
	int fd;

	pthread_mutex_lock(&a->mutex);
	fd = weft_open_fd(a);
	if (fd >= 0 && !weft_lock_file(fd)) {
		for (uint16_t i = 0; i < weft_members_high(pool); i++)
			recovered += recover_one(a, fd, i);
		weft_lock_file_release(fd);
	}
	pthread_mutex_unlock(&a->mutex);
	return recovered;
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
