/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Completion channels: one event for each arming, and whose it is. The program's descriptor is the end of a pipe
 * that can be read as long as there are events: on the list, or claimed in the alarm of a queue (nic/arm.c), from
 * where they come to the list when the channel is read. Other processes write into the pipe (pool/wake.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "nic/cq.h"
#include "nic/nic.h"
#include "pool/doorbell.h"
#include "pool/step.h"
#include "pool/format_ring.h"
#include "verbs/async.h"
#include "verbs/channel.h"
#include "verbs/cq.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "process/process.h"
#include "verbs/verbs.h"

#define PIPE_BYTES 4096 /* it hardly ever holds more than one word */

/* ---- The pipe ---- */

/* A descriptor of our own for both ends, which never waits. -1: without /proc there is none. */
static int open_both(int end)
{
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", end);
	fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	return fd < 0 ? -1 : weft_wake_out_of_way(fd);
}

static bool bell_is_ours(const struct weft_pool_bell *bell, int fd)
{
	struct stat st;

	return fd >= 0 && !fstat(fd, &st) && st.st_ino == bell->ino && st.st_dev == bell->dev;
}

/* Where there is no /proc, an eventfd, which only our own helper writes to. 0 or -errno. */
static int open_pipe(struct weft_channel *ch)
{
	struct stat st;
	int end[2];

	if (pipe2(end, O_CLOEXEC))
		return -errno;
	ch->both = open_both(end[0]);
	close(end[1]);
	if (ch->both >= 0 && !fstat(end[0], &st)) {
		fcntl(end[0], F_SETPIPE_SZ, PIPE_BYTES);
		ch->bell->dev = st.st_dev;
		ch->bell->ino = st.st_ino;
	} else {
		close(end[0]);
		end[0] = eventfd(0, EFD_CLOEXEC);
	}
	ch->channel.fd = end[0];
	atomic_store_explicit(&ch->bell->fd, ch->both, memory_order_relaxed);
	return end[0] < 0 ? -errno : 0;
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* A program may have closed our descriptor, which it does not know, and not its own. */
static bool repair(struct weft_channel *ch)
{
	if (ch->both < 0 || !bell_is_ours(ch->bell, ch->channel.fd))
		return false;
	if (!bell_is_ours(ch->bell, ch->both))
		ch->both = open_both(ch->channel.fd);
	atomic_store_explicit(&ch->bell->fd, ch->both, memory_order_relaxed);
	return ch->both >= 0;
}

/* The mutex is held, here and below. */
static void write_word(struct weft_channel *ch)
{
	static const uint64_t one = 1;
	int fd = ch->bell->ino ? ch->both : ch->channel.fd;

	/* a pipe that is full can be read */
	if (!ch->bell->ino || repair(ch))
		(void)!write(fd, &one, sizeof(one));
}

static void tell_pipe(struct weft_channel *ch)
{
	if (ch->bell->ino &&
	    weft_pool_wake(weft_process.pool, weft_process.pool->me, ch->bell_off) && repair(ch))
		weft_pool_wake(weft_process.pool, weft_process.pool->me, ch->bell_off);
	else if (!ch->bell->ino && !atomic_exchange(&ch->bell->told, 1))
		write_word(ch);
}

/* ---- Making and ending ---- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct weft_channel *ch;
	int err;

	if (weft_explain_closed("ibv_create_comp_channel", context)) {
		errno = EINVAL;
		return NULL;
	}
	err = ENOMEM;
	ch = calloc(1, sizeof(*ch));
	if (!ch)
		goto fail;
	err = -weft_pool_alloc(weft_process.pool, sizeof(*ch->bell), &ch->bell_off);
	if (err)
		goto free_object;
	ch->bell = (void *)(weft_process.pool->base + ch->bell_off);
	ch->made = weft_pool_age(weft_process.pool);
	ch->channel.context = context;
	err = -open_pipe(ch);
	if (err)
		goto free_bell;
	err = -weft_handle_add(ch, WEFT_HANDLE_CHANNEL);
	if (err)
		goto close_fds;
	pthread_mutex_init(&ch->mutex, NULL);
	ch->last = &ch->first;
	return &ch->channel;
close_fds:
	close(ch->both);
	close(ch->channel.fd);
free_bell:
	weft_pool_free(weft_process.pool, ch->bell_off, sizeof(*ch->bell));
free_object:
	free(ch);
fail:
	errno = weft_explain_errno("ibv_create_comp_channel", err);
	return NULL;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct weft_channel *ch = weft_channel(channel);

	if (weft_handle_inherited(channel))
		return 0;
	if (weft_explain_stale("ibv_destroy_comp_channel", channel, WEFT_HANDLE_CHANNEL))
		return EINVAL;
	if (channel->refcnt)
		return weft_broken("ibv_destroy_comp_channel", IN_USE, (uint64_t)channel->refcnt,
				   weft_value("completion channel"));
	weft_handle_remove(channel);
	if (bell_is_ours(ch->bell, ch->both))
		close(ch->both);
	ch->bell->ino = 0; /* producers that have it open see that */
	close(channel->fd);
	/* an executor that has stood still since then may still touch it */
	if (weft_pool_age(weft_process.pool) == ch->made)
		weft_pool_free(weft_process.pool, ch->bell_off, sizeof(*ch->bell));
	else
		weft_pool_retire(weft_process.pool, WEFT_RETIRE_PIECE, ch->bell_off,
				 sizeof(*ch->bell));
	free(ch);
	return 0;
}

void weft_channel_join(struct weft_verbs_cq *cq)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);

	if (!ch)
		return;
	cq->nic.bell_off = ch->bell_off;
	pthread_mutex_lock(&ch->mutex);
	ch->channel.refcnt++;
	cq->next_on_channel = ch->queues;
	ch->queues = cq;
	pthread_mutex_unlock(&ch->mutex);
}

void weft_channel_part(struct weft_verbs_cq *cq)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);
	struct weft_verbs_cq **at;

	if (!ch)
		return;
	pthread_mutex_lock(&ch->mutex);
	for (at = &ch->queues; *at != cq; at = &(*at)->next_on_channel)
		;
	*at = cq->next_on_channel;
	pthread_mutex_unlock(&ch->mutex);
}

/* ---- Events; the mutex is held ---- */

static void list_event(struct weft_channel *ch, struct weft_verbs_cq *cq)
{
	if (cq->events_waiting++)
		return;
	cq->next = NULL;
	*ch->last = cq;
	ch->last = &cq->next;
}

/* All that were claimed. A producer that claims after this tells the channel anew. */
static void gather_claimed(struct weft_channel *ch)
{
	/* pairs with the exchange in write_bell (pool/wake.c): what was claimed by those that found it told is seen */
	atomic_exchange_explicit(&ch->bell->told, 0, memory_order_seq_cst);
	WEFT_STEP(event_gathering);
	for (struct weft_verbs_cq *cq = ch->queues; cq; cq = cq->next_on_channel)
		if (weft_cq_take_event(&cq->nic))
			list_event(ch, cq);
}

void weft_channel_notify(struct weft_verbs_cq *cq)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);

	if (!ch)
		return;
	pthread_mutex_lock(&ch->mutex);
	WEFT_STEP(event_notifying);
	list_event(ch, cq);
	tell_pipe(ch);
	WEFT_STEP(event_notified);
	pthread_mutex_unlock(&ch->mutex);
}

/* In place of a producer that has claimed an event of this queue, and that may write yet if it lives. */
static void write_for(struct weft_channel *ch, struct weft_verbs_cq *cq, bool lives)
{
	ch->late += lives;
	cq->was_late |= lives;
	atomic_store(&ch->bell->told, 1);
	write_word(ch);
}

void weft_channel_overdue(struct weft_verbs_cq *cq, bool lives)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);

	if (!ch)
		return;
	pthread_mutex_lock(&ch->mutex);
	list_event(ch, cq);
	if (!is_readable(ch->channel.fd))
		write_for(ch, cq, lives);
	pthread_mutex_unlock(&ch->mutex);
}

/* Whether it can be read, by one look for all its queues each time that the helper looks at them. */
static bool is_heard(struct weft_channel *ch, uint32_t look)
{
	if (ch->looked != look)
		ch->heard = is_readable(ch->channel.fd);
	ch->looked = look;
	return ch->heard;
}

bool weft_channel_unheard(struct weft_verbs_cq *cq)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);
	bool silent;

	if (!ch)
		return false;
	pthread_mutex_lock(&ch->mutex);
	silent = cq->events_waiting && !is_heard(ch, cq->nic.nic->looks);
	if (silent && cq->unheard) {
		write_for(ch, cq, true);
		ch->heard = true;
		silent = false;
	}
	cq->unheard = silent;
	pthread_mutex_unlock(&ch->mutex);
	return silent;
}

/* ---- Reading ---- */

/* The queue whose producer has written a word too many; NULL: it was destroyed. */
static struct weft_verbs_cq *late_queue(struct weft_channel *ch)
{
	struct weft_verbs_cq *cq = ch->queues;

	while (cq && !cq->was_late)
		cq = cq->next_on_channel;
	if (cq)
		cq->events_read++;
	return cq;
}

/* The next queue with an event; queues with several take turns. Without an event there is a word in the pipe only if
 * a producer that had claimed one was stopped before it wrote it, and was not waited for (write_for). A reader that has
 * not slept for that word may have polled for it, and must not sleep now: it gets an event of that queue, which is
 * empty, as after completions that were polled before their event was read. */
static struct weft_verbs_cq *take_ready(struct weft_channel *ch, bool has_slept)
{
	struct weft_verbs_cq *cq;

	pthread_mutex_lock(&ch->mutex);
	gather_claimed(ch);
	cq = ch->first;
	if (!cq && ch->late) {
		ch->late--; /* this word was one */
		cq = has_slept ? NULL : late_queue(ch);
	} else if (cq) {
		ch->first = cq->next;
		if (!ch->first)
			ch->last = &ch->first;
		cq->events_read++;
		if (--cq->events_waiting) {
			cq->next = NULL;
			*ch->last = cq;
			ch->last = &cq->next;
		}
	}
	if (ch->first)
		tell_pipe(ch);
	pthread_mutex_unlock(&ch->mutex);
	return cq;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct weft_channel *ch = weft_channel(channel);
	struct weft_verbs_cq *found;
	uint64_t words[8];
	bool was_there;

	if (weft_explain_stale("ibv_get_cq_event", channel, WEFT_HANDLE_CHANNEL)) {
		errno = EINVAL;
		return -1;
	}
	do {
		was_there = atomic_load_explicit(&ch->late, memory_order_relaxed) &&
			    is_readable(channel->fd);
		if (read(channel->fd, words, sizeof(words)) < 0)
			return -1;
		WEFT_STEP(event_read);
		found = take_ready(ch, !was_there);
		if (!found && was_there) {
			errno = EAGAIN;
			return -1;
		}
	} while (!found);
	weft_idle_slept();
	*cq = &found->cq;
	*cq_context = found->cq.cq_context;
	return 0;
}

/* How many events of a queue were acknowledged, and whether its destroyer waits for more. */
#define AWAITED (1u << 31)

static _Atomic uint32_t *events_acknowledged(struct ibv_cq *cq)
{
	return (_Atomic uint32_t *)&cq->comp_events_completed;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	_Atomic uint32_t *completed = events_acknowledged(cq);
	uint32_t before = atomic_load_explicit(completed, memory_order_relaxed);

	/* release: pairs with the acquire in weft_channel_leave, which does not free what is still used */
	while (!(before & AWAITED))
		if (atomic_compare_exchange_weak_explicit(
			    completed, &before, (before + nevents) & ~AWAITED, memory_order_release,
			    memory_order_relaxed))
			return;
	pthread_mutex_lock(&cq->mutex);
	before = atomic_load_explicit(completed, memory_order_relaxed);
	atomic_store_explicit(completed, (before + nevents) | AWAITED, memory_order_relaxed);
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* So that the channel can be read only if there are others. */
static void drop_unread(struct weft_channel *ch, struct weft_verbs_cq *cq)
{
	struct weft_verbs_cq **at = &ch->first;
	uint64_t words[8];

	pthread_mutex_lock(&ch->mutex);
	while (*at && *at != cq)
		at = &(*at)->next;
	if (*at) {
		*at = cq->next;
		if (!cq->next)
			ch->last = at;
	}
	cq->events_waiting = 0;
	if (!ch->bell->ino)
		weft_uncount(ch->channel.fd);
	else if (repair(ch))
		(void)!read(ch->both, words, sizeof(words));
	gather_claimed(ch);
	if (ch->first)
		tell_pipe(ch);
	pthread_mutex_unlock(&ch->mutex);
}

void weft_channel_leave(struct weft_verbs_cq *cq)
{
	struct weft_channel *ch = weft_channel(cq->cq.channel);

	if (!ch)
		return;
	drop_unread(ch, cq);
	pthread_mutex_lock(&cq->cq.mutex);
	/* from here on they are counted under the mutex, and tell us */
	atomic_fetch_or_explicit(events_acknowledged(&cq->cq), AWAITED, memory_order_relaxed);
	while ((atomic_load_explicit(events_acknowledged(&cq->cq), memory_order_acquire) ^
		cq->events_read) &
	       ~AWAITED)
		pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
	pthread_mutex_unlock(&cq->cq.mutex);
	pthread_mutex_lock(&ch->mutex);
	ch->channel.refcnt--;
	pthread_mutex_unlock(&ch->mutex);
}
