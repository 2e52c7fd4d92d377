/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The files of a torus on one host, by its name: below one folder of the user's
 *
 *   lattice          what it is, as text; written last
 *   X.Y.Z/pool       the pool of that node: its card's and its programs' alone
 *   X.Y.Z/door       at which neighbours and programs knock; the card holds its lock (flock) while
 *                    it lives
 *   X.Y.Z/log        what the card has said
 *   cables/X.Y.Z-N   the words that leave node X.Y.Z by cable N (link/ring.h)
 *
 * Context: any thread.
 */
#ifndef WEFT_LINK_TORUS_H
#define WEFT_LINK_TORUS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/door.h"

#define WEFT_TORUS_NAME	      "torus" /* unless the user says another */
#define WEFT_TORUS_NAME_BYTES 33u
#define WEFT_TORUS_HOME_ENV   "WEFT_TORUS_HOME" /* instead of /dev/shm */

/* `asked`: serial, number, value; the flag: it is to be written. `answered`: serial, value; the flag: refused. */
#define WEFT_TORUS_REG_NEXT   (1ull << 48)
#define WEFT_TORUS_REG_SERIAL (~0ull << 48)
#define WEFT_TORUS_REG_FLAG   (1ull << 47)
#define WEFT_TORUS_REG_NUMBER 32u
#define WEFT_TORUS_REG_MASK   0x7fffu

/* What carries the beats of cables, and how they are coded. */
enum weft_torus_link { WEFT_TORUS_RING, WEFT_TORUS_UDP };
enum weft_torus_phy { WEFT_TORUS_NO_PHY, WEFT_TORUS_8B10B, WEFT_TORUS_64B66B };

/* Beats of a cable in a turn of the card. */
#define WEFT_TORUS_BURST 320u

#define WEFT_TORUS_PARTS 8u

struct weft_torus_peer {
	uint8_t address[16];
	uint16_t port;
};

struct weft_torus_shape {
	uint32_t size[3], line[3], order[3];
	uint32_t tie, channels, quads;
	uint32_t header_depth, data_depth; /* of FIFOs, in words */
	uint32_t engines, locals;
	uint32_t link, phy, lanes;
	uint32_t part, parts; /* nodes of the others are elsewhere */
	uint32_t netns;	      /* each node has a network namespace of its own */
	uint64_t cookie;      /* of its datagrams */
	struct weft_torus_peer
		at[WEFT_TORUS_PARTS]; /* of each part, this one's, too: where its first port is */
};

/* Whether the node with this index is of this part; the first index of a part. */
uint32_t weft_torus_first(const struct weft_torus_shape *shape, uint32_t part);
bool weft_torus_is_here(const struct weft_torus_shape *shape, uint32_t node);
/* The part of a node. */
uint32_t weft_torus_part(const struct weft_torus_shape *shape, uint32_t node);
/* Quads of a ring: beats, or the bits of all lanes of a slot. */
uint32_t weft_torus_ring_quads(const struct weft_torus_shape *shape);
/* Its beats: room for what the FIFOs at its end can take, and for what a card writes in a turn. */
uint32_t weft_torus_ring_beats(const struct weft_torus_shape *shape);

/* The memory of a node's door. */
struct weft_torus_door {
	struct weft_door door;
	_Atomic uint32_t pid;	/* of the card that has the lock */
	_Atomic uint32_t ready; /* [card] 1: it hears all its neighbours */
	/*
	 * A register that is read or written from outside, by one process at a time: the one that has the lock (flock) of
	 * the node's folder writes `asked`, knocks, and has the answer when `answered` has the same serial. Relaxed: all is
	 * in the one word. A card that reads an old `asked` reads the new one when it was knocked for.
	 */
	_Atomic uint64_t asked, answered; /* [asker], [card] */
};

/* The folder, absolute; -EINVAL: a name is 1 to 32 letters, digits, `-` and `_`; -ENAMETOOLONG; realpath(3)'s, of a
 * WEFT_TORUS_HOME that is relative. */
int weft_torus_home(const char *name, char path[PATH_MAX]);
/* The folder of a node, or a file of it; -ENAMETOOLONG. */
int weft_torus_node(const char *home, const uint8_t at[3], const char *file, char path[PATH_MAX]);
int weft_torus_cable(const char *home, const uint8_t at[3], unsigned int cable,
		     char path[PATH_MAX]);

int weft_torus_save(const char *home, const struct weft_torus_shape *shape);
/* -EPROTO (it says nothing that is a lattice), or open(2)'s. Whether it can be is the engine's. */
int weft_torus_load(const char *home, struct weft_torus_shape *shape);

/* The door of a node; make: with the file, if there is none. NULL: errno. *fd: negative, or of the
 * file, for its lock. */
struct weft_torus_door *weft_torus_door_open(const char *path, bool make, int *fd);
void weft_torus_door_close(struct weft_torus_door *door);
/* Whether a card that lives has the lock of that file. The look has it for a moment itself, if none has. */
bool weft_torus_door_is_locked(int fd);

#endif
