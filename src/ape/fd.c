/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A descriptor for epoll: a thread waits where ape_wait() does, and makes it readable. */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ape/private.h"

static void *listen_for_program(void *argument)
{
	struct ape *a = argument;
	uint64_t seen = 0, news = 1;
	int err;

	do {
		err = ape_wait(a, &seen, -1);
		/* one that was not read since is readable still */
		if (err && write(a->fd, &news, sizeof(news)) < 0)
			continue;
	} while (err > 0);
	return NULL;
}

/* The mutex is held. */
static int begin_listening(struct ape *a)
{
	sigset_t all, before;
	int err;

	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (a->fd < 0) {
		a->fd = 0;
		return -errno;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	err = pthread_create(&a->listener, NULL, listen_for_program, a);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (err) {
		close(a->fd);
		a->fd = 0;
	}
	return -err;
}

int ape_fd(struct ape *a)
{
	int err = 0, fd;

	pthread_mutex_lock(&a->mutex);
	if (!a->fd)
		err = begin_listening(a);
	fd = a->fd;
	pthread_mutex_unlock(&a->mutex);
	return err ? err : fd;
}

void weft_ape_stop_listening(struct ape *a)
{
	if (!a->fd)
		return;
	/* before the knock: the listener looks behind it */
	atomic_store(&a->ends, true);
	weft_door_knock(weft_ape_door(a));
	pthread_join(a->listener, NULL);
	close(a->fd);
}
