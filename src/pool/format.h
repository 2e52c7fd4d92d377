/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The format of a pool: one file that every member maps. Offsets and handles, never pointers;
 * fixed widths; each field names its one writer. Freestanding: user space, kernel and tools share it.
 *
 *   0        header, then the lease tables
 *   1 MiB    members
 *   32 MiB   queue pairs (QPN = index | generation << 18, weft_pool_qpn)
 *   96 MiB   memory regions (key = index << 12 | generation)
 *   192 MiB  segments of 16 MiB, leased to members: extents of regions, rings
 *
 * Ownership is by lease: a segment, a block of queue pairs or a block of regions belongs to one
 * member, which alone writes in it and keeps its own books in private memory. A lease is one
 * 8-byte word, changed under the pool's file lock. Recovering a dead member is giving back its leases.
 *
 * Writers: [L] the process that holds the file lock, [O] the owner of the lease or the member itself,
 * [P] the one peer that the text names, [*] anyone, always the same value.
 */
#ifndef WEFT_POOL_FORMAT_H
#define WEFT_POOL_FORMAT_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "backing/atomic.h"

#define WEFT_POOL_MAGIC	    0x4c4f4f5054464557ull /* "WEFTPOOL" */
#define WEFT_POOL_MAKING    0x454b414d54464557ull /* "WEFTMAKE": the first bytes of all */
#define WEFT_POOL_VERSION   14u

#define WEFT_PAGE	    4096ull
#define WEFT_LINE	    64u
#define WEFT_SEGMENT	    (16ull << 20)
#define WEFT_SEGMENTS	    16384u /* at most; file_bytes of the header says how many there are */
#define WEFT_FIRST_SEGMENT  12u	   /* those before hold the tables and are never leased */

#define WEFT_MEMBERS	    1024u
#define WEFT_MEMBER_LINES   64u
#define WEFT_MEMBER_GIDS    32u
#define WEFT_MEMBER_GROUPS  64u

#define WEFT_DATAGRAM_BYTES 256u
#define WEFT_MAILBOX_SLOTS  256u

#define WEFT_QP_INDEX_BITS  18u
#define WEFT_QPS	    (1u << WEFT_QP_INDEX_BITS)
#define WEFT_QP_BLOCK	    64u
#define WEFT_QPT_QUEUE	    0x80u /* as type: not a queue pair, but a receive queue of XRC */
#define WEFT_MR_INDEX_BITS  20u
#define WEFT_MRS	    (1u << WEFT_MR_INDEX_BITS)
#define WEFT_KEY_BITS	    12u /* of a key below the index */
#define WEFT_MR_BLOCK	    256u
#define WEFT_BLOCKS	    4096u /* of queue pairs, regions and objects */

#define WEFT_OFF_LEASES	    WEFT_PAGE
#define WEFT_OFF_MEMBERS    (1ull << 20)
#define WEFT_OFF_QPS	    (32ull << 20)
#define WEFT_OFF_MRS	    (96ull << 20)
#define WEFT_OFF_OBJECTS    (160ull << 20)

/* What has been carried, counted where it is executed: by the requester. */
struct weft_counters {
	uint64_t ops_write, bytes_write;
	uint64_t ops_read, bytes_read;
	uint64_t ops_send, bytes_send;
	uint64_t ops_atomic;
};

static inline void weft_counters_add(struct weft_counters *sum, const struct weft_counters *part)
{
	sum->ops_write += part->ops_write;
	sum->bytes_write += part->bytes_write;
	sum->ops_read += part->ops_read;
	sum->bytes_read += part->bytes_read;
	sum->ops_send += part->ops_send;
	sum->bytes_send += part->bytes_send;
	sum->ops_atomic += part->ops_atomic;
}

struct weft_pool_header {
	uint64_t magic;	  /* [L] written last when the pool is made */
	uint32_t version; /* [L] */
	/* [L] how often the lock was taken by members: shows those that wait for it that it goes on */
	_Atomic uint32_t turns;
	uint64_t signature; /* [L] of the layout (file.c) */
	uint64_t file_bytes;
	uint64_t incarnations;	       /* [L] the last one given out */
	_Atomic uint64_t members_end;  /* [L] members ever used are below this; their pages stay */
	struct weft_counters departed; /* [L] sums of the members that have gone */
	/* [L] While `merging` names a member, + 1, `merged` is what becomes of `departed`, and the
	 * counters of its lines are void. */
	struct weft_counters merged;
	_Atomic uint64_t merging;
};

/*
 * Leases: 0 free, else member index + 1 in the low 16 bits and its incarnation above.
 * A run of segments that holds one large extent is leased segment by segment.
 */
struct weft_pool_leases {
	_Atomic uint64_t segment[WEFT_SEGMENTS];    /* [L] */
	_Atomic uint64_t qp_block[WEFT_BLOCKS];	    /* [L] */
	_Atomic uint64_t mr_block[WEFT_BLOCKS];	    /* [L] */
	_Atomic uint64_t object_block[WEFT_BLOCKS]; /* [L] */
	_Atomic uint32_t
		numbers; /* [L] where QPNs begin, and what is added to each; 0: none was leased */
};

/* A number from another pool, or from before, is not likely to hit a queue pair here. */
#define WEFT_NUMBERS(random)  ((random) | 1u << 31)
#define WEFT_NUMBERS_BLOCK(n) ((n) % WEFT_BLOCKS)
#define WEFT_NUMBERS_ADDED(n) ((n) >> 12 & 63)

/*
 * One line a thread. busy: where the thread is executing (weft_busy_at; 0: nowhere), and above
 * WEFT_BUSY_BITS a sequence. A revoker waits until no line names it with the same value.
 */
#define WEFT_BUSY_MEMBER_BITS 11
#define WEFT_BUSY_BITS	      (WEFT_BUSY_MEMBER_BITS + WEFT_QP_INDEX_BITS)

/* At which member, and at which of its queue pairs; 0: at none of them. */
static inline uint64_t weft_busy_at(uint16_t member, uint32_t qp_index)
{
	return (member + 1u) | qp_index << WEFT_BUSY_MEMBER_BITS;
}

/* Without the sequence. */
static inline uint64_t weft_busy_place(uint64_t busy)
{
	return busy & ((1u << WEFT_BUSY_BITS) - 1);
}

/* The member, + 1; 0: nowhere. */
static inline uint32_t weft_busy_member(uint64_t busy)
{
	return busy & ((1u << WEFT_BUSY_MEMBER_BITS) - 1);
}

static inline uint32_t weft_busy_qp(uint64_t busy)
{
	return (uint32_t)(weft_busy_place(busy) >> WEFT_BUSY_MEMBER_BITS);
}

/*
 * While it executes there, the thread may touch memory of a further member: of a protection domain that
 * processes share. Its word in `also` names that one, + 1, or WEFT_ALSO_ALL, under the sequence of `busy`;
 * under another one it says nothing, so that nobody need clear it.
 */
#define WEFT_ALSO_ALL ((1u << WEFT_BUSY_MEMBER_BITS) - 1)

static inline uint32_t weft_also_member(uint64_t also, uint64_t busy)
{
	return (also ^ busy) >> WEFT_BUSY_BITS ? 0 : weft_busy_member(also);
}

/* What it is once it names `member`, too. */
static inline uint64_t weft_also_add(uint64_t also, uint64_t busy, uint16_t member)
{
	uint32_t named = weft_also_member(also, busy);

	return busy >> WEFT_BUSY_BITS << WEFT_BUSY_BITS |
	       (named && named != member + 1u ? WEFT_ALSO_ALL : member + 1u);
}

struct weft_pool_line {
	_Atomic uint64_t busy;	       /* [O] the thread */
	struct weft_counters counters; /* [O] the thread */
};

/* What a thread asks of the helper of another member: work on memory that only its owner reaches; or, as a
 * call, on a queue pair that that one has made. */
struct weft_pool_ask {
	/* [O] the thread: odd while asked; the answer is due for exactly this number */
	_Alignas(WEFT_LINE) _Atomic uint64_t seq;
	uint32_t target; /* member */
	uint32_t kind;	 /* enum weft_ask_kind */
	uint64_t va;
	uint64_t len_bytes;
	uint64_t operand[2];
	uint64_t bounce_off; /* where the bytes come from or go to, in a segment of the asker */
	/* of the region in which all of it lies: the helper looks; of calls: the QPN, and above it the domain */
	uint64_t id;
	/* not of calls: the word by which it is allowed, and what that was: the helper looks */
	uint64_t grant_off, grant_was;
	/* [P] the helper of `target` */
	_Alignas(WEFT_LINE) _Atomic uint64_t answered; /* the seq it answers, stored last */
	uint64_t value;
	int64_t error; /* 0 or -errno */
};

enum weft_ask_kind {
	WEFT_ASK_READ = 1,
	WEFT_ASK_WRITE,
	WEFT_ASK_CMP_SWAP,
	WEFT_ASK_FETCH_ADD,
	/* calls: `bounce_off` has what verbs/receiver.h says */
	WEFT_ASK_QP_OPEN,
	WEFT_ASK_QP_MODIFY,
	WEFT_ASK_QP_QUERY,
	WEFT_ASK_QP_CLOSE,
};

/*
 * Datagrams of connection management, posted by one member for any other: a ring that each
 * addressee walks. Number n, counted from incarnation << 32 of the poster, stands in slot n % size
 * until it is overwritten; a reader copies it between two equal looks at its seq.
 */
struct weft_pool_mailbox_slot {
	_Atomic uint64_t seq; /* [O] all: 0 while it is written, then n + 1 */
	uint64_t incarnation; /* of the addressee */
	uint16_t member;
	uint8_t bytes[WEFT_DATAGRAM_BYTES];
};

struct weft_pool_mailbox {
	_Atomic uint64_t posted; /* [O] the next number */
	_Alignas(WEFT_LINE) struct weft_pool_mailbox_slot slot[WEFT_MAILBOX_SLOTS];
};

enum weft_port_flags {
	WEFT_PORT_BOUND = 1 << 0,
	WEFT_PORT_LISTENS = 1 << 1,
	WEFT_PORT_SHARED = 1 << 2,     /* with others that say so, as long as nobody listens */
	WEFT_PORT_ONE_FAMILY = 1 << 3, /* any address means: any of IPv4, or of IPv6 */
};

/* A port that a connection identifier holds. IPv4 addresses as ::ffff:a.b.c.d, any as zeros. */
struct weft_pool_port {
	uint8_t addr[16];
	uint16_t port, space;
	_Atomic uint32_t
		flags; /* enum weft_port_flags; 0: free, which its owner says without the lock */
};

/* A queue pair that listens to a multicast group. */
struct weft_pool_group {
	_Atomic uint32_t qpn; /* [O] 0: free; stored last */
	uint8_t gid[16];
};

/* An address of a member's, which comes and goes with the host's. */
struct weft_pool_gid {
	_Atomic uint32_t guard;	  /* [O] grows before and after the rest changes; odd: it has one */
	_Atomic uint64_t half[2]; /* [O] */
};

/* False: it has none, or another one just now. */
static inline bool weft_gid_read(const struct weft_pool_gid *at, uint8_t gid[16])
{
	/* acquire: pairs with the last release in publish (gids.c) */
	uint32_t guard = atomic_load_explicit(&at->guard, memory_order_acquire);
	/* acquire: pairs with those before it: a reader that sees something new sees that the guard has grown */
	uint64_t half[2] = {atomic_load_explicit(&at->half[0], memory_order_acquire),
			    atomic_load_explicit(&at->half[1], memory_order_acquire)};

	__builtin_memcpy(gid, half, 16);
	return guard & 1 && atomic_load_explicit(&at->guard, memory_order_relaxed) == guard;
}

static inline bool weft_gid_is(const struct weft_pool_gid *at, const uint8_t gid[16])
{
	uint8_t found[16];

	return weft_gid_read(at, found) && !__builtin_memcmp(found, gid, 16);
}

/* How far a member's memory has moved: the phase is `moves` modulo their number. */
enum weft_moving {
	WEFT_MOVING_NONE,  /* it lies where it stays */
	WEFT_MOVING_HOLDS, /* nobody may begin to touch it any more */
	WEFT_MOVING_LEAVES, /* an executor that had begun has finished, or stands still and is left behind */
	WEFT_MOVING_PHASES = 4,
};

static inline enum weft_moving weft_moving_phase(uint64_t moves)
{
	return moves % WEFT_MOVING_PHASES;
}

/* What `moves` is when that phase begins next. */
static inline uint64_t weft_moving_next(uint64_t moves, enum weft_moving phase)
{
	return moves + (phase - moves) % WEFT_MOVING_PHASES;
}

struct weft_pool_member {
	_Atomic uint64_t incarnation; /* [L] 0: free */
	uint32_t pid; /* [O] in the pid namespace pid_ns, as are the rest of this line */
	uint32_t uid;
	uint64_t pid_ns, net_ns; /* inode numbers of the namespaces */
	uint64_t start_time;	 /* of the process, clock ticks since boot */
	uint64_t witness;	 /* see witness.h */
	char comm[16];
	_Atomic uint32_t lines; /* [O] lines in use are below this */
	_Atomic uint32_t ngids; /* [O] those in use are below this */
	struct weft_pool_gid gid[WEFT_MEMBER_GIDS];

	/* Only ever grows, from phase to phase (enum weft_moving): a member that shares a domain with it looks at it. */
	_Alignas(WEFT_LINE) _Atomic uint64_t moves; /* [O] */
	/* by line */
	_Alignas(WEFT_LINE) _Atomic uint64_t also[WEFT_MEMBER_LINES]; /* [O] the thread */

	/* The helper's doorbell: reasons first, then `signalled`, then wake it if it sleeps. */
	_Alignas(WEFT_LINE) _Atomic uint32_t signalled; /* [*] 1, [O] the helper: 0 */
	_Atomic uint32_t due[8];		     /* [*] 1, [O] 0: by enum weft_signal_reason */
	_Alignas(WEFT_LINE) _Atomic uint32_t asleep; /* [O] the helper */

	_Alignas(WEFT_LINE) _Atomic uint64_t mailbox_off; /* [O] 0: it has never posted */
	uint64_t ports_off;				  /* [L] of `ports` struct weft_pool_port */
	uint32_t ports;
	_Atomic uint32_t groups; /* [O] those in use are below it */
	/* [O], or the recoverer: what it keeps in segments is about to be given back */
	_Atomic uint32_t leaves;
	struct weft_pool_group group[WEFT_MEMBER_GROUPS];

	_Alignas(WEFT_PAGE) struct weft_pool_line line[WEFT_MEMBER_LINES];
	struct weft_pool_ask ask[WEFT_MEMBER_LINES];
	/* [O] by poster: the number of the next of its datagrams to look at */
	_Alignas(WEFT_PAGE) _Atomic uint64_t taken[WEFT_MEMBERS];
};

static inline bool weft_member_has_gid(const struct weft_pool_member *m, const uint8_t gid[16])
{
	uint32_t n = atomic_load_explicit(&m->ngids, memory_order_relaxed);

	for (uint32_t i = 0; i < n && i < WEFT_MEMBER_GIDS; i++)
		if (weft_gid_is(&m->gid[i], gid))
			return true;
	return false;
}

/*
 * The responder's side of a queue pair as peers see it.
 * conn: destination QPN (24 bits), weft_pool_conn (8 bits), and above them a sequence that grows
 * with every change of this line, so that a peer compares one word to know that all it has read
 * before still holds.
 */
enum weft_pool_conn {
	WEFT_CONN_NONE = 0,	/* RESET or INIT, or no queue pair */
	WEFT_CONN_READY = 1,	/* takes requests */
	WEFT_CONN_ERROR = 2,	/* nothing is answered */
	WEFT_CONN_REHOMING = 3, /* its owner's memory moves: READY again soon */
};

#define WEFT_ANY_PSN UINT32_MAX

struct weft_pool_qp {
	_Atomic uint64_t conn; /* [O] stored last */
	_Atomic uint32_t qpn;  /* [O] 0: free */
	_Atomic uint32_t pd;   /* [O] all of this line; read between two equal looks at conn */
	/* of the receive ring, rq_size slots of rq_stride bytes; or, with rq_size 0, of a struct
	 * weft_pool_srq */
	_Atomic uint64_t rq_off;
	/* of the completion ring that the connected peer fills; then without entries */
	_Atomic uint64_t ring_off;
	_Atomic uint32_t rq_size, rq_stride;
	_Atomic uint16_t owner;
	_Atomic uint8_t type, state; /* state: for `weft info` */
	_Atomic uint8_t access, min_rnr_timer;
	_Atomic uint8_t generation; /* survives the queue pair */
	_Atomic uint8_t connection; /* grows when one ends: what its peer still completes is void */
	_Atomic uint32_t rq_epoch;  /* grows when the receive queue is emptied */
	_Atomic uint32_t qkey;	    /* of XRC: the domain */
	/* of XRC_RECV, for others that have it open: the last four asynchronous events (enum weft_event), eight
	 * bits each, and in the upper half how many there were. Not guarded by conn */
	_Atomic uint64_t events;

	/* [O] receives ever posted; it never goes back, and what lies before rq_start is void */
	_Alignas(WEFT_LINE) _Atomic uint64_t rq_posted;
	_Atomic uint64_t rq_start;
	/* of the first request that it takes; read as the line above. WEFT_ANY_PSN: of any */
	_Atomic uint32_t rq_psn;

	/* [O] too, but about the peer: how many of its receives I have used, in which epoch of whose */
	_Alignas(WEFT_LINE) _Atomic uint64_t rq_taken;
	_Atomic uint32_t rq_taken_epoch, rq_taken_qpn;
	/* [P] the peer, as it goes: how many of my receives it had used (lower half), in which epoch of mine */
	_Atomic uint64_t rq_left;
	/* the peer's conn word at which I found it at fault, why (enum weft_event), and its QPN: the
	 * peer's owner derives its state from it, even when I have gone */
	_Atomic uint64_t fault_conn;
	_Atomic uint32_t fault_code, fault_qpn;
};

/* The next number of an entry, by its owner. It is neither 0, 1 nor 0xffffff, as those indexes are never
 * given out. */
static inline uint32_t weft_pool_qpn(const struct weft_pool_leases *leases,
				     struct weft_pool_qp *slot, uint32_t index)
{
	uint32_t added =
		WEFT_NUMBERS_ADDED(atomic_load_explicit(&leases->numbers, memory_order_relaxed));

	return index | ((++slot->generation + added) & 63) << WEFT_QP_INDEX_BITS;
}

/* A receive as posted. Written by the owner before rq_posted grows; read by the connected peer. */
struct weft_pool_sge {
	uint64_t addr;
	uint32_t len_bytes;
	uint32_t lkey;
};

struct weft_pool_recv {
	uint64_t wr_id;
	uint32_t num_sge;
	uint32_t reserved;
	struct weft_pool_sge sge[];
};

/*
 * A receive queue from which many members take, each receive for one message of its own: that of a
 * UD queue pair, or one that queue pairs share. The receive of position n stands in slot n % size
 * and is there if the slot's state says {FREE, n's lap}; positions without are passed over. A taker that
 * wants it makes claim n % size, of another lap until then, {TAKEN, lap, member}, by compare-and-swap as
 * others may want it, too; places the bytes; writes `taken`; and makes the state {DONE, lap}, by
 * compare-and-swap again, for the owner may have given up on it; then its claim DONE. The owner makes a
 * completion of that, and the slot EMPTY. It waits looking at the oldest slot alone, which is written
 * once for each message. So a taker that completes behind one of which it does not know that it is complete tells
 * by `late` before: then the owner looks at claims, to go past those that are TAKEN.
 */
enum weft_claim {
	WEFT_CLAIM_EMPTY,
	WEFT_CLAIM_FREE,
	WEFT_CLAIM_TAKEN,
	WEFT_CLAIM_DONE,
};

#define WEFT_LAP_BITS	      24u
#define WEFT_INCARNATION_BITS 28u
#define WEFT_CLAIM(what, lap) ((uint64_t)(lap) << 40 | (what))
#define WEFT_CLAIM_WHO(member, incarnation)                                                        \
	((uint64_t)(member) << 2 | ((incarnation) & ((1ull << WEFT_INCARNATION_BITS) - 1)) << 12)

static inline uint32_t weft_claim_lap(uint64_t claim)
{
	return (uint32_t)(claim >> 40);
}

static inline enum weft_claim weft_claim_what(uint64_t claim)
{
	return (enum weft_claim)(claim & 3);
}

static inline uint16_t weft_claim_member(uint64_t claim)
{
	return claim >> 2 & 1023;
}

static inline uint32_t weft_claim_incarnation(uint64_t claim)
{
	return claim >> 12 & ((1u << WEFT_INCARNATION_BITS) - 1);
}

struct weft_pool_taken {
	uint32_t tag; /* the queue pair it came for, as in a weft_pool_cqe; 0: nothing came */
	uint32_t byte_len;
	uint32_t imm;
	uint32_t src_qpn; /* and above it the service level */
	uint8_t status, opcode;
	uint8_t flags, solicited;
};

struct weft_pool_slot {
	_Atomic uint64_t state;	      /* [O] EMPTY, FREE; [P] the member that has TAKEN it: DONE */
	struct weft_pool_taken taken; /* [P] the member that has TAKEN it */
	uint32_t told;		      /* [O] its completion is no news to an armed queue */
	struct weft_pool_recv recv;   /* [O] */
};

#define WEFT_LATE      1u
#define WEFT_LATE_SEEN 2u

struct weft_pool_srq {
	uint32_t size, stride;	/* [O] a power of two of slots, of so many bytes */
	uint32_t pd;		/* [O] whose memory the receives may name */
	_Atomic uint32_t limit; /* [O] with fewer left it wants to be signalled; 0: never */
	_Atomic uint32_t
		fault; /* [P] a datagram found a receive without rights: its queue pair's tag */
	/* [O] the longer queue into which it was posted afterwards, or 0. Stored after the last `posted`.
	 * Of those, the limit and the fault are the first one's; it keeps its place while they last */
	_Atomic uint64_t next_off;
	_Alignas(WEFT_LINE) _Atomic uint64_t posted; /* [O] positions ever used are below it */
	/* [P] WEFT_LATE: one was completed out of turn; [O] WEFT_LATE_SEEN, and 0 again. The first one's, too */
	_Atomic uint32_t late;
	/* [P] takers: nothing is free below it. A hint: it may lag behind */
	_Alignas(WEFT_LINE) _Atomic uint64_t taken;
	/* then as many claims, [P] takers; and times of completion, [P] the member that has TAKEN it, if they are wanted
	 * (struct weft_pool_ring) */
	_Alignas(WEFT_LINE) uint8_t slots[];
};

static inline uint64_t weft_pool_srq_bytes(uint32_t size, uint32_t stride)
{
	return sizeof(struct weft_pool_srq) + (uint64_t)size * (stride + 2 * sizeof(uint64_t));
}

static inline _Atomic uint64_t *weft_pool_claims(struct weft_pool_srq *at, uint32_t size,
						 uint32_t stride)
{
	return (_Atomic uint64_t *)(at->slots + (uint64_t)size * stride);
}

static inline uint64_t *weft_pool_srq_stamps(struct weft_pool_srq *at, uint32_t size,
					     uint32_t stride)
{
	return (uint64_t *)(weft_pool_claims(at, size, stride) + size);
}

/*
 * A completion ring: receive completions that one member writes for one completion queue. It is as
 * deep as the receives that can complete into it, so it cannot overrun and needs no consumer index.
 * Entry n is valid when its lap is n / size + 1.
 */
struct weft_pool_cqe {
	uint64_t wr_id;
	uint32_t qpn; /* and in the upper 8 bits the connection */
	uint32_t byte_len;
	uint32_t imm; /* as it travels: big-endian */
	uint32_t src_qpn;
	uint8_t status, opcode;
	uint8_t flags, solicited;
	_Atomic uint32_t lap; /* stored last */
};

/*
 * The alarm of a completion queue that was armed. The producer that completes into the queue, and finds its arming to be
 * for that, makes the word {CLAIMED, number, member} by compare-and-swap, and then wakes the owner: one for each
 * arming. The owner takes what was claimed, and so has one event for it, whichever member woke it.
 */
enum weft_alarm {
	WEFT_ALARM_OFF,
	WEFT_ALARM_ANY,	      /* armed for each completion */
	WEFT_ALARM_SOLICITED, /* for those that are solicited or in error */
	WEFT_ALARM_CLAIMED,
};

struct weft_pool_alarm {
	/* as a claim: enum weft_alarm, the number of the arming in place of a lap, and, of CLAIMED, the member. [O] all
	 * but CLAIMED, [P] the producer: that */
	_Atomic uint64_t word;
	uint64_t bell_off; /* [O] of its channel's bell; 0: nobody is to be woken */
};

/*
 * The bell of a completion channel: the producer that wakes its owner writes 8 bytes into the pipe that is the owner's
 * descriptor `fd`, unless it is told already. The inode says whether a descriptor is still that pipe.
 */
struct weft_pool_bell {
	_Atomic uint32_t
		told; /* [P] 1 before it is written to, [O] 0 before it looks which queues have news */
	_Atomic int32_t fd; /* [O] for reading and writing; -1: the owner's helper has to write */
	uint64_t dev, ino;  /* [O] */
};

struct weft_pool_ring {
	/* [O] owner of the queue: where its alarm is once it was armed, before that 0. From then on those that
	 * complete fence before they look at it, so that arming asks no barrier of them */
	_Atomic uint64_t alarm_off;
	uint32_t size; /* a power of two, or 0: completions stand elsewhere */
	uint16_t owner, producer;
	/* behind the entries stand as many times at which they were completed, in ns of CLOCK_MONOTONIC */
	uint32_t stamped;
	_Alignas(WEFT_LINE) _Atomic uint64_t produced; /* [P] the producing member */
	_Alignas(WEFT_LINE) struct weft_pool_cqe cqe[];
};

static inline uint64_t weft_pool_ring_bytes(uint32_t size, bool stamped)
{
	return sizeof(struct weft_pool_ring) +
	       size * (sizeof(struct weft_pool_cqe) + (stamped ? sizeof(uint64_t) : 0));
}

static inline uint64_t *weft_pool_ring_stamps(struct weft_pool_ring *ring, uint32_t size)
{
	return (uint64_t *)&ring->cqe[size];
}

/*
 * A memory region as peers see it. Most have one pooled run between an in-place head and tail:
 * it stands here, [lo, hi) counted from the start of the region. Others list their pieces.
 */
struct weft_pool_mr {
	/* [O] the key, and above it how many regions had the entry: no two are the same. Stored last
	 * when made; when ended, first the number alone, as entry 0 has no key. All else between.
	 * [P] A window of type 2 can also be ended, by compare-and-swap, by the peer of its queue pair */
	union {
		_Atomic uint64_t id;
		uint32_t key;
	};
	union {
		struct {
			uint16_t owner;
			uint8_t access; /* enum weft_access, low byte */
			uint8_t check;	/* the bytes of the whole entry, exclusively ored, are 0 */
			uint32_t pd;
		};
		uint64_t rights; /* all of that in one word, to be compared at once */
	};
	uint64_t iova, len_bytes;
	uint64_t va;	  /* of iova in the owner */
	uint64_t off, lo; /* lo above hi: `off` is that of an array of weft_pool_piece, `hi` long */
	uint64_t hi;
};

static inline bool weft_mr_is_listed(const struct weft_pool_mr *mr)
{
	return mr->lo > mr->hi;
}

#define WEFT_MR_LISTED UINT64_MAX /* as lo */
#define WEFT_NOWHERE                                                                               \
	(UINT64_MAX - 1) /* as off of one that is all in place: no memory stands behind it */

/* `rights` as one word; machines that share a pool are little-endian, as its files are. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a pool is little-endian");
#define WEFT_MR_RIGHTS(owner, access, pd)                                                          \
	((uint64_t)(uint16_t)(owner) | (uint64_t)(uint8_t)(access) << 16 | (uint64_t)(pd) << 32)

struct weft_pool_piece {
	uint64_t start; /* from the start of the region; the next piece's start ends it */
	uint64_t off;	/* UINT64_MAX: in place */
};

_Static_assert(WEFT_MEMBERS < 1 << WEFT_BUSY_MEMBER_BITS && WEFT_BUSY_BITS < 31,
	       "a busy line has room");
_Static_assert(sizeof(struct weft_pool_line) == WEFT_LINE, "a thread writes one line");
_Static_assert(sizeof(struct weft_pool_mr) == WEFT_LINE, "a key check reads one line");
_Static_assert(sizeof(struct weft_pool_qp) == 3 * WEFT_LINE, "one line a writer");
_Static_assert(sizeof(struct weft_pool_cqe) == 32, "two completions a line");
_Static_assert(sizeof(struct weft_pool_slot) + sizeof(struct weft_pool_sge) == WEFT_LINE,
	       "a receive of one element and its completion are one line");
_Static_assert(sizeof(struct weft_pool_alarm) <= WEFT_LINE &&
		       sizeof(struct weft_pool_bell) <= WEFT_LINE,
	       "each is a piece of one line");
_Static_assert(sizeof(struct weft_pool_leases) <= WEFT_OFF_MEMBERS - WEFT_OFF_LEASES, "leases fit");
_Static_assert(WEFT_MEMBERS * sizeof(struct weft_pool_member) <= WEFT_OFF_QPS - WEFT_OFF_MEMBERS,
	       "members fit");
_Static_assert(WEFT_QPS * sizeof(struct weft_pool_qp) <= WEFT_OFF_MRS - WEFT_OFF_QPS, "QPs fit");
_Static_assert(WEFT_MRS * sizeof(struct weft_pool_mr) <= WEFT_OFF_OBJECTS - WEFT_OFF_MRS,
	       "regions fit");

#endif
