/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The card of a node of a live torus: the engine of wire/ape over cables in shared memory, and the
 * programs of its node, which it meets in the node's pool: those of libweft-ape in pool/format_ape.h, those of
 * verbs as any card does. One process, one thread beside the helper (and one that listens for datagrams); asleep while nothing moves.
 */
#ifndef WEFT_CARD_TORUS_TORUS_H
#define WEFT_CARD_TORUS_TORUS_H

#include <pthread.h>

#include "link/cable_udp.h"
#include "link/ring.h"
#include "link/torus.h"
#include "pool/ape.h"
#include "wire/ape/lanes.h"
#include "wire/ape/ni.h"

struct weft_torus_verbs;

/* A program of the node, as its slot stands for it. */
struct weft_torus_guest {
	uint64_t owner; /* its lease word; 0: none */
	uint64_t base;
	uint16_t member;
	bool stale;   /* it came to an earlier life of the card: nothing is done for it */
	bool leaving; /* it has gone, and something of it may be under way */
	bool blocked; /* the engine has as many descriptors of it as can wait */
	bool told;    /* something was written for it; its door is to be knocked at */
};

struct weft_torus_cable {
	bool there;
	bool brought, took; /* since the neighbour was last knocked for */
	struct weft_cable_ring out, in;
	struct weft_torus_door *door;	/* the neighbour's; NULL: it is elsewhere */
	int lock;			/* of that door, which the neighbour has while it lives */
	uint64_t silent_ns;		/* when it was found silent; 0: it has spoken since */
	struct weft_cable_udp *udp;	/* NULL: rings carry */
	uint64_t carried;		/* of what was put into `out`, as datagrams */
	uint64_t due_ns;		/* when a long cable brings more; 0: nothing is on it */
	struct weft_ape_phy *phy;	/* NULL: beats go as they are */
	uint64_t train_ns, patience_ns; /* when markers come next, where the channel is not up */
};

/* How it goes since the card slept. */
struct weft_torus_stream {
	uint64_t turns;		   /* in which something moved */
	uint64_t linger_until_ns;  /* while nothing does; 0: something has just moved */
	uint64_t told_ns;	   /* when it was last looked which programs to tell */
	uint64_t crowded_until_ns; /* others wanted the core: so long it is left to them */
};

struct weft_torus_card {
	struct weft_torus_shape shape;
	struct weft_ape_ni engine;
	struct weft_ape_word *memory;
	struct weft_pool *pool;
	struct weft_pool_ape *shared;
	struct weft_torus_door *door;
	int lock;
	struct weft_torus_cable cable[WEFT_APE_CABLES];
	uint8_t near; /* cables to nodes of this host, as bits */
	bool listens; /* with the thread, at `ear`: epoll, of datagrams */
	int ear;
	pthread_t listener;
	struct weft_torus_guest guest[WEFT_POOL_APE_SLOTS];
	uint8_t here[WEFT_POOL_APE_SLOTS]; /* slots with a guest */
	unsigned int guests;
	bool any_told;
	uint64_t claims;  /* as they were when slots were looked through last */
	uint64_t look_ns; /* when it is looked next whether guests live */
	uint64_t now_ns;
	struct weft_torus_stream stream;
	struct weft_torus_verbs *verbs; /* NULL: not begun */
	_Atomic uint32_t
		*bell; /* where programs ring it (pool/doorbell.h); NULL: they wake its helper */
};

/* The engine's configuration for a lattice; false: no lattice can be so. */
bool weft_torus_config(const struct weft_torus_shape *shape, const uint8_t at[3],
		       struct weft_ape_ni_config *config);

/* ---- Between the files of the card ---- */

/* world.c */
extern const struct weft_ape_world weft_torus_world;

/* guests.c: takes what programs have posted, at most some of each. Whether there was anything. */
bool weft_torus_guests_serve(struct weft_torus_card *c);
/* Whether there is something that weft_torus_guests_serve would take. */
bool weft_torus_guests_wait(const struct weft_torus_card *c);
/* Looks after programs that have left or died. */
void weft_torus_guests_look(struct weft_torus_card *c);
/* Knocks at the doors of the programs for which something was written. */
void weft_torus_guests_tell(struct weft_torus_card *c);

/* The card has gone: all are woken. */
void weft_torus_guests_dismiss(struct weft_torus_card *c);

/* verbs.c. 0, -ENOMEM, or why there is no helper. */
int weft_torus_verbs_begin(struct weft_torus_card *c);
void weft_torus_verbs_end(struct weft_torus_card *c);
void weft_torus_verbs_receive(struct weft_torus_card *c, struct weft_ape_coord from,
			      const uint8_t *payload, uint32_t bytes);
/* Whether an engine has something to send, or may have room now. */
bool weft_torus_verbs_wants(const struct weft_torus_card *c);
/* Hears doorbells, and lets engines send what there is room for. Whether anything came of it. */
bool weft_torus_verbs_serve(struct weft_torus_card *c);
/* When to serve although nothing came; asked between lying down and sleep. */
uint64_t weft_torus_verbs_deadline(const struct weft_torus_card *c);
/* Between lying down and sleep: from now on doorbells wake the card. Whether one had rung. */
bool weft_torus_verbs_listen(struct weft_torus_card *c);
/* Behind sleep: doorbells wake it no more. */
void weft_torus_verbs_get_up(struct weft_torus_card *c);
/* Before sleep: looks now and then for those that have gone. */
void weft_torus_verbs_look(struct weft_torus_card *c);

/* cables.c. 0, or -errno. */
int weft_torus_cables_open(struct weft_torus_card *c, const char *home);
void weft_torus_cables_close(struct weft_torus_card *c);
/* Takes what has come, at most a burst of each. Whether anything had. */
bool weft_torus_cables_take(struct weft_torus_card *c);
/* Drops what is for cables that are cut, or half come by them. */
void weft_torus_cables_look_for_cuts(struct weft_torus_card *c);
void weft_torus_cables_look_for_room(struct weft_torus_card *c);
/* Whether a cable that was full has room: its reader may have taken something before this card lay down. */
bool weft_torus_cables_have_room(struct weft_torus_card *c);
/* Shows neighbours what was written, and looks for what they have. Whether there is more, or neighbours are to be knocked for. */
bool weft_torus_cables_exchange(struct weft_torus_card *c);
void weft_torus_cables_knock(struct weft_torus_card *c);
/* When a long cable brings what was written; UINT64_MAX: none does. */
uint64_t weft_torus_cables_deadline(const struct weft_torus_card *c);
/* Looks whether neighbours that are silent live. */
void weft_torus_cables_doubt(struct weft_torus_card *c);

/* lanes.c: cables with a line code. 0 or -ENOMEM; none without one. */
int weft_torus_lanes_begin(struct weft_torus_card *c, struct weft_torus_cable *cable);
void weft_torus_lanes_send(struct weft_torus_cable *cable, const struct weft_ape_beat *beat);
void weft_torus_lanes_receive(struct weft_torus_card *c, unsigned int which, const uint64_t *quad,
			      uint32_t slots);
void weft_torus_lanes_train(struct weft_torus_card *c);
uint64_t weft_torus_lanes_deadline(const struct weft_torus_card *c);

/* numbers.c: the card's page; a register that is asked for at its door. */
void weft_torus_numbers(const struct weft_torus_card *c);
bool weft_torus_registers_wait(const struct weft_torus_card *c);
void weft_torus_registers_serve(struct weft_torus_card *c);

/*
 * Runs the card of a node until SIGTERM, or for ever. 0, or -errno; *why says it in a sentence.
 * -EBUSY: the node has one.
 */
int weft_torus_card_run(const char *home, const uint8_t at[3], const char **why);

#endif
