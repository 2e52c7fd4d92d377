/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The devices that connections can use, open: as long as the library is loaded, since programs keep
 * the contexts after freeing the list.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "cm/cm.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct ibv_context *opened;

/* The one device's context, or NULL and errno. */
static struct ibv_context *open_once(void)
{
	struct ibv_context *context;
	struct ibv_device **list;

	pthread_mutex_lock(&mutex);
	list = opened ? NULL : ibv_get_device_list(NULL);
	if (list) {
		opened = ibv_open_device(list[0]);
		ibv_free_device_list(list);
	}
	context = opened;
	pthread_mutex_unlock(&mutex);
	return context;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	struct ibv_context **list = calloc(2, sizeof(struct ibv_context *));

	if (list)
		list[0] = open_once();
	if (list && !list[0]) {
		free(list);
		list = NULL;
	}
	if (num_devices)
		*num_devices = list ? 1 : 0;
	return list;
}

void rdma_free_devices(struct ibv_context **list)
{
	free(list);
}
