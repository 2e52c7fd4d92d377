/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What weft0 says about itself: for the verbs that query, and for the answers that programs read
 * from sysfs. Context: any thread, no locks, no state.
 */
#ifndef WEFT_VERBS_ATTR_H
#define WEFT_VERBS_ATTR_H

#include <stdint.h>

struct ibv_device_attr;
struct ibv_port_attr;

#define WEFT_DEVICE    "weft0"
#define WEFT_UVERBS    "uverbs0"
#define WEFT_NODE_DESC "Weft, an RDMA network in software"
#define WEFT_PORT      1
#define WEFT_VENDOR                                                                                \
	0xffffff /* as rdma_rxe has it: for a vendor's number programs take that vendor's private paths */
#define WEFT_MAX_DM	   (16ull << 20) /* bytes of device memory in one piece */
#define WEFT_MAX_RD_ATOMIC 16		 /* outstanding of a queue pair, either way */
#define WEFT_PKEYS	   1
#define WEFT_PKEY	   0xffff /* the default partition, full member */

/* In network order: of the first interface's hardware address, as the kernel makes it for rdma_rxe.
 */
uint64_t weft_attr_guid(void);

void weft_attr_device(struct ibv_device_attr *attr);
void weft_attr_port(struct ibv_port_attr *attr);

#endif
