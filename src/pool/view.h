/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A look at a pool from outside: no member, opened for reading only, and a sparse file is not mapped (a load from a
 * hole would allocate it). Members come and go meanwhile and the file may be
 * damaged: whatever is read is copied first and checked then, and what makes no sense is left out
 * and counted in `damaged`.
 *
 * Context: one thread a view. Strings hold printable ASCII only.
 */
#ifndef WEFT_POOL_VIEW_H
#define WEFT_POOL_VIEW_H

#include <limits.h>
#include <stdbool.h>

#include "backing/backing.h"
#include "pool/counters.h"
#include "pool/doorbell.h"
#include "pool/format.h"
#include "pool/format_mailbox.h"
#include "pool/format_region.h"
#include "pool/sizes.h"
#include "pool/view_host.h"

struct weft_view_member {
	uint16_t index;
	uint64_t incarnation; /* 0: the number is free */
	uint32_t pid, uid;
	uint64_t pid_ns, net_ns, start_time;
	char comm[17];
	uint32_t threads, ngids;
	uint8_t gid[WEFT_MEMBER_GIDS][16];
	uint32_t host;
	bool is_here; /* its host's home is: else `alive` says whether that beats, and its helper is not known to sleep */
	bool alive, helper_asleep;
	uint64_t ports_off;
	uint32_t ports;
	uint32_t card_reach; /* enum weft_card_reach; of a card: */
	uint8_t card_address[16];
	uint64_t card_told[WEFT_CARD_COUNTS];
};

struct weft_view_qp {
	uint32_t qpn, dest_qpn; /* dest_qpn: 0 unless conn is WEFT_CONN_READY */
	uint16_t member;
	uint8_t type, state;
	uint64_t posted; /* receives, ever */
	uint64_t taken;	 /* of them: used by the peer, or void */
};

struct weft_view_mr {
	uint32_t key;
	uint16_t member;
	uint8_t access;
	uint64_t va, iova, len_bytes;
	uint64_t pooled_bytes; /* the rest is in place */
	uint64_t device_off;   /* memory of a device: where the pool says which; 0: it is none */
};

struct weft_view_port {
	uint16_t member;
	struct weft_pool_port port;
};

/* Where a walk through a table stands; starts as zero. */
struct weft_view_cursor {
	uint32_t index, block; /* block: what `bytes` holds, + 1 */
	_Alignas(WEFT_LINE) uint8_t bytes[WEFT_MR_BLOCK * sizeof(struct weft_pool_mr)];
};

struct weft_view {
	char path[PATH_MAX];
	const struct weft_backing *on;
	struct weft_backed *backed;
	uint32_t version;
	uint64_t allocated_bytes, file_bytes;
	uint64_t bytes; /* its offsets are below this */
	uint64_t
		grain_bytes; /* mappings are multiples of it; above a page the memory of programs stays in place */
	uint32_t segments_leased;
	uint32_t damaged;
	bool unlocked; /* a process had the file lock for too long: sums may be off by one member */
	struct weft_counters
		totals; /* of those that have gone and those that are there, of hosts with homes here */
	uint32_t hosts; /* 0: its home is in itself */
	bool atomics;	/* between its hosts */
	struct weft_view_host host[WEFT_HOSTS];
	unsigned int nmembers; /* members ever used; look for an incarnation */
	struct weft_view_member member[WEFT_MEMBERS];
	struct weft_pool_leases leases; /* as they were then */
};

/*
 * Opens the pool that weft_pool_get() would attach to, and reads all but its queue pairs and
 * regions; of one of several hosts it looks for their beats, as weft_view_hosts. -ENOENT (there is none yet), -EPROTO (not a pool, or of another version or layout),
 * -EPERM, -ENOMEM, or open(2)'s. *why says it in a sentence.
 * path: NULL, or which one; where: the path that was chosen, also when this fails.
 */
int weft_view_open(const char *path, char where[PATH_MAX], struct weft_view **view,
		   const char **why);
void weft_view_close(struct weft_view *view);
/* The process that holds the lock, in words; what to do about it is WEFT_BACKING_ADVICE. */
void weft_view_lock_owner(const struct weft_view *view, char *text, size_t text_bytes);

/* The next one in use; false at the end. */
bool weft_view_qp(struct weft_view *view, struct weft_view_cursor *at, struct weft_view_qp *qp);
bool weft_view_mr(struct weft_view *view, struct weft_view_cursor *at, struct weft_view_mr *mr);
/* Bytes of a segment, as they are now. False: there are none. */
bool weft_view_bytes(const struct weft_view *view, uint64_t off, void *to, uint64_t bytes);
/* The same for what connection identifiers hold; at->block counts members. */
bool weft_view_port(struct weft_view *view, struct weft_view_cursor *at,
		    struct weft_view_port *port);

#endif
