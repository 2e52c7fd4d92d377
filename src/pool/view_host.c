/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The hosts of a pool, from outside: what each has in the memory, and whether it beats. */
#include <errno.h>
#include <stdlib.h>

#include "pool/clock.h"
#include "pool/format.h"
#include "pool/format_member.h"
#include "pool/host.h"
#include "pool/view_host.h"

#define LOOK_NS 5000000ull
#define MS_NS	1000000ull

struct look {
	const struct weft_backing *on;
	struct weft_backed *backed;
	const struct weft_pool_header *header;
	struct weft_view_host *host;
};

static bool fetch(const struct look *l, void *to, uint64_t bytes, uint64_t off)
{
	return l->on->read(l->backed, to, bytes, off);
}

/* ---- What each has ---- */

static bool read_beat(const struct look *l, uint32_t i, uint64_t *beat)
{
	return fetch(l, beat, sizeof(*beat),
		     WEFT_OFF_HOSTS + i * sizeof(struct weft_pool_host) +
			     offsetof(struct weft_pool_host, beat));
}

static uint32_t members_of_host(const struct look *l, uint32_t i)
{
	uint64_t each = WEFT_MEMBERS >> l->header->slice_bits, end = l->header->members_end[i],
		 incarnation;
	uint32_t found = 0;

	for (uint64_t m = i * each; m < end && m < (i + 1) * each; m++)
		found += fetch(l, &incarnation, sizeof(incarnation),
			       WEFT_OFF_MEMBERS + m * sizeof(struct weft_pool_member) +
				       offsetof(struct weft_pool_member, incarnation)) &&
			 incarnation;
	return found;
}

static bool read_host(const struct look *l, uint32_t i)
{
	struct weft_view_host *h = &l->host[i];
	/* of a host no more than this is looked at, but its beat */
	struct weft_pool_host *raw = aligned_alloc(WEFT_PAGE, sizeof(*raw));
	bool is_read = raw && fetch(l, raw, offsetof(struct weft_pool_host, asked),
				    WEFT_OFF_HOSTS + i * sizeof(*raw));

	*h = (struct weft_view_host){.state = WEFT_HOST_NEVER};
	if (is_read) {
		h->life = raw->life;
		h->beat = raw->beat;
		if (h->life)
			weft_host_name(raw, h->name);
		h->members = members_of_host(l, i);
		if (h->life)
			h->state = h->life == raw->evicted ? WEFT_HOST_EVICTED
				   : h->members		   ? WEFT_HOST_SILENT
							   : WEFT_HOST_EMPTY;
	}
	free(raw);
	return is_read;
}

static bool read_leases(const struct look *l)
{
	struct weft_pool_leases *leases = malloc(sizeof(*leases));
	bool is_read = leases && fetch(l, leases, sizeof(*leases), WEFT_OFF_LEASES);
	uint64_t host;

	for (uint32_t i = WEFT_FIRST_SEGMENT; is_read && i < WEFT_SEGMENTS; i++) {
		host = (((leases->segment[i] & 0xffff) - 1) << l->header->slice_bits) /
		       WEFT_MEMBERS;
		if (leases->segment[i] && host < l->header->hosts)
			l->host[host].leased_bytes += WEFT_SEGMENT >> l->header->cut_bits;
	}
	free(leases);
	return is_read;
}

/* ---- Whether it beats ---- */

/* How many have not been seen to yet. */
static uint32_t look_for_beats(const struct look *l, uint64_t now_ns)
{
	uint32_t left = 0;
	uint64_t beat;

	for (uint32_t i = 0; i < l->header->hosts; i++) {
		struct weft_view_host *h = &l->host[i];

		if (!h->life)
			continue;
		if (read_beat(l, i, &beat) && beat != h->beat) {
			h->beat = beat;
			h->beat_ns = now_ns;
			if (h->state == WEFT_HOST_SILENT)
				h->state = WEFT_HOST_UP;
		}
		left += h->state == WEFT_HOST_SILENT;
	}
	return left;
}

static void watch_hosts(const struct look *l)
{
	uint64_t begun_ns = weft_clock_now_ns(), now_ns = begun_ns;

	for (uint32_t i = 0; i < l->header->hosts; i++)
		l->host[i].beat_ns = begun_ns;
	while (look_for_beats(l, now_ns) && now_ns - begun_ns <= l->header->silence_ms * MS_NS) {
		weft_pause(LOOK_NS);
		now_ns = weft_clock_now_ns();
	}
	for (uint32_t i = 0; i < l->header->hosts; i++)
		l->host[i].beat_ns = now_ns - l->host[i].beat_ns;
}

int weft_view_look_at_hosts(const struct weft_backing *on, struct weft_backed *backed,
			    const struct weft_pool_header *header,
			    struct weft_view_host host[WEFT_HOSTS])
{
	const struct look l = {on, backed, header, host};

	if (!header->hosts || header->hosts > WEFT_HOSTS || header->slice_bits > WEFT_MEMBER_BITS ||
	    header->cut_bits > WEFT_CUT_BITS)
		return -EPROTO;
	for (uint32_t i = 0; i < header->hosts; i++)
		if (!read_host(&l, i))
			return -EPROTO;
	if (!read_leases(&l))
		return -EPROTO;
	watch_hosts(&l);
	return 0;
}

int weft_view_hosts(const char *path, char where[PATH_MAX], struct weft_view_host host[WEFT_HOSTS],
		    uint32_t *hosts, const char **why)
{
	const struct weft_backing *on = weft_open_backing(path);
	struct weft_pool_header header;
	struct weft_backed *backed;
	bool own, locked;
	uint64_t bytes;
	int err;

	*why = "the pool's path is too long";
	err = on->choose(path, where, &own);
	if (err)
		return err;
	*why = "the pool has one host: that of several is shm:PATH, pci:ADDRESS or dax:PATH";
	if (!on->create)
		return -EINVAL;
	err = on->look(where, own, weft_signature(), &backed, &bytes, &locked, why);
	if (err)
		return err;
	*why = "the pool cannot be read";
	err = on->read(backed, &header, sizeof(header), 0)
		      ? weft_view_look_at_hosts(on, backed, &header, host)
		      : -EPROTO;
	*hosts = header.hosts;
	on->close(backed);
	return err;
}
