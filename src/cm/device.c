/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The device that connections use, open as long as the library is loaded, since programs keep the
 * contexts after freeing the list; and this library's part in the helper.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "cm/agent.h"

struct weft_cm weft_cm = {.mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP};

uint64_t weft_cm_now_ns(void)
{
	return weft_cm.service->now_ns();
}

uint32_t weft_cm_random(void)
{
	uint32_t value = 0;

	if (getrandom(&value, sizeof(value), GRND_NONBLOCK) != sizeof(value))
		value = (uint32_t)getpid();
	return value;
}

/* What a fork's child has inherited is its parent's; it opens the device anew. */
static void forget_device_in_child(void)
{
	weft_cm = (struct weft_cm){.mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
				   .forks = weft_cm.forks + 1};
	weft_agent_forget();
}

static int open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list)
		return -ENOMEM;
	weft_cm.verbs = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	return weft_cm.verbs ? 0 : -errno;
}

static int join_process(void)
{
	static const struct weft_helper_client client = {.run = weft_agent_run};
	static bool forks;
	int err = weft_cm.verbs ? 0 : open_device();

	if (err)
		return err;
	weft_cm.service = weft_service_of(weft_cm.verbs);
	if (!weft_cm.service)
		return -ENODEV; /* another libibverbs than ours */
	if (!weft_cm.pd)
		weft_cm.pd = ibv_alloc_pd(weft_cm.verbs);
	if (!weft_cm.pd)
		return -errno;
	if (!forks)
		pthread_atfork(NULL, NULL, forget_device_in_child);
	forks = true;
	weft_cm.ca_guid = be64toh(ibv_get_device_guid(weft_cm.verbs->device));
	err = weft_cm.service->start(&client, &weft_cm.pool);
	return err == -EAGAIN
		       ? weft_cm_broken(err, "no thread can be started: RLIMIT_NPROC, or pids.max "
					     "of a cgroup, allows no more")
		       : err;
}

int weft_cm_start(void)
{
	static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
	static _Atomic pid_t started; /* by which process */
	pid_t self = getpid();
	int err = 0;

	if (started == self)
		return 0;
	/* a mutex of its own, as the helper takes weft_cm.mutex */
	pthread_mutex_lock(&starting);
	if (started != self)
		err = join_process();
	if (!err)
		started = self;
	pthread_mutex_unlock(&starting);
	return err;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = calloc(2, sizeof(struct ibv_context *));
	int err = list ? weft_cm_start() : -ENOMEM;

	if (num_devices)
		*num_devices = err ? 0 : 1;
	if (err) {
		free(list);
		weft_cm_result(err);
		return NULL;
	}
	list[0] = weft_cm.verbs;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
