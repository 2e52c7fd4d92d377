/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Requests of io_uring on memory that is or was registered: in whatever order, the bytes that a request reads
 * are where the program and its peers look for them, and those that it writes are the ones that are there.
 * Each case is a thread with a ring. A ring that is only mapped submits its request before the
 * deregistration. A ring that is made after Weft has looked for one, and before the pages migrate, counts,
 * too.
 */
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"
#include "pool/clock.h"
#include "ring.h"

#define PAGE 4096ul
#define LEN  PAGE /* what a pipe takes as a whole */
#define MORE (4 * PAGE)

enum when { AT_DEREGISTRATION, AFTER_IT, REGISTERED_AGAIN, WHENS };

struct ring_case {
	unsigned int opcode;
	enum when when;
	enum ring_held held;
	bool ring_first; /* the ring is made before the first registration */
	uint8_t *memory;
	int pipe[2];
	size_t filled;	   /* bytes in the pipe that are in front of the request's */
	const char *wrong; /* NULL: nothing is wrong */
	bool skipped;
};

static uint8_t pattern[LEN];

static const char *const whens[] = {"pending at deregistration", "after it", "registered again"};
static const char *const helds[] = {"descriptor", "number", "mapping", "neither"};

static bool is_write(const struct ring_case *c)
{
	return c->opcode == IORING_OP_WRITE || c->opcode == IORING_OP_WRITE_FIXED;
}

/* Opens a ring that has the memory as a fixed buffer; of other operations the ring itself must be enough to
 * keep memory where it is. */
static bool open_ring(struct ring_case *c, struct ring *ring)
{
	bool fixed = c->opcode == IORING_OP_READ_FIXED || c->opcode == IORING_OP_WRITE_FIXED;

	c->skipped =
		!ring_open(ring, c->held, c->memory, fixed || c->held == BY_NOTHING ? MORE : 0);
	return !c->skipped;
}

static uint8_t *as_peer(const struct weft_region *region)
{
	return region->pieces[0].off == WEFT_IN_PLACE ? (uint8_t *)region->pieces[0].va
						      : memfd_source_at(region->pieces[0].off);
}

static bool register_memory(struct ring_case *c, struct weft_region *region)
{
	if (!weft_region_acquire(c->memory, MORE, WEFT_REGION_MIGRATE, region) &&
	    region->npieces == 1)
		return true;
	c->wrong = "registration";
	return false;
}

/* Submits the request, which an empty pipe, or a full one, keeps from ending. */
static void submit(struct ring_case *c, struct ring *ring)
{
	static const uint8_t filler[PAGE];

	fcntl(c->pipe[1], F_SETFL, O_NONBLOCK);
	while (is_write(c) && write(c->pipe[1], filler, PAGE) == PAGE)
		c->filled += PAGE;
	fcntl(c->pipe[1], F_SETFL, 0);
	ring_submit(ring, c->opcode, c->pipe[!!is_write(c)], c->memory, LEN);
	if (c->held == BY_MAPPING)
		ring_let_go(ring);
}

/* A request that reads: its bytes are in the program's memory. One that writes: it has the bytes that the
 * program or a peer has stored meanwhile. */
static void end_read(struct ring_case *c, struct ring *ring)
{
	if (write(c->pipe[1], pattern, LEN) != LEN || ring_wait(ring) != LEN)
		c->wrong = "result";
	else if (memcmp(c->memory, pattern, LEN))
		c->wrong = "bytes in memory";
}

static void end_write(struct ring_case *c, struct ring *ring, uint8_t *store)
{
	uint8_t got[LEN];
	size_t done = 0;

	memcpy(store, pattern, LEN);
	for (; c->filled; c->filled -= PAGE)
		if (read(c->pipe[0], got, PAGE) != PAGE)
			c->wrong = "the pipe";
	if (ring_wait(ring) != LEN)
		c->wrong = "result";
	for (ssize_t n = 1; n > 0 && done < LEN && !c->wrong; done += (size_t)n)
		n = read(c->pipe[0], got + done, LEN - done);
	if (!c->wrong && memcmp(got, pattern, LEN))
		c->wrong = "bytes written";
}

static void play(struct ring_case *c, struct ring *ring)
{
	struct weft_region region;
	uint8_t *store = c->memory;

	if (!register_memory(c, &region))
		return;
	if (!c->ring_first && region.pieces[0].off == WEFT_IN_PLACE)
		c->wrong = "in place without a ring";
	if (c->ring_first && region.pieces[0].off != WEFT_IN_PLACE)
		c->wrong = "migrated although there is a ring";
	if (!c->ring_first && !open_ring(c, ring)) {
		weft_region_release(&region);
		return;
	}
	if (c->when == AT_DEREGISTRATION || c->held == BY_MAPPING)
		submit(c, ring);
	weft_region_release(&region);
	if (!c->ring_first && !weft_region_is_away())
		c->wrong = "migrated back although there is a ring";
	if (c->when == REGISTERED_AGAIN && register_memory(c, &region))
		store = as_peer(&region);
	if (c->when != AT_DEREGISTRATION && c->held != BY_MAPPING)
		submit(c, ring);
	if (is_write(c))
		end_write(c, ring, store);
	else
		end_read(c, ring);
	if (c->when != REGISTERED_AGAIN && !register_memory(c, &region))
		return;
	if (!c->wrong && memcmp(as_peer(&region), pattern, LEN))
		c->wrong = "bytes as a peer sees them";
	weft_region_release(&region);
	ring_close(ring);
}

static void *in_thread(void *arg)
{
	struct ring_case *c = arg;
	struct ring ring;

	if (!c->ring_first || open_ring(c, &ring))
		play(c, &ring);
	return NULL;
}

/* The kernel ends a ring some time after its last user is gone. */
static void wait_until_home(struct ring_case *c)
{
	for (int i = 0; weft_region_is_away() && i < 2500; i++) {
		weft_region_bring_home(weft_clock_now_ns());
		usleep(2000);
	}
	if (!c->wrong && (weft_region_is_away() || memfd_source_extents()))
		c->wrong = "pages are away although the ring is gone";
	if (!c->wrong && memcmp(c->memory, pattern, LEN))
		c->wrong = "bytes that came home";
	if (!c->wrong && (madvise(c->memory, MORE, MADV_DONTNEED) || c->memory[0]))
		c->wrong = "shared memory after the pages came home";
}

/* Whether the rings of the earlier cases are gone. */
static bool is_free(void)
{
	uint8_t *memory =
		mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct weft_region region;
	bool pooled;

	assert_int_equal(weft_region_acquire(memory, PAGE, WEFT_REGION_MIGRATE, &region), 0);
	pooled = region.pieces[0].off != WEFT_IN_PLACE;
	weft_region_release(&region);
	munmap(memory, PAGE);
	return pooled;
}

static unsigned int run(struct ring_case c)
{
	pthread_t thread;

	for (int i = 0; !is_free() && i < 2500; i++)
		usleep(2000);
	c.memory = mmap(NULL, MORE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(c.memory, 1, LEN);
	assert_int_equal(pipe(c.pipe), 0);
	assert_int_equal(pthread_create(&thread, NULL, in_thread, &c), 0);
	pthread_join(thread, NULL);
	if (!c.skipped)
		wait_until_home(&c);
	if (c.wrong)
		print_message("operation %u, %s, ring held by %s%s: %s\n", c.opcode, whens[c.when],
			      helds[c.held], c.ring_first ? ", before it" : "", c.wrong);
	close(c.pipe[0]);
	close(c.pipe[1]);
	munmap(c.memory, MORE);
	return c.skipped ? 0 : 1 + (c.wrong ? 1u << 16 : 0);
}

static void each(enum ring_held held)
{
	static const unsigned int opcodes[] = {IORING_OP_READ_FIXED, IORING_OP_WRITE_FIXED,
					       IORING_OP_READ, IORING_OP_WRITE};
	unsigned int sum = 0;

	for (unsigned int i = 0; i < 4 * WHENS * 2; i++)
		sum += run((struct ring_case){.opcode = opcodes[i % 4],
					      .when = (enum when)(i / 4 % WHENS),
					      .held = held,
					      .ring_first = i >= 4 * WHENS});
	if (!sum) {
		print_message("no ring held by %s here\n", helds[held]);
		skip();
	}
	assert_int_equal(sum, 4 * WHENS * 2);
}

static void test_descriptor(void **state)
{
	each(BY_DESCRIPTOR);
}

static void test_number(void **state)
{
	each(BY_NUMBER);
}

static void test_mapping(void **state)
{
	each(BY_MAPPING);
}

static void test_nothing(void **state)
{
	each(BY_NOTHING);
}

/* ---- A ring that is made in the midst of a migration ---- */

#define BY_AIO (BY_NOTHING + 1) /* an AIO context */

struct sudden {
	int held;
	bool in; /* whether it is made as the pages migrate in; else as they migrate out */
	bool skipped;
	struct ring ring;
	aio_context_t context;
	const char *wrong;
};

static struct sudden *coming; /* what is to be made at the next parking; NULL: nothing */

int __real_weft_park(uintptr_t start, uintptr_t end, bool hearing);
int __wrap_weft_park(uintptr_t start, uintptr_t end, bool hearing);

static bool open_sudden(struct sudden *s)
{
	if (s->held == BY_AIO)
		return !syscall(SYS_io_setup, 1, &s->context);
	return ring_open(&s->ring, (enum ring_held)s->held, NULL, 0);
}

static void close_sudden(struct sudden *s)
{
	if (s->held == BY_AIO)
		syscall(SYS_io_destroy, s->context);
	else
		ring_close(&s->ring);
}

/* Called when Weft has looked for rings. The other threads still run, and one of them could make a ring
 * now. */
int __wrap_weft_park(uintptr_t start, uintptr_t end, bool hearing)
{
	if (coming)
		coming->skipped = !open_sudden(coming);
	coming = NULL;
	return __real_weft_park(start, end, hearing);
}

static void *migrate_beside(void *arg)
{
	struct sudden *s = arg;
	struct ring_case c = {.memory = mmap(NULL, MORE, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)};
	struct weft_region region;

	memcpy(c.memory, pattern, LEN);
	coming = s->in ? s : NULL;
	if (!register_memory(&c, &region)) {
		s->wrong = c.wrong;
		return NULL;
	}
	if (s->in != (region.pieces[0].off == WEFT_IN_PLACE))
		s->wrong = s->in ? "migrated although there is a ring" : "in place without a ring";
	coming = s->in ? NULL : s;
	weft_region_release(&region);
	if (!s->in && !weft_region_is_away())
		s->wrong = "migrated back although there is a ring";
	if (coming)
		s->wrong = "no migration that parks";
	coming = NULL;
	if (memcmp(c.memory, pattern, LEN))
		s->wrong = "bytes in memory";
	close_sudden(s);
	wait_until_home(&c);
	s->wrong = s->wrong ? s->wrong : c.wrong;
	munmap(c.memory, MORE);
	return NULL;
}

static void test_sudden(void **state)
{
	static const int held[] = {BY_DESCRIPTOR, BY_NUMBER, BY_AIO};

	for (unsigned int i = 0; i < 6; i++) {
		struct sudden s = {.held = held[i / 2], .in = i % 2};
		pthread_t thread;

		for (int n = 0; !is_free() && n < 2500; n++)
			usleep(2000);
		assert_int_equal(pthread_create(&thread, NULL, migrate_beside, &s), 0);
		pthread_join(thread, NULL);
		if (s.wrong && !s.skipped)
			fail_msg("%d, %s: %s", s.held, s.in ? "in" : "out", s.wrong);
	}
}

static int setup(void **state)
{
	for (size_t i = 0; i < LEN; i++)
		pattern[i] = (uint8_t)(i * 31 + i / PAGE + 7);
	memfd_source_attach();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptor), cmocka_unit_test(test_number),
		cmocka_unit_test(test_mapping),	   cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_sudden),
	};

	return cmocka_run_group_tests_name("rings", tests, setup, NULL);
}
