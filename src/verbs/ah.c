/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Address handles, also made from what a received datagram says of its sender. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "nic/qp.h"
#include "verbs/ah.h"
#include "verbs/attr.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/pd.h"
#include "process/card.h"
#include "process/gids.h"
#include "process/interface.h"
#include "process/process.h"
#include "verbs/verbs.h"
#include "pool/address.h"
#include "pool/format_member.h"
#include "pool/sizes.h"

#define IPPROTO_IB_BTH 0x1b

/* Each address has two entries, of RoCE v1 and v2 (gid.h). */
static bool is_v2(uint32_t sgid_index)
{
	return sgid_index % 2;
}

/* On Ethernet an address is a GID (A17.4.1). */
static int check_ah(struct ibv_pd *pd, const struct ibv_ah_attr *attr, uint8_t source[16])
{
	if (weft_explain_no_domain("ibv_create_ah", pd))
		return EINVAL;
	if (!attr)
		return weft_broken("ibv_create_ah", MISSING, weft_value("attr"));
	if (attr->port_num == WEFT_PORT && attr->is_global &&
	    weft_gids_source(attr->grh.sgid_index, source))
		return 0;
	return weft_broken("ibv_create_ah", ADDRESS, attr->is_global, attr->grh.sgid_index,
			   weft_process.pool->self->ngids, attr->port_num);
}

/* NULL: no memory. */
static struct weft_verbs_ah *make_ah(struct ibv_pd *pd, const struct ibv_ah_attr *attr,
				     const uint8_t source[16])
{
	struct weft_verbs_ah *ah = calloc(1, sizeof(*ah));

	if (!ah)
		return NULL;
	ah->ah.context = pd->context;
	ah->ah.pd = pd;
	ah->nic.pd = weft_pd(pd)->number;
	memcpy(ah->nic.sgid, source, 16);
	memcpy(ah->nic.dgid, attr->grh.dgid.raw, 16);
	ah->nic.flow_label = attr->grh.flow_label & 0xfffff;
	ah->nic.traffic_class = attr->grh.traffic_class;
	ah->nic.hop_limit = attr->grh.hop_limit;
	ah->nic.v2 = is_v2(attr->grh.sgid_index);
	if (!weft_ah_find(&weft_process_nic, &ah->nic) && !weft_handle_add(ah, WEFT_HANDLE_AH))
		return ah;
	weft_ah_destroy(&weft_process_nic, &ah->nic);
	free(ah);
	return NULL;
}

/* What goes to another host goes by a card. Groups are of this host, too, whatever there is no card for. */
static int find_card_of_handle(const struct ibv_ah_attr *attr, const uint8_t source[16])
{
	const uint8_t *to = attr->grh.dgid.raw;
	uint32_t instead;

	if (!weft_address_is_group(to) && weft_card_is_wanted(source, to) &&
	    weft_interface_lacks(attr->grh.sgid_index, &instead))
		return weft_broken("ibv_create_ah", WIRE_SOURCE_ADDRESS, attr->grh.sgid_index,
				   instead);
	if (weft_card_summon(source, to) && !is_v2(attr->grh.sgid_index))
		return weft_broken("ibv_create_ah", WIRE_V1_ADDRESS, attr->grh.sgid_index,
				   attr->grh.sgid_index + 1u);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	uint8_t source[16];
	struct weft_verbs_ah *ah;
	int err = check_ah(pd, attr, source);

	if (!err)
		err = find_card_of_handle(attr, source);
	if (!err)
		err = weft_verbs_pd_use("ibv_create_ah", pd);
	if (err) {
		errno = err;
		return NULL;
	}
	ah = make_ah(pd, attr, source);
	if (ah)
		return &ah->ah;
	weft_verbs_pd_leave(pd);
	errno = weft_explain_errno("ibv_create_ah", ENOMEM);
	return NULL;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	if (weft_handle_inherited(ah))
		return 0;
	if (weft_explain_stale("ibv_destroy_ah", ah, WEFT_HANDLE_AH))
		return EINVAL;
	weft_handle_remove(ah);
	weft_verbs_pd_leave(ah->pd);
	weft_ah_destroy(&weft_process_nic, &weft_ah(ah)->nic);
	free(weft_ah(ah));
	return 0;
}

/* ---- From a received datagram ---- */

struct ipv4 {
	uint8_t version_length, tos;
	uint16_t length, id, fragment;
	uint8_t ttl, protocol;
	uint16_t checksum;
	uint8_t src[4], dst[4];
};

_Static_assert(sizeof(struct ipv4) == 20, "RFC 791");

/* What cannot be IPv6 needs a version only; else the checksum decides. */
static bool is_ipv4(const struct ibv_grh *grh, struct ipv4 *ip)
{
	const uint8_t *at = (const uint8_t *)grh + 20;
	uint32_t sum = 0;

	memcpy(ip, at, sizeof(*ip));
	if (ntohl(grh->version_tclass_flow) >> 28 != 6)
		return ip->version_length >> 4 == 4;
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	return ip->version_length == 0x45 && sum == 0xffff;
}

static void map_ipv4(uint8_t gid[16], const uint8_t addr[4])
{
	memset(gid, 0, 10);
	memset(gid + 10, 0xff, 2);
	memcpy(gid + 12, addr, 4);
}

/* -1: none */
static int find_gid(const uint8_t gid[16], bool v2)
{
	const struct weft_pool_member *self = weft_process.pool->self;

	for (uint32_t i = 0; i < WEFT_MEMBER_GIDS; i++)
		if (is_v2(i) == v2 && weft_gid_is(&self->gid[i], gid))
			return (int)i;
	return -1;
}

/* The sender's address becomes the destination, and the datagram's destination ours. An errno. */
static int reverse(const struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	uint32_t first = ntohl(grh->version_tclass_flow);
	uint8_t ours[16];
	struct ipv4 ip;
	int index;

	if (is_ipv4(grh, &ip)) {
		map_ipv4(attr->grh.dgid.raw, ip.src);
		map_ipv4(ours, ip.dst);
		attr->grh.traffic_class = ip.tos;
		attr->grh.hop_limit = ip.ttl;
		index = find_gid(ours, true);
	} else if (first >> 28 == 6 &&
		   (grh->next_hdr == IPPROTO_UDP || grh->next_hdr == IPPROTO_IB_BTH)) {
		attr->grh.dgid = grh->sgid;
		attr->grh.flow_label = first & 0xfffff;
		attr->grh.traffic_class = (uint8_t)(first >> 20);
		attr->grh.hop_limit = grh->hop_limit;
		index = find_gid(grh->dgid.raw, grh->next_hdr == IPPROTO_UDP);
	} else {
		return weft_broken("ibv_init_ah_from_wc", HEADER);
	}
	if (index < 0)
		return weft_broken("ibv_init_ah_from_wc", HEADER_ADDRESS);
	attr->grh.sgid_index = (uint8_t)index;
	attr->is_global = 1;
	return 0;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	const char *verb = "ibv_init_ah_from_wc";
	int err = 0;

	if (weft_explain_closed(verb, context))
		err = EINVAL;
	else if (port_num != WEFT_PORT)
		err = weft_broken(verb, RANGE, weft_value("port_num"), port_num, WEFT_PORT,
				  WEFT_PORT);
	else if (!wc || !grh || !attr)
		err = weft_broken(verb, MISSING, weft_value("wc, grh or ah_attr"));
	if (err)
		goto fail;
	memset(attr, 0, sizeof(*attr));
	attr->dlid = wc->slid;
	attr->sl = wc->sl;
	attr->src_path_bits = wc->dlid_path_bits;
	attr->port_num = port_num;
	err = wc->wc_flags & IBV_WC_GRH ? reverse(grh, attr) : 0;
	if (!err)
		return 0;
fail:
	errno = err;
	return -1;
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port_num)
{
	struct ibv_ah_attr attr;

	if (weft_explain_no_domain("ibv_create_ah_from_wc", pd)) {
		errno = EINVAL;
		return NULL;
	}
	return ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr)
		       ? NULL
		       : ibv_create_ah(pd, &attr);
}
