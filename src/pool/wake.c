/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Waking another process: by writing into the pipe that its program waits for. Its descriptor is fetched once by
 * pidfd_getfd and kept, as long as there is room; a program may close any descriptor and use its number anew, so
 * that each is looked at before it is written to, unless it was within the last millisecond, and has had nothing of
 * ours opened since. They are of a pipe's inode, which nothing else has: eventfds share theirs with all others. They
 * read, too, so that no SIGPIPE comes of a program that has closed its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/internal.h"
#include "pool/step.h"
#include "pool/format_member.h"
#include "pool/format_ring.h"
#include "pool/sizes.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define SETS	    256u
#define WAYS	    4u
#define DOORS_MOST  (SETS * WAYS)
#define LOOK_NS	    1000000u /* a look is good for so long; it costs as much as the write */
#define NUMBER_MOST 8192u    /* the kernel's table is as long as the highest number */

/* The bell of a channel, or of a card, and our descriptor of its pipe. */
struct door {
	uint64_t bell_off; /* 0: none */
	uint64_t incarnation, ino;
	uint32_t used; /* by the set's clock */
	uint16_t member;
	int there;	    /* its number at its owner */
	int fd;		    /* negative: it is refused to us */
	uint64_t looked_ns; /* when it was that pipe; 0: never */
};

static struct {
	pthread_mutex_t mutex;
	uint32_t clock;
	struct door door[WAYS];
} sets[SETS] = {[0 ... SETS - 1] = {.mutex = PTHREAD_MUTEX_INITIALIZER}};

static _Atomic uint32_t nopen;
/* When a descriptor of ours last got a high number, which may be that of one that the program had closed. */
static _Atomic uint64_t raised_ns;

static bool is_pipe(int fd, const struct weft_pool_bell *bell)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_ino == bell->ino && st.st_dev == bell->dev &&
	       S_ISFIFO(st.st_mode);
}

/* ---- Descriptors ---- */

/* A quarter of what we may have at the same time, where a program's own numbers hardly reach. */
static uint32_t most(uint32_t *from)
{
	struct rlimit limit;
	uint32_t all = NUMBER_MOST;

	if (!getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < all)
		all = (uint32_t)limit.rlim_cur;
	*from = all - all / 4;
	return all / 4 < DOORS_MOST ? all / 4 : DOORS_MOST;
}

int weft_wake_out_of_way(int fd)
{
	uint32_t from;
	int above;

	most(&from);
	above = fcntl(fd, F_DUPFD_CLOEXEC, from);
	atomic_store_explicit(&raised_ns, weft_clock_now_ns(), memory_order_relaxed);
	if (above < 0)
		return fd;
	close(fd);
	return above;
}

static int fetch_pipe(struct weft_pool *pool, const struct weft_pool_member *m,
		      const struct door *door, const struct weft_pool_bell *bell)
{
	int pidfd, fd;

	if (door->there < 0 || !weft_is_near(pool, door->member) || m->pid_ns != pool->self->pid_ns)
		return -EPERM;
	pidfd = (int)syscall(SYS_pidfd_open, m->pid, 0);
	if (pidfd < 0)
		return -errno;
	/* its number may be another program's; that of the pipe tells, too */
	fd = weft_pool_alive(pool, door->member, door->incarnation)
		     ? (int)syscall(SYS_pidfd_getfd, pidfd, door->there, 0)
		     : -1;
	if (fd < 0)
		fd = -errno;
	close(pidfd);
	if (fd < 0 || is_pipe(fd, bell))
		return fd;
	close(fd);
	return -EBADF;
}

static void shut(struct door *door, const struct weft_pool_bell *bell)
{
	struct stat st;

	/* the number may be the program's by now */
	if (door->bell_off && door->fd >= 0) {
		if (bell ? is_pipe(door->fd, bell)
			 : !fstat(door->fd, &st) && S_ISFIFO(st.st_mode) && st.st_ino == door->ino)
			close(door->fd);
		atomic_fetch_sub_explicit(&nopen, 1, memory_order_relaxed);
	}
	door->bell_off = 0;
}

static void open_door(struct weft_pool *pool, struct door *door, uint16_t member,
		      const struct weft_pool_bell *bell, uint64_t bell_off)
{
	const struct weft_pool_member *m = weft_pool_member(pool, member);
	uint32_t from;

	shut(door, NULL);
	if (!m)
		return;
	door->incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	door->member = member;
	door->ino = bell->ino;
	door->there = atomic_load_explicit(&bell->fd, memory_order_relaxed);
	door->fd = -EMFILE;
	door->looked_ns = 0;
	door->bell_off = bell_off;
	if (atomic_fetch_add_explicit(&nopen, 1, memory_order_relaxed) < most(&from))
		door->fd = fetch_pipe(pool, m, door, bell);
	if (door->fd < 0)
		atomic_fetch_sub_explicit(&nopen, 1, memory_order_relaxed);
	else
		door->fd = weft_wake_out_of_way(door->fd);
}

/* The door of that bell, which may be shut; in place of the one used least. */
static struct door *find_door(struct weft_pool *pool, uint32_t set, uint16_t member,
			      const struct weft_pool_bell *bell, uint64_t bell_off)
{
	struct door *oldest = &sets[set].door[0];
	int there = atomic_load_explicit(&bell->fd, memory_order_relaxed);

	sets[set].clock++;
	for (struct door *d = sets[set].door; d < sets[set].door + WAYS; d++) {
		if (d->bell_off == bell_off && d->ino == bell->ino && d->there == there &&
		    d->member == member) {
			d->used = sets[set].clock;
			return d;
		}
		if (oldest->bell_off &&
		    (!d->bell_off || sets[set].clock - d->used > sets[set].clock - oldest->used))
			oldest = d;
	}
	open_door(pool, oldest, member, bell, bell_off);
	oldest->used = sets[set].clock;
	return oldest;
}

/* ---- Waking ---- */

static bool is_still_pipe(struct door *door, const struct weft_pool_bell *bell)
{
	uint64_t now_ns = weft_clock_now_ns();

	if (now_ns - door->looked_ns < LOOK_NS &&
	    door->looked_ns > atomic_load_explicit(&raised_ns, memory_order_relaxed))
		return true;
	door->looked_ns = now_ns;
	return is_pipe(door->fd, bell);
}

/* door: of another member's bell; NULL: `fd` is our own. */
static int write_bell(struct weft_pool_bell *bell, struct door *door, int fd)
{
	static const uint64_t one = 1;

	/* what we have claimed before is seen by the owner that ends this (take in verbs/channel.c) */
	if (atomic_exchange_explicit(&bell->told, 1, memory_order_seq_cst))
		return 0;
	WEFT_STEP(wake_told);
	/* A pipe that is full can be read. write() would be a point of cancellation, and locks are held */
	if ((door ? is_still_pipe(door, bell) : is_pipe(fd, bell)) &&
	    (syscall(SYS_write, fd, &one, sizeof(one)) == sizeof(one) || errno == EAGAIN)) {
		WEFT_STEP(wake_written);
		return 0;
	}
	atomic_store_explicit(&bell->told, 0, memory_order_seq_cst);
	return -EBADF;
}

static int wake_by(struct weft_pool *pool, uint16_t member, struct weft_pool_bell *bell,
		   uint64_t bell_off)
{
	/* bells of several members lie at like places in their segments */
	uint32_t set = (uint32_t)(bell_off / WEFT_LINE * 0x9e3779b97f4a7c15ull >> 56) % SETS;
	int err = -EINVAL;

	if (member == pool->me)
		return write_bell(bell, NULL,
				  atomic_load_explicit(&bell->fd, memory_order_relaxed));
	pthread_mutex_lock(&sets[set].mutex);
	for (int i = 0; i < 2; i++) {
		struct door *door = find_door(pool, set, member, bell, bell_off);

		err = door->fd < 0 ? -EPERM : write_bell(bell, door, door->fd);
		if (err != -EBADF)
			break;
		/* the program has closed it: once more */
		shut(door, bell);
	}
	pthread_mutex_unlock(&sets[set].mutex);
	return err;
}

int weft_pool_wake(struct weft_pool *pool, uint16_t member, uint64_t bell_off)
{
	struct weft_pool_bell *bell =
		bell_off % WEFT_LINE ? NULL : weft_pool_window(pool, bell_off, sizeof(*bell));

	return bell ? wake_by(pool, member, bell, bell_off) : -EINVAL;
}

/* That of a card lies in its member's page, before all segments. */
static uint64_t off_of(const struct weft_pool *pool, const struct weft_pool_bell *bell)
{
	return (uint64_t)((const uint8_t *)bell - pool->base);
}

/* Whether the card sleeps on the word. */
static bool wake_by_word(struct weft_pool *pool, uint16_t member, struct weft_pool_bell *bell)
{
	const struct weft_attachment *a = weft_attachment(pool);

	if (atomic_load_explicit(&bell->fd, memory_order_relaxed) != WEFT_BELL_WORD ||
	    !weft_is_near(pool, member))
		return false;
	/* pairs with the fence in weft_torus_verbs_listen (card/torus/verbs.c): it sees what was rung, or is woken */
	if (!atomic_exchange_explicit(&bell->told, 1, memory_order_seq_cst))
		a->on->wake(a->backed, &bell->told);
	return true;
}

void weft_pool_wake_card(struct weft_pool *pool, uint16_t member)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);

	if (m && wake_by_word(pool, member, &m->card.bell))
		return;
	if (!m || !m->card.bell.ino ||
	    wake_by(pool, member, &m->card.bell, off_of(pool, &m->card.bell)))
		weft_pool_signal(pool, member, WEFT_SIGNAL_WORK);
}

/* ---- Ending ---- */

static bool is_over(struct weft_pool *pool, const struct door *door)
{
	const struct weft_pool_member *m = weft_pool_member(pool, door->member);
	const struct weft_pool_bell *bell;
	bool over = true;

	weft_pool_visit(pool, door->member);
	if (m && atomic_load_explicit(&m->incarnation, memory_order_acquire) == door->incarnation &&
	    !atomic_load_explicit(&m->leaves, memory_order_relaxed)) {
		bell = door->bell_off == off_of(pool, &m->card.bell)
			       ? &m->card.bell
			       : weft_pool_window(pool, door->bell_off, sizeof(*bell));
		over = !bell || bell->ino != door->ino;
	}
	weft_pool_depart(pool);
	return over;
}

void weft_wake_sweep(struct weft_pool *pool)
{
	if (!atomic_load_explicit(&nopen, memory_order_relaxed))
		return;
	for (uint32_t i = 0; i < SETS; i++) {
		pthread_mutex_lock(&sets[i].mutex);
		for (struct door *d = sets[i].door; d < sets[i].door + WAYS; d++)
			if (d->bell_off && is_over(pool, d))
				shut(d, NULL);
		pthread_mutex_unlock(&sets[i].mutex);
	}
}

void weft_wake_end(void)
{
	for (uint32_t i = 0; i < SETS; i++)
		for (struct door *d = sets[i].door; d < sets[i].door + WAYS; d++)
			if (d->bell_off)
				shut(d, NULL);
}

/* Async-signal-safe. */
void weft_wake_forget(void)
{
	for (uint32_t i = 0; i < SETS; i++)
		pthread_mutex_init(&sets[i].mutex, NULL);
	weft_wake_end();
}
