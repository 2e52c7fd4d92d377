/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "nic/limits.h"
#include "verbs/attr.h"

#include <infiniband/verbs.h>
#include <string.h>

#include "pool/sizes.h"
#include "process/gid.h"
#include "process/interface.h"

/* Bits of ibv_port_attr that the header leaves without a name. */
#define WIDTH_4X	   2
#define SPEED_EDR	   32 /* 25 Gb/s a lane */
#define PHYS_STATE_LINK_UP 5

uint64_t weft_attr_guid(void)
{
	struct weft_gid_entry first;
	uint64_t guid;

	weft_gid_table(&first, 1);
	memcpy(&guid, first.gid + 8, sizeof(guid));
	return guid;
}

void weft_attr_device(struct ibv_device_attr *attr)
{
	*attr = (struct ibv_device_attr){
		.fw_ver = WEFT_VERSION,
		.node_guid = weft_attr_guid(),
		.sys_image_guid = weft_attr_guid(),
		.max_mr_size = UINT64_MAX,
		.page_size_cap = ~(WEFT_PAGE - 1),
		.vendor_id = WEFT_VENDOR,
		.max_qp = WEFT_QPS,
		.max_qp_wr = WEFT_MAX_WR,
		.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT |
				    IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_RC_RNR_NAK_GEN |
				    IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC | IBV_DEVICE_MEM_WINDOW |
				    IBV_DEVICE_MEM_WINDOW_TYPE_2B,
		.max_sge = WEFT_MAX_SGE,
		.max_sge_rd = WEFT_MAX_SGE,
		.max_cq = 65536,
		.max_cqe = WEFT_MAX_CQE,
		.max_mr = WEFT_MRS,
		.max_mw = WEFT_MRS,
		.max_pd = 65536,
		.max_qp_rd_atom = WEFT_MAX_RD_ATOMIC,
		.max_res_rd_atom = WEFT_MAX_RD_ATOMIC * WEFT_QPS,
		.max_qp_init_rd_atom = WEFT_MAX_RD_ATOMIC,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_srq = 65536,
		.max_srq_wr = WEFT_MAX_WR,
		.max_srq_sge = WEFT_MAX_SGE,
		.max_ah = 1 << 20,
		.max_mcast_grp = WEFT_MEMBER_GROUPS,
		.max_mcast_qp_attach = WEFT_MEMBER_GROUPS,
		.max_total_mcast_qp_attach = WEFT_MEMBER_GROUPS,
		.max_pkeys = WEFT_PKEYS,
		.local_ca_ack_delay = WEFT_ACK_DELAY,
		.phys_port_cnt = WEFT_PORT,
	};
}

void weft_attr_port(struct ibv_port_attr *attr)
{
	*attr = (struct ibv_port_attr){
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = (enum ibv_mtu)weft_interface_first_mtu(),
		.gid_tbl_len = WEFT_GID_TABLE_LEN,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = WEFT_MAX_MSG_BYTES,
		.pkey_tbl_len = WEFT_PKEYS,
		.max_vl_num = 1,
		.active_width = WIDTH_4X,
		.active_speed = SPEED_EDR,
		.phys_state = PHYS_STATE_LINK_UP,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
	};
}
