/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "left.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pool/format.h"
#include "pool/view.h"
#include "pool/view_host.h"

static bool tables_have(struct weft_view *view, char *what, size_t bytes)
{
	struct weft_view_cursor at = {0};
	struct weft_view_qp qp;
	struct weft_view_mr mr;
	uint32_t members = 0;

	for (uint32_t i = 0; i < view->nmembers; i++)
		members += !!view->member[i].incarnation;
	if (members || view->segments_leased || view->damaged) {
		snprintf(what, bytes, "%u members, %u segments, %u damages are left", members,
			 view->segments_leased, view->damaged);
		return true;
	}
	if (weft_view_qp(view, &at, &qp)) {
		snprintf(what, bytes, "a queue pair is left");
		return true;
	}
	at = (struct weft_view_cursor){0};
	if (weft_view_mr(view, &at, &mr)) {
		snprintf(what, bytes, "a region is left");
		return true;
	}
	return false;
}

static bool file_has(const struct weft_view *view, char *what, size_t bytes)
{
	int fd = open(view->path, O_RDONLY | O_CLOEXEC);
	off_t left = lseek(fd, WEFT_FIRST_SEGMENT * WEFT_SEGMENT, SEEK_DATA);

	if (left >= 0)
		snprintf(what, bytes, "memory is left from %#lx to %#lx", (unsigned long)left,
			 (unsigned long)lseek(fd, left, SEEK_HOLE));
	close(fd);
	return left >= 0;
}

bool left_in(const char *pool, char *what, size_t bytes)
{
	char where[PATH_MAX];
	const char *why = "";
	struct weft_view *view;
	bool any;
	int err = weft_view_open(pool, where, &view, &why);

	if (err) {
		snprintf(what, bytes, "cannot look at the pool: %s: %s", why, strerror(-err));
		return true;
	}
	any = tables_have(view, what, bytes) || file_has(view, what, bytes);
	weft_view_close(view);
	return any;
}

/* Words of the lease tables that are not free. */
static uint32_t leases_left(const char *pool)
{
	static struct weft_pool_leases leases; /* it is large */
	const _Atomic uint64_t *word = (const void *)&leases;
	int fd = open(pool + strlen("shm:"), O_RDONLY | O_CLOEXEC);
	uint32_t left = pread(fd, &leases, sizeof(leases), WEFT_OFF_LEASES) != sizeof(leases);

	for (size_t i = 0; i < sizeof(leases) / sizeof(*word); i++)
		left += &word[i] != (const void *)&leases.numbers && word[i];
	close(fd);
	return left;
}

bool left_in_hosts(const char *pool, uint32_t agents, char *what, size_t bytes)
{
	struct weft_view_host host[WEFT_HOSTS];
	char where[PATH_MAX];
	const char *why = "";
	uint32_t hosts, leases = leases_left(pool);
	int err = weft_view_hosts(pool, where, host, &hosts, &why);

	if (err) {
		snprintf(what, bytes, "cannot look at the hosts: %s: %s", why, strerror(-err));
		return true;
	}
	if (leases)
		snprintf(what, bytes, "%u leases are left", leases);
	for (uint32_t i = 0; i < hosts; i++)
		if (host[i].members > agents) {
			snprintf(what, bytes, "host %u has %u members, and %u leases are left", i,
				 host[i].members, leases);
			return true;
		}
	return leases;
}
