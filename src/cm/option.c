/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Options of identifiers. */
#include <errno.h>
#include <string.h>

#include "cm/cm.h"

#define MOST_ACK_TIMEOUT 31

static int set_byte(struct weft_cm_id *id, int name, const void *value, size_t bytes)
{
	uint8_t byte;

	if (bytes != sizeof(byte))
		return -EINVAL;
	memcpy(&byte, value, sizeof(byte));
	if (name == RDMA_OPTION_ID_TOS) {
		id->tos = byte;
		return 0;
	}
	if (byte > MOST_ACK_TIMEOUT || weft_id_is_ud(id))
		return -EINVAL;
	id->ack_timeout = byte;
	id->has_ack_timeout = true;
	return 0;
}

static int set_flag(struct weft_cm_id *id, int name, const void *value, size_t bytes)
{
	int flag;

	if (bytes != sizeof(flag))
		return -EINVAL;
	memcpy(&flag, value, sizeof(flag));
	if (name == RDMA_OPTION_ID_REUSEADDR) {
		if (id->state != WEFT_ID_IDLE && id->reuse_addr != !!flag)
			return -EINVAL;
		id->reuse_addr = flag;
		return 0;
	}
	if (id->state != WEFT_ID_IDLE)
		return -EINVAL;
	id->one_family = flag;
	return 0;
}

static int set_id_option(struct weft_cm_id *id, int name, const void *value, size_t bytes)
{
	switch (name) {
	case RDMA_OPTION_ID_TOS:
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return set_byte(id, name, value, bytes);
	case RDMA_OPTION_ID_REUSEADDR:
	case RDMA_OPTION_ID_AFONLY:
		return set_flag(id, name, value, bytes);
	default:
		return -ENOSYS;
	}
}

int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t bytes)
{
	int err = -ENOSYS; /* RDMA_OPTION_IB_PATH: an Ethernet port has no path records to choose */

	if (!id || !value)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	if (level == RDMA_OPTION_ID)
		err = set_id_option(weft_cm_id(id), name, value, bytes);
	weft_cm_unlock();
	return weft_cm_result(err);
}

int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	/* as with a queue pair of its own, the identifier negotiates by itself */
	if (!id || id->qp || !ece || !ece->vendor_id || ece->comp_mask)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	weft_cm_id(id)->local_ece = *ece;
	weft_cm_unlock();
	return 0;
}

int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
	if (!id || id->qp || !ece)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	*ece = weft_cm_id(id)->remote_ece;
	weft_cm_unlock();
	return 0;
}
