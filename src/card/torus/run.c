/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The card's life: its files, its word times, its sleep. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "card/alone.h"
#include "card/prompt.h"
#include "card/torus/torus.h"
#include "pool/clock.h"
#include "process/node.h"
#include "process/process.h"

/* Between looks at what programs have posted and at neighbours that sleep, in bursts of word times. */
#define SERVE_EVERY 4u
#define HAND_EVERY  8u
#define SAY_EVERY   256u
#define NAP_NS	    5000000u
#define NAPS_MOST   400u

/* In a stream, so many turns without sleep, a card looks again for a while before it sleeps, some times as long as sleep and waking
 * take: two that wait for each other at each window, or until a program has had the core of one, would spend more on sleep than
 * on words. Other programs have the core meanwhile, if they want it. */
#define STREAM_TURNS 6u
#define LINGER_NS    100000u
#define LATE_NS	     1000000u /* a yield that took so long found a program that keeps the core */
#define LATE_SHARE   10u      /* then none for so many times as long */
/* In a stream neighbours are shown so many bursts at once, each about a packet: the lines of memory by which they are told go from
 * core to core. */
#define BURSTS_ONCE 4u
/* In a stream a program that sleeps is told of ends no oftener, as cards moderate their interrupts; at once when nothing moves. */
#define TELL_NS 100000u

static struct weft_torus_door *ending; /* the card's own door, for the signal's handler */
static _Atomic bool is_over;

static void end_it(int signal)
{
	atomic_store(&is_over, true);
	atomic_store(&ending->door.asleep, 1);
	weft_door_knock(&ending->door);
}

/* ---- Its files ---- */

/* One that looks whether the card lives has the lock for a moment; so have the threads of one that is just being killed. */
static int lock_door(int lock)
{
	static const struct timespec nap = {0, NAP_NS};

	for (unsigned int tries = 0; flock(lock, LOCK_EX | LOCK_NB); tries++) {
		if (errno != EWOULDBLOCK)
			return -errno;
		if (tries == NAPS_MOST)
			return -EBUSY;
		nanosleep(&nap, NULL);
	}
	return 0;
}

static int open_own_door(struct weft_torus_card *c, const char *home, const uint8_t at[3])
{
	char path[PATH_MAX];
	int err = weft_torus_node(home, at, "door", path);

	if (err)
		return err;
	c->door = weft_torus_door_open(path, true, &c->lock);
	if (!c->door)
		return -errno;
	err = lock_door(c->lock);
	if (err)
		return err;
	atomic_store(&c->door->ready, 0);
	atomic_store(&c->door->pid, (uint32_t)getpid());
	return 0;
}

/* Prepares the card's page of the pool; programs come when the card's word stands there. */
static void open_page(struct weft_torus_card *c, struct weft_ape_ni_config *config)
{
	struct weft_pool_ape_card *page = &c->shared->card;
	uint64_t life = atomic_load_explicit(&page->life, memory_order_relaxed) + 1;

	config->life = (uint16_t)(life % WEFT_APE_LIFE_MAX + !(life % WEFT_APE_LIFE_MAX));
	for (unsigned int d = 0; d < WEFT_APE_DIMENSIONS; d++) {
		page->size[d] = config->node.lattice.size[d];
		page->line[d] = config->node.lattice.line[d];
		page->at[d] = config->node.me.at[d];
	}
	page->locals = config->node.locals;
	page->engines = config->engines;
	atomic_store_explicit(&page->life, config->life, memory_order_relaxed);
	c->claims = UINT64_MAX;
}

/* It joins the node's pool as its programs do, by the environment. */
static int join_pool(struct weft_torus_card *c, const char *home, const uint8_t at[3])
{
	char path[PATH_MAX];
	int err = weft_torus_node(home, at, "pool", path);

	if (!err && setenv("WEFT_POOL", path, 1))
		err = -errno;
	err = err ? err : weft_torus_node(home, at, NULL, path);
	if (!err && setenv(WEFT_TORUS_NODE_ENV, path, 1))
		err = -errno;
	err = err ? err : weft_process_get(&weft_alone_api);
	if (!err)
		c->pool = weft_process.pool;
	return err;
}

static int begin_card(struct weft_torus_card *c, const char *home, const uint8_t at[3],
		      const char **why)
{
	struct weft_ape_ni_config config;
	int err = weft_torus_load(home, &c->shape);

	*why = "there is no such torus";
	if (err)
		return err;
	*why = "its lattice cannot be";
	if (!weft_torus_config(&c->shape, at, &config))
		return -EPROTO;
	*why = "the node has a card";
	err = open_own_door(c, home, at);
	if (err)
		return err;
	*why = "the node's pool";
	err = join_pool(c, home, at);
	if (err)
		return err;
	*why = "out of memory";
	c->shared = weft_pool_ape(c->pool);
	c->memory = calloc(weft_ape_node_words(&config.node), sizeof(*c->memory));
	if (!c->shared || !c->memory)
		return -ENOMEM;
	open_page(c, &config);
	weft_ape_ni_init(&c->engine, &config, c->memory, &weft_torus_world, c);
	if (c->shape.phy != WEFT_TORUS_NO_PHY)
		c->engine.node.send_words = NULL; /* a line code has marks between words */
	*why = "a cable cannot be opened";
	err = weft_torus_cables_open(c, home);
	if (err)
		return err;
	*why = "verbs";
	return weft_torus_verbs_begin(c);
}

/* ---- Word times ---- */

/* A burst of each cable is taken, and what can go on goes. */
static bool move_words(struct weft_torus_card *c)
{
	bool any = weft_torus_cables_take(c);

	if (weft_torus_verbs_wants(c))
		any |= weft_torus_verbs_serve(c);
	weft_torus_cables_look_for_room(c);
	return weft_ape_ni_step(&c->engine, c->now_ns) || any;
}

static bool word_time(struct weft_torus_card *c, uint64_t turn)
{
	unsigned int left = c->stream.turns < STREAM_TURNS ? 1 : BURSTS_ONCE;
	bool busy = false;

	/* first of all behind sleep */
	if (turn % SAY_EVERY == 0)
		weft_torus_cables_look_for_cuts(c);
	if (turn % SERVE_EVERY == 0) {
		busy |= weft_torus_guests_serve(c);
		busy |= weft_torus_verbs_serve(c);
	}
	while (left-- && move_words(c))
		busy = true;
	if (c->engine.node.doubted)
		weft_torus_cables_doubt(c);
	weft_torus_lanes_train(c);
	busy |= weft_torus_cables_exchange(c);
	return busy;
}

static void say_ready(struct weft_torus_card *c)
{
	/* cables to nodes elsewhere are up when the others are */
	if (!(c->near & ~c->engine.node.router.up) &&
	    !atomic_load_explicit(&c->door->ready, memory_order_relaxed))
		atomic_store_explicit(&c->door->ready, 1, memory_order_relaxed);
}

static void lie_down(struct weft_torus_card *c)
{
	uint64_t until = weft_ape_ni_deadline(&c->engine), verbs, lanes, cables;
	bool rung;
	uint32_t seen;

	if (c->guests && c->look_ns < until)
		until = c->look_ns;
	weft_torus_numbers(c);
	say_ready(c);
	seen = weft_door_lie_down(&c->door->door);
	rung = weft_torus_verbs_listen(c);
	verbs = weft_torus_verbs_deadline(c);
	lanes = weft_torus_lanes_deadline(c);
	cables = weft_torus_cables_deadline(c);
	until = verbs < until ? verbs : until;
	until = lanes < until ? lanes : until;
	until = cables < until ? cables : until;
	if (!rung && !weft_torus_cables_exchange(c) && !weft_torus_cables_have_room(c) &&
	    !weft_torus_guests_wait(c) && !weft_torus_registers_wait(c) && until > c->now_ns &&
	    !is_over) {
		atomic_fetch_add_explicit(&c->shared->card.sleeps, 1, memory_order_relaxed);
		if (c->bell)
			weft_door_sleep_beside(&c->door->door, seen, c->bell, until);
		else
			weft_door_sleep(&c->door->door, seen,
					until == UINT64_MAX ? -1 : (int64_t)(until - c->now_ns));
	}
	weft_torus_verbs_get_up(c);
	weft_door_get_up(&c->door->door);
	/* the card may have slept, or waited for a core, for long: what has come meanwhile is heard before silence is judged */
	weft_torus_cables_exchange(c);
}

/* Nothing moved in this turn. Whether to look again, behind a yield, instead of sleep. */
static bool linger(struct weft_torus_card *c)
{
	struct weft_torus_stream *s = &c->stream;
	uint64_t took_ns;

	if (s->turns < STREAM_TURNS || c->now_ns < s->crowded_until_ns)
		return false;
	if (!s->linger_until_ns)
		s->linger_until_ns = c->now_ns + LINGER_NS;
	if (c->now_ns >= s->linger_until_ns)
		return false;
	sched_yield();
	took_ns = weft_clock_now_ns() - c->now_ns;
	if (took_ns >= LATE_NS)
		s->crowded_until_ns = c->now_ns + (1 + LATE_SHARE) * took_ns;
	return true;
}

/* A turn in which something moved. */
static void note_moved(struct weft_torus_card *c, uint64_t turn)
{
	c->stream.turns++;
	c->stream.linger_until_ns = 0;
	if (c->stream.turns < STREAM_TURNS || c->now_ns - c->stream.told_ns >= TELL_NS) {
		weft_torus_guests_tell(c);
		c->stream.told_ns = c->now_ns;
	}
	if (turn % HAND_EVERY == 0)
		weft_torus_cables_knock(c);
	if (turn % SAY_EVERY == 0) {
		weft_torus_numbers(c);
		weft_torus_registers_serve(c);
	}
}

static void live(struct weft_torus_card *c)
{
	for (uint64_t turn = 0; !is_over;) {
		c->now_ns = weft_clock_now_ns();
		if (word_time(c, turn++)) {
			note_moved(c, turn);
			continue;
		}
		turn = 0; /* what was posted meanwhile is looked for at once */
		weft_torus_cables_knock(c);
		if (linger(c))
			continue;
		weft_torus_guests_tell(c);
		weft_torus_registers_serve(c);
		weft_torus_guests_look(c);
		weft_torus_verbs_look(c);
		lie_down(c);
		c->stream.turns = 0;
	}
}

static void catch_signals(void)
{
	struct sigaction action = {.sa_handler = end_it};

	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	signal(SIGPIPE, SIG_IGN);
}

int weft_torus_card_run(const char *home, const uint8_t at[3], const char **why)
{
	struct weft_torus_card *c = calloc(1, sizeof(*c));
	int err;

	*why = "out of memory";
	if (!c)
		return -ENOMEM;
	err = begin_card(c, home, at, why);
	if (!err) {
		ending = c->door;
		catch_signals();
		weft_card_be_prompt();
		/* release: pairs with the acquire in weft_pool_ape_claim */
		atomic_store_explicit(&c->shared->card.word, weft_pool_ape_word(c->pool),
				      memory_order_release);
		live(c);
		atomic_store_explicit(&c->shared->card.word, 0, memory_order_release);
		weft_torus_guests_dismiss(c);
		weft_torus_verbs_end(c);
	}
	if (c->pool)
		weft_process_put();
	weft_torus_cables_close(c);
	free(c->memory);
	free(c);
	return err;
}
