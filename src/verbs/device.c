/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The device list: one device, there as long as the process is, so that a program may use it after
 * freeing the list.
 */
#include <errno.h>
#include <stdlib.h>

#include "verbs/attr.h"
#include "verbs/verbs.h"

#define SYSFS "/sys"

/* Vendor libraries compare this with the address of theirs, and may read the name in it. */
static const struct {
	const char *name;
	void *none[15];
} provider = {.name = "weft"};

static struct {
	struct ibv_device dev;
	const void *ops;
} weft0 = {
	.dev =
		{
			.node_type = IBV_NODE_CA,
			.transport_type = IBV_TRANSPORT_IB,
			.name = WEFT_DEVICE,
			.dev_name = WEFT_UVERBS,
			.dev_path = SYSFS "/class/infiniband_verbs/" WEFT_UVERBS,
			.ibdev_path = SYSFS "/class/infiniband/" WEFT_DEVICE,
		},
	.ops = &provider,
};

_Static_assert(sizeof(struct ibv_device) == 664, "where vendor libraries look for operations");

struct ibv_device *weft_device(void)
{
	return &weft0.dev;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	struct ibv_device **list = calloc(2, sizeof(struct ibv_device *));

	if (num_devices)
		*num_devices = list ? 1 : 0;
	if (!list)
		return NULL;
	list[0] = &weft0.dev;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device ? device->name : NULL;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device ? weft_attr_guid() : 0;
}

int ibv_get_device_index(struct ibv_device *device)
{
	return device ? 0 : -1;
}
