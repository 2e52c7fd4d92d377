/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/gids.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pool/step.h"
#include "pool/format_member.h"
#include "pool/sizes.h"
#include "process/process.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards all below */
static struct weft_gid_entry entries[WEFT_GID_TABLE_LEN]; /* free ones are zero */
static struct {
	int fd; /* the kernel tells here that links or addresses have changed; -1: none */
	dev_t dev;
	ino_t ino;
} news = {.fd = -1};

/* ---- News ---- */

/* Or has the program closed that number, and used it anew? */
static bool is_own_socket(void)
{
	struct stat st;

	return news.fd >= 0 && !fstat(news.fd, &st) && st.st_dev == news.dev &&
	       st.st_ino == news.ino;
}

static void open_news(void)
{
	const struct sockaddr_nl groups = {.nl_family = AF_NETLINK,
					   .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR |
							RTMGRP_IPV6_IFADDR};
	struct stat st;

	news.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
	if (news.fd < 0)
		return;
	if (bind(news.fd, (const struct sockaddr *)&groups, sizeof(groups)) ||
	    fstat(news.fd, &st)) {
		close(news.fd);
		news.fd = -1;
		return;
	}
	news.dev = st.st_dev;
	news.ino = st.st_ino;
}

static void close_news(void)
{
	if (is_own_socket())
		close(news.fd);
	news.fd = -1;
}

/* Whether there may be any; always, where the kernel tells none. */
static bool take_news(void)
{
	bool any = false;
	char byte;

	if (!is_own_socket()) {
		open_news();
		return true;
	}
	/* ENOBUFS: there were more than it keeps */
	while (recv(news.fd, &byte, sizeof(byte), 0) >= 0 || errno == ENOBUFS || errno == EINTR)
		any = true;
	return any || errno != EAGAIN;
}

/* ---- The table; the mutex is held ---- */

static bool is_free(const struct weft_gid_entry *e)
{
	static const uint8_t zero[16];

	return !memcmp(e->gid, zero, 16);
}

static bool is_among(const struct weft_gid_entry *list, unsigned int n,
		     const struct weft_gid_entry *e)
{
	for (unsigned int i = 0; i < n; i++)
		if (list[i].type == e->type && list[i].ifindex == e->ifindex &&
		    !memcmp(list[i].gid, e->gid, 16))
			return true;
	return false;
}

/* What peers see of the entry at that index. */
static void publish(uint32_t index)
{
	struct weft_pool_member *self = weft_process.pool->self;
	uint32_t guard, above = index + 1;
	uint64_t half[2];

	if (index >= WEFT_MEMBER_GIDS)
		return;
	guard = atomic_load_explicit(&self->gid[index].guard, memory_order_relaxed);
	guard += guard & 1;
	atomic_store_explicit(&self->gid[index].guard, guard, memory_order_relaxed);
	if (is_free(&entries[index]))
		return;
	memcpy(half, entries[index].gid, sizeof(half));
	/* release: each pairs with the acquire of the same in weft_gid_read */
	atomic_store_explicit(&self->gid[index].half[0], half[0], memory_order_release);
	atomic_store_explicit(&self->gid[index].half[1], half[1], memory_order_release);
	WEFT_STEP(gid_written);
	atomic_store_explicit(&self->gid[index].guard, guard + 1, memory_order_release);
	if (above > atomic_load_explicit(&self->ngids, memory_order_relaxed))
		atomic_store_explicit(&self->ngids, above, memory_order_relaxed);
}

static bool remove_gone(const struct weft_gid_entry *host, unsigned int n)
{
	bool any = false;

	for (uint32_t i = 0; i < WEFT_GID_TABLE_LEN; i++) {
		if (is_free(&entries[i]) || is_among(host, n, &entries[i]))
			continue;
		memset(&entries[i], 0, sizeof(entries[i]));
		publish(i);
		any = true;
	}
	return any;
}

/* RoCE v1 and v2 alternate (gid.h). False: there is no room for it. */
static bool add_entry(const struct weft_gid_entry *e)
{
	uint32_t i = e->type == WEFT_GID_ROCE_V2;

	while (i < WEFT_GID_TABLE_LEN && !is_free(&entries[i]))
		i += 2;
	if (i >= WEFT_GID_TABLE_LEN)
		return false;
	entries[i] = *e;
	entries[i].index = i;
	publish(i);
	return true;
}

/* Whether anything has changed. */
static bool take_in(void)
{
	static struct weft_gid_entry host[WEFT_GID_TABLE_LEN];
	unsigned int n = (unsigned int)weft_gid_table(host, WEFT_GID_TABLE_LEN);
	bool any = remove_gone(host, n);

	for (unsigned int i = 0; i < n; i++)
		if (!is_among(entries, WEFT_GID_TABLE_LEN, &host[i]))
			any |= add_entry(&host[i]);
	return any;
}

/* ---- */

void weft_gids_start(void)
{
	pthread_mutex_lock(&mutex);
	memset(entries, 0, sizeof(entries));
	/* first, so that no change is missed */
	open_news();
	take_in();
	pthread_mutex_unlock(&mutex);
}

void weft_gids_stop(void)
{
	pthread_mutex_lock(&mutex);
	close_news();
	pthread_mutex_unlock(&mutex);
}

void weft_gids_forget(void)
{
	pthread_mutex_init(&mutex, NULL);
	close_news();
}

void weft_gids_follow(void)
{
	bool changed;

	pthread_mutex_lock(&mutex);
	changed = take_news() && take_in();
	pthread_mutex_unlock(&mutex);
	if (changed)
		weft_process.api->addresses_changed();
}

bool weft_gids_get(uint32_t index, struct weft_gid_entry *entry)
{
	bool used = false;

	weft_gids_follow();
	pthread_mutex_lock(&mutex);
	if (index < WEFT_GID_TABLE_LEN && !is_free(&entries[index])) {
		*entry = entries[index];
		used = true;
	}
	pthread_mutex_unlock(&mutex);
	return used;
}

bool weft_gids_source(uint32_t index, uint8_t gid[16])
{
	struct weft_gid_entry entry;

	if (index >= WEFT_MEMBER_GIDS || !weft_gids_get(index, &entry))
		return false;
	memcpy(gid, entry.gid, 16);
	return true;
}

unsigned int weft_gids_get_all(struct weft_gid_entry all[WEFT_GID_TABLE_LEN])
{
	unsigned int n = 0;

	weft_gids_follow();
	pthread_mutex_lock(&mutex);
	for (uint32_t i = 0; i < WEFT_GID_TABLE_LEN; i++)
		if (!is_free(&entries[i]))
			all[n++] = entries[i];
	pthread_mutex_unlock(&mutex);
	return n;
}
