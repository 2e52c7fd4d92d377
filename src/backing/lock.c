/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Locks of the pool file. They belong to an open file description and end with it.
 *
 * A member's proof of life has a description of its own that only the mapping of the window holds:
 * no descriptor that the program could close or a child inherit. So the kernel drops the lock when
 * the process ends, however it ends, and not before.
 *
 * A critical section opens the file anew, since the mappings of migrated memory would keep another description
 * locked if the program closed its descriptor in the middle.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backing/lock_owner.h"
#include "backing/private.h"
#include "pool/clock.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/step.h"

#define TELL_NS	     2000000000ull
#define PATIENCE_NS  10000000000ull
#define AGAIN_NS     100000000ull
#define STEP_MOST_NS 1000000000ull

static int set(int fd, int command, short type, off_t byte, off_t bytes)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = bytes};
	int err;

	do
		err = fcntl(fd, command, &lock) ? errno : 0;
	while (err == EINTR);
	return err == EACCES ? -EAGAIN : -err;
}

static off_t member_byte(uint16_t member)
{
	return (off_t)WEFT_OFF_MEMBERS + member;
}

static int try_file(int fd)
{
	return set(fd, F_OFD_SETLK, F_WRLCK, 0, 1);
}

/* How often it has been entered; 0: the file has no header yet. */
static uint32_t turns(int fd)
{
	uint32_t turns = 0;

	return pread(fd, &turns, sizeof(turns),
		     WEFT_OFF_HOME + offsetof(struct weft_pool_home, turns)) == sizeof(turns)
		       ? turns
		       : 0;
}

struct wait {
	int fd;
	uint32_t turn;
	uint64_t last_ns, waited_ns, patience_ns;
	bool told;
};

/* The turn, + 1, of the owner that this process has given up last: it does not wait so long for that one again,
 * for each of its threads and each call. */
static _Atomic uint64_t given_up;

static void begin(struct wait *w)
{
	w->turn = turns(w->fd);
	w->last_ns = weft_clock_now_ns();
	w->waited_ns = 0;
	w->patience_ns = atomic_load_explicit(&given_up, memory_order_relaxed) == w->turn + 1ull
				 ? AGAIN_NS
				 : PATIENCE_NS;
}

static void tell_of_owner(struct wait *w)
{
	char name[32], path[PATH_MAX] = "", text[256];

	snprintf(name, sizeof(name), "/proc/thread-self/fd/%d", w->fd);
	if (readlink(name, path, sizeof(path) - 1) < 0)
		strcpy(path, "the pool");
	weft_lock_owner_text(w->fd, text, sizeof(text));
	fprintf(stderr, "weft: waiting for %s: %s: " WEFT_BACKING_ADVICE "\n", path, text);
	w->told = true;
}

/* False: no other process has entered for as long as we wait for any owner. */
static bool bear(struct wait *w)
{
	uint64_t now_ns = weft_clock_now_ns(), since_ns = now_ns - w->last_ns;

	/* a waiter that was stopped itself has not waited: both may have been stopped and continued together */
	w->waited_ns += since_ns < STEP_MOST_NS ? since_ns : STEP_MOST_NS;
	w->last_ns = now_ns;
	if (w->waited_ns > (w->told ? PATIENCE_NS : TELL_NS) || w->waited_ns > w->patience_ns) {
		if (turns(w->fd) != w->turn) {
			begin(w);
		} else if (w->waited_ns > w->patience_ns) {
			atomic_store_explicit(&given_up, w->turn + 1ull, memory_order_relaxed);
			return false;
		} else {
			tell_of_owner(w);
		}
	}
	weft_pause(w->waited_ns);
	return true;
}

/* The kernel would wait without a bound, and a stopped process lets go of nothing. */
int weft_lock_file(int fd, bool wait)
{
	struct wait w = {.fd = fd};
	int err = try_file(fd);

	if (err != -EAGAIN || !wait)
		return err;
	begin(&w);
	while (err == -EAGAIN && bear(&w))
		err = try_file(fd);
	return err == -EAGAIN ? -ETIMEDOUT : err;
}

int weft_lock_file_shared(int fd)
{
	return set(fd, F_OFD_SETLK, F_RDLCK, 0, 1);
}

void weft_lock_release(int fd)
{
	set(fd, F_OFD_SETLK, F_UNLCK, 0, 0);
}

int weft_lock_enter(struct weft_backed *b)
{
	_Atomic uint32_t *turns = &((struct weft_pool_home *)(b->base + WEFT_OFF_HOME))->turns;
	int fd = weft_descriptor_another(b->home), err;

	if (fd < 0)
		return fd;
	err = weft_lock_file(fd, true);
	if (err) {
		close(fd);
		return err;
	}
	/* those that wait see that it goes on */
	atomic_store_explicit(turns, atomic_load_explicit(turns, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	WEFT_STEP(lock_entered);
	return fd;
}

int weft_lock_enter_too(struct weft_backed *b, int fd, bool wait)
{
	return weft_lock_file(fd, wait);
}

void weft_lock_leave(struct weft_backed *b, int fd)
{
	/* the number may be the program's by now */
	if (!weft_descriptor_is_ours(b->home, fd))
		return;
	/* a raw clone of this process may have inherited the descriptor */
	WEFT_STEP(lock_leaving);
	weft_lock_release(fd);
	close(fd);
}

int weft_lock_prove(struct weft_backed *b, uint16_t member)
{
	struct stat st;
	int err;

	if (fstat(b->life, &st) || !st.st_nlink)
		return -ESTALE;
	err = weft_wait_join();
	if (!err)
		err = set(b->life, F_OFD_SETLK, F_WRLCK, member_byte(member), 1);
	if (err)
		return err;
	/* from now on only the mapping holds it */
	close(b->life);
	b->life = -1;
	return 0;
}

int weft_lock_claim(struct weft_backed *b, uint16_t member)
{
	int fd = weft_descriptor_another(b->home), err;

	if (fd < 0)
		return fd;
	err = set(fd, F_OFD_SETLK, F_WRLCK, member_byte(member), 1);
	if (!err)
		return fd;
	weft_lock_leave(b, fd);
	return err;
}

static bool held(int fd, off_t byte, off_t bytes)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = bytes};

	return fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_UNLCK;
}

bool weft_lock_is_proven(int fd, uint16_t member)
{
	return held(fd, member_byte(member), 1);
}

bool weft_lock_lives(struct weft_backed *b, uint16_t member)
{
	int fd = weft_descriptor(b->home);

	return fd < 0 || weft_lock_is_proven(fd, member);
}

bool weft_lock_any_held(int fd)
{
	return held(fd, 0, 0);
}
