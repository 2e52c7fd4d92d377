/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "pool/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "pool/internal.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_region.h"
#include "pool/sizes.h"

static bool read_pool(const struct weft_view *v, void *to, uint64_t bytes, uint64_t off)
{
	return v->on->read(v->backed, to, bytes, off);
}

static void copy_text(char *to, const char *from, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes && from[i]; i++)
		to[i] = from[i] < ' ' || from[i] > '~' ? '?' : from[i];
	to[i] = '\0';
}

/* What its own host alone has of it. */
static bool read_near(struct weft_view *v, struct weft_view_member *m, struct weft_pool_near *near)
{
	int proven = v->on->proven(v->backed, m->host, m->index);

	m->is_here = v->on->read_home(v->backed, m->host, near, sizeof(*near),
				      WEFT_OFF_NEAR + m->index * sizeof(*near));
	m->alive = proven < 0 ? v->host[m->host].state == WEFT_HOST_UP : proven;
	if (!m->is_here)
		return v->hosts;
	m->helper_asleep = near->asleep;
	for (uint32_t i = 0; i < WEFT_MEMBER_LINES; i++)
		weft_counters_add(&v->totals, &near->line[i].counters);
	return true;
}

static void read_member(struct weft_view *v, uint16_t index, uint32_t host,
			struct weft_pool_member *raw, struct weft_pool_near *near)
{
	struct weft_view_member *m = &v->member[index];

	m->index = index;
	m->host = host;
	if (!read_pool(v, raw, sizeof(*raw), WEFT_OFF_MEMBERS + index * sizeof(*raw))) {
		v->damaged++;
		return;
	}
	m->incarnation = raw->incarnation;
	if (!m->incarnation)
		return;
	m->pid = raw->pid;
	m->uid = raw->uid;
	m->pid_ns = raw->pid_ns;
	m->net_ns = raw->net_ns;
	m->start_time = raw->start_time;
	copy_text(m->comm, raw->comm, sizeof(raw->comm));
	m->threads = raw->lines;
	m->ports_off = raw->ports_off;
	m->ports = raw->ports;
	if (m->threads > WEFT_MEMBER_LINES || raw->ngids > WEFT_MEMBER_GIDS) {
		v->damaged++;
		m->threads = 0;
		weft_store(&raw->ngids, 0);
	}
	for (uint32_t i = 0; i < raw->ngids; i++)
		m->ngids += weft_gid_read(&raw->gid[i], m->gid[m->ngids]);
	m->card_reach = raw->card.reach;
	memcpy(m->card_address, (const void *)raw->card.address, sizeof(m->card_address));
	memcpy(m->card_told, (const void *)raw->card.told, sizeof(m->card_told));
	if (!read_near(v, m, near))
		v->damaged++;
}

/* Of one host; `each` is how many its slice has. */
static void read_members_of(struct weft_view *v, const struct weft_pool_header *header,
			    uint32_t host, uint64_t each, struct weft_pool_member *raw,
			    struct weft_pool_near *near)
{
	uint64_t first = host * each, end = header->members_end[host];
	struct weft_pool_home home;

	if (v->on->read_home(v->backed, host, &home, sizeof(home), WEFT_OFF_HOME))
		weft_counters_add(&v->totals, &home.departed);
	if (end > first + each) {
		end = first + each;
		v->damaged++;
	}
	for (uint64_t i = first; i < end; i++)
		read_member(v, (uint16_t)i, host, raw, near);
	if (end > first)
		v->nmembers = (unsigned int)end;
}

static int read_members(struct weft_view *v, const struct weft_pool_header *header)
{
	uint32_t hosts = v->hosts ?: 1;
	struct pages {
		struct weft_pool_member far;
		struct weft_pool_near near;
	} *raw = aligned_alloc(WEFT_PAGE, sizeof(*raw));

	if (!raw)
		return -ENOMEM;
	for (uint32_t i = 0; i < hosts; i++)
		read_members_of(v, header, i, WEFT_MEMBERS >> header->slice_bits, &raw->far,
				&raw->near);
	for (uint32_t i = WEFT_FIRST_SEGMENT; i < WEFT_SEGMENTS; i++)
		v->segments_leased += v->leases.segment[i] != 0;
	free(raw);
	return 0;
}

static int read_all(struct weft_view *v)
{
	struct weft_pool_header header;
	int err = 0;

	if (!read_pool(v, &header, sizeof(header), 0) ||
	    !read_pool(v, &v->leases, sizeof(v->leases), WEFT_OFF_LEASES))
		return -EPROTO;
	v->version = header.version;
	v->file_bytes = header.file_bytes;
	v->atomics = !header.pool_id || header.flags & WEFT_POOL_ATOMICS;
	if (header.pool_id) {
		v->hosts = header.hosts;
		err = weft_view_look_at_hosts(v->on, v->backed, &header, v->host);
	}
	return err ? err : read_members(v, &header);
}

int weft_view_open(const char *path, char where[PATH_MAX], struct weft_view **view,
		   const char **why)
{
	struct weft_view *v = calloc(1, sizeof(*v));
	bool own, locked;
	int err;

	*why = "out of memory";
	if (!v)
		return -ENOMEM;
	v->on = weft_open_backing(path);
	*why = "the pool's path is too long";
	err = v->on->choose(path, where, &own);
	if (err)
		goto free_view;
	strcpy(v->path, where);
	err = v->on->look(where, own, weft_signature(), &v->backed, &v->bytes, &locked, why);
	if (err)
		goto free_view;
	*why = "the pool cannot be read";
	v->unlocked = !locked;
	v->allocated_bytes = v->on->allocated(v->backed);
	v->grain_bytes = v->on->grain ? v->on->grain(v->backed) : WEFT_PAGE;
	err = read_all(v);
	if (err)
		goto close;
	v->on->unlock(v->backed);
	*view = v;
	return 0;
close:
	v->on->close(v->backed);
free_view:
	free(v);
	return err;
}

void weft_view_close(struct weft_view *v)
{
	v->on->close(v->backed);
	free(v);
}

void weft_view_lock_owner(const struct weft_view *v, char *text, size_t text_bytes)
{
	v->on->lock_owner(v->backed, text, text_bytes);
}

/* ---- The tables of queue pairs and of regions ---- */

/* The member that a block is leased to; false when it is none that was seen. */
static bool lessee(const struct weft_view *v, uint64_t lease, uint16_t *member)
{
	uint64_t index = (lease & 0xffff) - 1;

	if (!lease || index >= v->nmembers || v->member[index].incarnation != lease >> 16)
		return false;
	*member = (uint16_t)index;
	return true;
}

struct walk {
	const _Atomic uint64_t *lease;
	uint32_t per_block, entry_bytes;
	uint64_t off;
};

/* The next entry of a leased block, in the cursor's own copy; NULL at the end. */
static const void *next(struct weft_view *v, struct weft_view_cursor *at, const struct walk *w,
			uint32_t *index, uint16_t *member)
{
	for (; at->index < WEFT_BLOCKS * w->per_block; at->index += w->per_block) {
		uint32_t block = at->index / w->per_block;
		uint64_t bytes = (uint64_t)w->per_block * w->entry_bytes;

		if (!lessee(v, w->lease[block], member))
			continue;
		if (at->block != block + 1 &&
		    !read_pool(v, at->bytes, bytes, w->off + block * bytes)) {
			v->damaged++;
			continue;
		}
		at->block = block + 1;
		*index = at->index++;
		return at->bytes + *index % w->per_block * w->entry_bytes;
	}
	return NULL;
}

/* How many of this one's receives its peer has used stands in the peer's entry. */
static void read_taken(const struct weft_view *v, const struct weft_pool_qp *raw,
		       struct weft_view_qp *qp)
{
	uint32_t index = qp->dest_qpn & (WEFT_QPS - 1);
	struct weft_pool_qp peer;

	qp->taken = raw->rq_start;
	if (!qp->dest_qpn || !v->leases.qp_block[index / WEFT_QP_BLOCK] ||
	    !read_pool(v, &peer, sizeof(peer), WEFT_OFF_QPS + index * sizeof(peer)))
		return;
	if (peer.qpn == qp->dest_qpn && (peer.conn & 0xffffff) == qp->qpn &&
	    peer.rq_taken_epoch == raw->rq_epoch && peer.rq_taken > qp->taken)
		qp->taken = peer.rq_taken;
	/* the peer's entry was read later */
	if (qp->posted < qp->taken)
		qp->posted = qp->taken;
}

bool weft_view_qp(struct weft_view *v, struct weft_view_cursor *at, struct weft_view_qp *qp)
{
	const struct walk w = {v->leases.qp_block, WEFT_QP_BLOCK, sizeof(struct weft_pool_qp),
			       WEFT_OFF_QPS};
	const struct weft_pool_qp *raw;
	uint32_t index;

	while ((raw = next(v, at, &w, &index, &qp->member))) {
		if (!raw->qpn)
			continue;
		if ((raw->qpn & (WEFT_QPS - 1)) != index || raw->qpn >> 24 ||
		    raw->rq_start > raw->rq_posted) {
			v->damaged++;
			continue;
		}
		qp->qpn = raw->qpn;
		qp->type = raw->type;
		qp->state = raw->state;
		qp->posted = raw->rq_posted;
		qp->dest_qpn =
			(raw->conn >> 24 & 0xff) == WEFT_CONN_READY ? raw->conn & 0xffffff : 0;
		read_taken(v, raw, qp);
		return true;
	}
	return false;
}

static bool in_segments(const struct weft_view *v, uint64_t off, uint64_t bytes)
{
	return off >= WEFT_FIRST_SEGMENT * WEFT_SEGMENT && off < v->bytes &&
	       bytes <= v->bytes - off;
}

/* Pieces rise from the start of the region to its end: a list of garbage ends soon. */
static bool add_pieces(const struct weft_view *v, const struct weft_pool_mr *raw, uint64_t *pooled)
{
	struct weft_pool_piece piece, following;

	if (raw->hi > UINT32_MAX || !in_segments(v, raw->off, raw->hi * sizeof(piece)) ||
	    !read_pool(v, &piece, sizeof(piece), raw->off) || piece.start)
		return false;
	for (uint32_t i = 1; i <= raw->hi; i++, piece = following) {
		following.start = raw->len_bytes;
		if (i < raw->hi &&
		    !read_pool(v, &following, sizeof(following), raw->off + i * sizeof(piece)))
			return false;
		if (following.start <= piece.start || following.start > raw->len_bytes)
			return false;
		if (piece.off == UINT64_MAX)
			continue;
		if (!in_segments(v, piece.off, following.start - piece.start))
			return false;
		*pooled += following.start - piece.start;
	}
	return true;
}

static bool make_mr(const struct weft_view *v, const struct weft_pool_mr *raw,
		    struct weft_view_mr *mr)
{
	mr->key = raw->key;
	mr->access = raw->access;
	mr->va = raw->va;
	mr->iova = raw->iova;
	mr->len_bytes = raw->len_bytes;
	mr->pooled_bytes = 0;
	mr->device_off = 0;
	if (!raw->len_bytes || raw->va + raw->len_bytes < raw->va)
		return false;
	if (weft_mr_is_listed(raw))
		return add_pieces(v, raw, &mr->pooled_bytes);
	mr->pooled_bytes = raw->hi - raw->lo;
	mr->device_off = weft_mr_on_device(raw) ? weft_mr_device_off(raw) : 0;
	return raw->hi <= raw->len_bytes &&
	       (raw->lo == raw->hi || in_segments(v, raw->off, raw->hi - raw->lo));
}

bool weft_view_mr(struct weft_view *v, struct weft_view_cursor *at, struct weft_view_mr *mr)
{
	const struct walk w = {v->leases.mr_block, WEFT_MR_BLOCK, sizeof(struct weft_pool_mr),
			       WEFT_OFF_MRS};
	const struct weft_pool_mr *raw;
	uint32_t index, key;

	while ((raw = next(v, at, &w, &index, &mr->member))) {
		bool sound;

		if (!(raw->key >> WEFT_KEY_BITS))
			continue;
		sound = raw->key >> WEFT_KEY_BITS == index && make_mr(v, raw, mr);
		/* what was read belongs together if it is still the same region */
		if (!read_pool(v, &key, sizeof(key), WEFT_OFF_MRS + index * sizeof(*raw)) ||
		    key != raw->key)
			continue;
		if (sound)
			return true;
		v->damaged++;
	}
	return false;
}

bool weft_view_bytes(const struct weft_view *v, uint64_t off, void *to, uint64_t bytes)
{
	return in_segments(v, off, bytes) && read_pool(v, to, bytes, off);
}

bool weft_view_port(struct weft_view *v, struct weft_view_cursor *at, struct weft_view_port *port)
{
	for (; at->block < v->nmembers; at->block++, at->index = 0) {
		const struct weft_view_member *m = &v->member[at->block];
		uint64_t bytes = m->ports * sizeof(port->port);

		if (!m->incarnation || !m->ports)
			continue;
		if (!in_segments(v, m->ports_off, bytes)) {
			v->damaged++;
			continue;
		}
		while (at->index < m->ports) {
			uint64_t off = m->ports_off + at->index++ * sizeof(port->port);

			port->member = m->index;
			if (read_pool(v, &port->port, sizeof(port->port), off) &&
			    port->port.flags & WEFT_PORT_BOUND)
				return true;
		}
	}
	return false;
}
