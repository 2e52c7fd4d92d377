/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define QUAD_BYTES 8u
#define BEATS_MAX  (1u << 20)
#define NS_IN_US   1000ull

static uint64_t file_bytes_of(uint32_t quads, uint32_t beats)
{
	return sizeof(struct weft_ring_file) + (uint64_t)quads * beats * QUAD_BYTES;
}

static bool can_be(uint32_t quads, uint32_t beats)
{
	return quads && quads <= WEFT_RING_QUADS && beats && beats <= BEATS_MAX &&
	       !(beats & (beats - 1));
}

int weft_ring_make(const char *path, uint32_t quads, uint32_t beats)
{
	struct weft_ring_file head = {
		.magic = WEFT_CABLE_RING_MAGIC, .quads = quads, .beats = beats};
	uint64_t bytes = file_bytes_of(quads, beats);
	int fd, err = 0;

	if (!can_be(quads, beats))
		return -EINVAL;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	/* reserved: a store must not meet a full file system */
	err = -posix_fallocate(fd, 0, (off_t)bytes);
	if (!err && pwrite(fd, &head, sizeof(head), 0) != sizeof(head))
		err = -errno;
	close(fd);
	if (err)
		unlink(path);
	return err;
}

int weft_ring_open(struct weft_cable_ring *r, const char *path, bool reads)
{
	struct weft_ring_file *file;
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC), err = 0;

	memset(r, 0, sizeof(*r));
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if ((uint64_t)st.st_size < sizeof(*file))
		err = -EPROTO;
	if (!err) {
		r->bytes = (uint64_t)st.st_size;
		file = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (file == MAP_FAILED)
			err = -errno;
		else
			r->file = file;
	}
	close(fd);
	if (err)
		return err;
	r->quads = file->quads;
	r->beats = file->beats;
	if (file->magic != WEFT_CABLE_RING_MAGIC || !can_be(r->quads, r->beats) ||
	    r->bytes < file_bytes_of(r->quads, r->beats)) {
		weft_ring_close(r);
		return -EPROTO;
	}
	/* acquire: pairs with the releases in show_up_to and weft_ring_give_back */
	r->others = atomic_load_explicit(reads ? &file->sent : &file->taken, memory_order_acquire);
	r->mine = reads ? r->others : atomic_load_explicit(&file->sent, memory_order_relaxed);
	r->shown = r->mine;
	return 0;
}

void weft_ring_close(struct weft_cable_ring *r)
{
	if (r->file)
		munmap(r->file, r->bytes);
	r->file = NULL;
}

static uint64_t *beat_at(struct weft_cable_ring *r)
{
	return r->file->quad + (r->mine & (r->beats - 1)) * r->quads;
}

/* ---- The writer ---- */

static bool is_without_room(struct weft_cable_ring *r, uint32_t beats)
{
	if (r->mine - r->others + beats <= r->beats)
		return false;
	/* acquire: pairs with the release in weft_ring_give_back */
	r->others = atomic_load_explicit(&r->file->taken, memory_order_acquire);
	return r->mine - r->others + beats > r->beats;
}

bool weft_ring_has_room(struct weft_cable_ring *r, uint32_t beats)
{
	if (!is_without_room(r, beats))
		return true;
	atomic_store_explicit(&r->file->waits, 1, memory_order_relaxed);
	/* pairs with the fence in weft_torus_cables_knock (card/torus/cables.c), between weft_ring_give_back and weft_ring_is_awaited */
	atomic_thread_fence(memory_order_seq_cst);
	return !is_without_room(r, beats);
}

static uint64_t draw_below(struct weft_cable_ring *r, uint64_t limit)
{
	r->random = r->random * 6364136223846793005ull + 1442695040888963407ull;
	return (r->random >> 33) % limit;
}

static bool is_drawn(struct weft_cable_ring *r, _Atomic uint32_t *of_many)
{
	uint32_t n = atomic_load_explicit(of_many, memory_order_relaxed);

	return n && draw_below(r, WEFT_RING_MANY) < n;
}

void weft_ring_put(struct weft_cable_ring *r, const uint64_t *quad)
{
	uint64_t *to = beat_at(r);
	uint32_t i = 0;

	if (atomic_load_explicit(&r->file->cut, memory_order_relaxed) ||
	    is_drawn(r, &r->file->losses)) {
		r->lost++;
		return;
	}
	do
		to[i] = quad[i];
	while (++i < r->quads);
	if (is_drawn(r, &r->file->flips)) {
		uint64_t bit = draw_below(r, (uint64_t)r->quads * 64);

		to[bit / 64] ^= 1ull << bit % 64;
		r->flipped++;
	}
	r->mine++;
}

void weft_ring_put_run(struct weft_cable_ring *r, const uint64_t *quad, uint32_t beats)
{
	const struct weft_ring_file *f = r->file;
	bool is_good = !atomic_load_explicit(&f->cut, memory_order_relaxed) &&
		       !atomic_load_explicit(&f->losses, memory_order_relaxed) &&
		       !atomic_load_explicit(&f->flips, memory_order_relaxed);

	while (beats) {
		uint32_t run = r->beats - (uint32_t)(r->mine & (r->beats - 1));

		run = !is_good ? 1 : run < beats ? run : beats;
		if (is_good) {
			memcpy(beat_at(r), quad, (size_t)run * r->quads * QUAD_BYTES);
			r->mine += run;
		} else {
			weft_ring_put(r, quad);
		}
		quad += (size_t)run * r->quads;
		beats -= run;
	}
}

static void show_up_to(struct weft_cable_ring *r, uint64_t end)
{
	/* most cables have nothing new in most turns of a card, and a store takes the line from the reader */
	if (r->shown == end)
		return;
	r->shown = end;
	/* release: pairs with the acquire in weft_ring_give_back */
	atomic_store_explicit(&r->file->sent, end, memory_order_release);
}

void weft_ring_flush(struct weft_cable_ring *r)
{
	r->pieces = 0;
	show_up_to(r, r->mine);
}

static struct weft_ring_piece *piece_at(struct weft_cable_ring *r, uint32_t n)
{
	return &r->piece[(r->first_piece + n) % WEFT_RING_PIECES];
}

/* Where there are as many pieces as can be, the last grows, and is as late as what comes to it. */
static void delay_new(struct weft_cable_ring *r, uint64_t due_ns)
{
	if ((r->pieces ? piece_at(r, r->pieces - 1)->end : r->shown) == r->mine)
		return;
	r->pieces += r->pieces < WEFT_RING_PIECES;
	*piece_at(r, r->pieces - 1) = (struct weft_ring_piece){r->mine, due_ns};
}

uint64_t weft_ring_show(struct weft_cable_ring *r, uint64_t now_ns)
{
	uint64_t delay_ns =
		atomic_load_explicit(&r->file->delay_us, memory_order_relaxed) * NS_IN_US;
	uint64_t end = r->shown;

	if (!delay_ns) {
		weft_ring_flush(r);
		return 0;
	}
	delay_new(r, now_ns + delay_ns);
	for (; r->pieces && piece_at(r, 0)->due_ns <= now_ns; r->pieces--) {
		end = piece_at(r, 0)->end;
		r->first_piece = (r->first_piece + 1) % WEFT_RING_PIECES;
	}
	show_up_to(r, end);
	return r->pieces ? piece_at(r, 0)->due_ns : 0;
}

void weft_ring_pass(struct weft_cable_ring *r)
{
	/* release: pairs with the acquire in is_without_room, of this very process */
	atomic_store_explicit(&r->file->taken, r->shown, memory_order_release);
}

/* ---- The reader ---- */

bool weft_ring_take(struct weft_cable_ring *r, uint64_t quad[WEFT_RING_QUADS])
{
	if (r->mine == r->others)
		return false;
	memcpy(quad, beat_at(r), (size_t)r->quads * QUAD_BYTES);
	r->mine++;
	return true;
}

uint32_t weft_ring_look(struct weft_cable_ring *r, uint32_t most, const uint64_t **quad)
{
	uint64_t there = r->others - r->mine;
	uint32_t run = r->beats - (uint32_t)(r->mine & (r->beats - 1));

	*quad = beat_at(r);
	run = run < most ? run : most;
	return run < there ? run : (uint32_t)there;
}

void weft_ring_skip(struct weft_cable_ring *r, uint32_t beats)
{
	r->mine += beats;
}

bool weft_ring_give_back(struct weft_cable_ring *r)
{
	/* release: pairs with the acquire in is_without_room. A store that changes nothing would take the line from the writer. */
	if (atomic_load_explicit(&r->file->taken, memory_order_relaxed) != r->mine)
		atomic_store_explicit(&r->file->taken, r->mine, memory_order_release);
	/* acquire: pairs with the release in show_up_to */
	r->others = atomic_load_explicit(&r->file->sent, memory_order_acquire);
	if (r->others - r->mine > r->beats) {
		r->lost++;
		r->mine = r->others;
	}
	return r->mine != r->others;
}

bool weft_ring_is_awaited(struct weft_cable_ring *r)
{
	if (!atomic_load_explicit(&r->file->waits, memory_order_relaxed))
		return false;
	atomic_store_explicit(&r->file->waits, 0, memory_order_relaxed);
	return true;
}
