/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "damage.h"

#include <stddef.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../random.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_object.h"
#include "pool/format_qp.h"
#include "pool/format_member.h"
#include "pool/format_region.h"
#include "pool/format_ring.h"

#define EXTENTS	  4096u
#define PLACES	  4096u
#define MOST_DONE 16u

static struct extent {
	uint64_t off, bytes;
	uint8_t *data;
} extents[EXTENTS];
static size_t nextents;
static uint64_t file_bytes;

/* Fields of structs that are in use, wherever in the file they are. */
static struct place {
	uint64_t off;
	uint32_t bytes;
	const char *name;
} places[PLACES];
static size_t nplaces;
/* The first place of each struct's fields, so that small structs are hit as often as large ones. */
static size_t groups[PLACES], ngroups;

static struct done {
	uint64_t off, before, after;
	const char *name;
	uint32_t bytes;
} done[MOST_DONE];
static size_t ndone;

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

/* ---- The file as it was ---- */

static void *kept(uint64_t off, uint64_t bytes)
{
	for (size_t i = 0; i < nextents; i++)
		if (off >= extents[i].off && off + bytes <= extents[i].off + extents[i].bytes)
			return extents[i].data + (off - extents[i].off);
	return NULL;
}

static void keep_extent(int fd, uint64_t from, uint64_t to)
{
	struct extent *e = &extents[nextents++];

	must(nextents <= EXTENTS, "too many extents");
	*e = (struct extent){from, to - from, NULL};
	/* aligned as the structs demand it */
	if (posix_memalign((void **)&e->data, 4096, to - from))
		e->data = NULL;
	must(e->data && pread(fd, e->data, e->bytes, (off_t)from) == (ssize_t)e->bytes, "pread");
}

#define FIELD(base, type, field)                                                                   \
	add_place((base) + offsetof(type, field), sizeof(((type *)0)->field), #type "." #field)

static void add_place(uint64_t off, size_t bytes, const char *name)
{
	const char *last = nplaces ? places[nplaces - 1].name : "";

	if (nplaces == PLACES || !kept(off, bytes))
		return;
	if (strncmp(last, name, strcspn(name, ".") + 1) != 0)
		groups[ngroups++] = nplaces;
	places[nplaces++] = (struct place){off, bytes > 8 ? 8 : (uint32_t)bytes, name};
}

static void add_header(void)
{
	FIELD(0, struct weft_pool_header, magic);
	FIELD(0, struct weft_pool_header, version);
	FIELD(0, struct weft_pool_header, signature);
	FIELD(0, struct weft_pool_header, file_bytes);
	FIELD(0, struct weft_pool_header, members_end);
	FIELD(WEFT_OFF_HOME, struct weft_pool_home, turns);
	FIELD(WEFT_OFF_HOME, struct weft_pool_home, incarnations);
	FIELD(WEFT_OFF_HOME, struct weft_pool_home, departed);
	FIELD(WEFT_OFF_HOME, struct weft_pool_home, merged);
	FIELD(WEFT_OFF_HOME, struct weft_pool_home, merging);
}

static void add_leases(void)
{
	const uint64_t words = sizeof(struct weft_pool_leases) / 8;

	for (uint64_t i = 0; i < words; i++) {
		const uint64_t *word = kept(WEFT_OFF_LEASES + 8 * i, 8);

		if (word && (*word || i % 1024 == 0))
			add_place(WEFT_OFF_LEASES + 8 * i, 8, "lease");
	}
}

static void add_ring(uint64_t off)
{
	FIELD(off, struct weft_pool_ring, alarm_off);
	FIELD(off, struct weft_pool_ring, size);
	FIELD(off, struct weft_pool_ring, owner);
	FIELD(off, struct weft_pool_ring, producer);
	FIELD(off, struct weft_pool_ring, produced);
	for (int i = 0; i < 4; i++)
		for (size_t at = 0; at < sizeof(struct weft_pool_cqe); at += 4)
			add_place(off + sizeof(struct weft_pool_ring) +
					  (size_t)i * sizeof(struct weft_pool_cqe) + at,
				  4, "struct weft_pool_cqe");
}

static void add_member(uint64_t off)
{
	const struct weft_pool_member *m = kept(off, sizeof(*m));

	if (!m || !m->incarnation)
		return;
	FIELD(off, struct weft_pool_member, incarnation);
	FIELD(off, struct weft_pool_member, pid_ns);
	FIELD(off, struct weft_pool_member, comm);
	FIELD(off, struct weft_pool_member, lines);
	FIELD(off, struct weft_pool_member, ngids);
	FIELD(off, struct weft_pool_member, gid);
	FIELD(off, struct weft_pool_member, rehomings);
	FIELD(off, struct weft_pool_member, mailbox_off);
	FIELD(off, struct weft_pool_member, ports_off);
	FIELD(off, struct weft_pool_member, ports);
	FIELD(off, struct weft_pool_member, taken);
	for (int i = 0; i < 3; i++)
		for (size_t at = 0; at < sizeof(struct weft_pool_ask); at += 8)
			add_place(off + offsetof(struct weft_pool_member, ask[i]) + at, 8,
				  "struct weft_pool_ask");
}

static void add_near(uint64_t off)
{
	FIELD(off, struct weft_pool_near, signalled);
	FIELD(off, struct weft_pool_near, also);
	FIELD(off, struct weft_pool_near, asleep);
	for (uint64_t i = 0; i < 3; i++)
		FIELD(off + i * sizeof(struct weft_pool_busy_line), struct weft_pool_near,
		      line[0].busy);
}

static void add_qp(uint64_t off)
{
	const struct weft_pool_qp *qp = kept(off, sizeof(*qp));

	if (!qp || !qp->qpn)
		return;
	for (size_t at = 0; at < sizeof(*qp); at += 4)
		add_place(off + at, 4, "struct weft_pool_qp");
	FIELD(off, struct weft_pool_qp, conn);
	FIELD(off, struct weft_pool_qp, rq_off);
	FIELD(off, struct weft_pool_qp, ring_off);
	FIELD(off, struct weft_pool_qp, rq_posted);
	FIELD(off, struct weft_pool_qp, fault_conn);
	add_ring(qp->ring_off);
	for (uint64_t at = 0; at < 4 * (uint64_t)qp->rq_stride; at += 4)
		add_place(qp->rq_off + at, 4, "struct weft_pool_recv");
}

static void add_mr(uint64_t off)
{
	const struct weft_pool_mr *mr = kept(off, sizeof(*mr));

	if (!mr || !mr->owner)
		mr = mr && mr->len_bytes ? mr : NULL;
	for (size_t at = 0; mr && at < sizeof(*mr); at += 8)
		add_place(off + at, 8, "struct weft_pool_mr");
	/* the list of pieces; in other entries these may be bytes of the region, and their damage does no
	 * harm */
	for (uint64_t at = 0; mr && at < 64; at += 8)
		add_place(mr->off + at, 8, "struct weft_pool_piece");
}

static void add_object(uint64_t off)
{
	const struct weft_pool_object *object = kept(off, sizeof(*object));

	for (size_t at = 0; object && object->kind && at < sizeof(*object); at += 8)
		add_place(off + at, 8, "struct weft_pool_object");
}

/* For each entry in a leased block, whose index may be any. */
static void for_each_qp(void (*act)(uint64_t off))
{
	for (uint64_t b = 0; b < WEFT_BLOCKS; b++) {
		const uint64_t *lease = kept(
			WEFT_OFF_LEASES + offsetof(struct weft_pool_leases, qp_block) + 8 * b, 8);

		for (uint64_t i = 0; lease && *lease && i < WEFT_QP_BLOCK; i++)
			act(WEFT_OFF_QPS + (b * WEFT_QP_BLOCK + i) * sizeof(struct weft_pool_qp));
	}
}

static void find_places(void)
{
	add_header();
	add_place(WEFT_OFF_LEASES + offsetof(struct weft_pool_leases, numbers), 4, "numbers");
	for (uint32_t i = 0; i < 4; i++) {
		add_member(WEFT_OFF_MEMBERS + i * sizeof(struct weft_pool_member));
		add_near(WEFT_OFF_NEAR + i * sizeof(struct weft_pool_near));
	}
	for_each_qp(add_qp);
	for (uint32_t i = 0; i < 4 * WEFT_MR_BLOCK; i++)
		add_mr(WEFT_OFF_MRS + i * sizeof(struct weft_pool_mr));
	for (uint32_t i = 0; i < 4 * WEFT_OBJECT_BLOCK; i++)
		add_object(WEFT_OFF_OBJECTS + i * sizeof(struct weft_pool_object));
	add_leases();
}

void damage_keep(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	off_t from = 0, to = 0;

	must(fd >= 0, path);
	file_bytes = (uint64_t)lseek(fd, 0, SEEK_END);
	while ((from = lseek(fd, to, SEEK_DATA)) >= 0) {
		to = lseek(fd, from, SEEK_HOLE);
		keep_extent(fd, (uint64_t)from, (uint64_t)to);
	}
	close(fd);
	find_places();
	printf("%zu extents, %zu fields\n", nextents, nplaces);
}

void damage_restore(const char *path)
{
	int fd;

	unlink(path);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	must(fd >= 0 && !ftruncate(fd, (off_t)file_bytes), path);
	for (size_t i = 0; i < nextents; i++)
		must(pwrite(fd, extents[i].data, extents[i].bytes, (off_t)extents[i].off) ==
			     (ssize_t)extents[i].bytes,
		     "pwrite");
	close(fd);
}

static uint32_t connected_qpn;
static uint16_t connected_member;

static void connect_one(uint64_t off)
{
	struct weft_pool_qp *qp = kept(off, sizeof(*qp));
	struct weft_pool_ring *ring;

	if (!qp || !qp->qpn)
		return;
	qp->conn = (qp->conn & ~0xffffffull) | connected_qpn;
	ring = kept(qp->ring_off, sizeof(*ring));
	if (ring)
		ring->producer = connected_member;
}

void damage_connect(uint32_t qpn, uint16_t member)
{
	connected_qpn = qpn;
	connected_member = member;
	for_each_qp(connect_one);
}

/* ---- Damage ---- */

static uint64_t load(int fd, uint64_t off, uint32_t bytes)
{
	uint64_t value = 0;

	return pread(fd, &value, bytes, (off_t)off) == (ssize_t)bytes ? value : 0;
}

static void store(int fd, uint64_t off, uint32_t bytes, uint64_t value, const char *name)
{
	if (ndone < MOST_DONE)
		done[ndone++] = (struct done){off, load(fd, off, bytes), value, name, bytes};
	must(pwrite(fd, &value, bytes, (off_t)off) == (ssize_t)bytes, "pwrite");
}

static uint64_t wrong(int fd, uint64_t value, uint64_t *random)
{
	const struct place *other = &places[splitmix64(random) % nplaces];

	switch (splitmix64(random) % 9) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return value + 1;
	case 3:
		return value - 1;
	case 4:
		return load(fd, other->off, other->bytes);
	case 5:
		return other->off;
	case 6:
		return file_bytes - splitmix64(random) % 128;
	case 7:
		return value ^ 1ull << splitmix64(random) % 64;
	default:
		return splitmix64(random);
	}
}

static void damage_field(int fd, uint64_t *random, bool deep)
{
	size_t group = splitmix64(random) % ngroups;
	size_t from = groups[group], to = group + 1 < ngroups ? groups[group + 1] : nplaces;
	const struct place *p = &places[from + splitmix64(random) % (to - from)];

	if (deep && p->off < WEFT_OFF_LEASES)
		return;
	store(fd, p->off, p->bytes, wrong(fd, load(fd, p->off, p->bytes), random), p->name);
}

static void damage_bytes(int fd, uint64_t *random, bool deep)
{
	const struct extent *e = &extents[splitmix64(random) % nextents];
	uint64_t off = e->off + splitmix64(random) % (e->bytes - 8);

	if (deep && off < WEFT_OFF_LEASES)
		return;
	store(fd, off, 1 + (uint32_t)(splitmix64(random) % 8), splitmix64(random), "bytes");
}

void damage(const char *path, uint64_t *random, bool deep)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	must(fd >= 0, path);
	ndone = deep ? ndone : 0;
	for (uint64_t n = splitmix64(random) % 8 + 1; n; n--)
		if (splitmix64(random) % 4)
			damage_field(fd, random, deep);
		else
			damage_bytes(fd, random, deep);
	close(fd);
}

void damage_tell(void)
{
	for (size_t i = 0; i < ndone; i++)
		printf("  at %#lx: %s, %u bytes: %#lx became %#lx\n", (unsigned long)done[i].off,
		       done[i].name, done[i].bytes, (unsigned long)done[i].before,
		       (unsigned long)done[i].after);
}
