/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queries of the port's GIDs. */
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "nic/qp.h"
#include "verbs/attr.h"
#include "verbs/explain.h"
#include "process/gids.h"
#include "verbs/verbs.h"

/* 0; EINVAL (context, port, index), which has been said; ENODATA (the index is unused). */
static int read_entry(const char *verb, struct ibv_context *context, uint32_t port_num,
		      uint32_t index, struct weft_gid_entry *entry)
{
	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (port_num != WEFT_PORT)
		return weft_broken(verb, RANGE, weft_value("port_num"), port_num, WEFT_PORT,
				   WEFT_PORT);
	if (index >= WEFT_GID_TABLE_LEN)
		return weft_broken(verb, RANGE, weft_value("index"), index, 0,
				   WEFT_GID_TABLE_LEN - 1);
	return weft_gids_get(index, entry) ? 0 : ENODATA;
}

/* Fills one entry of a program's table, as long as its release has them. */
static void give_entry(void *to, size_t entry_size, const struct weft_gid_entry *from)
{
	struct ibv_gid_entry e = {
		.gid_index = from->index,
		.port_num = WEFT_PORT,
		.gid_type = from->type == WEFT_GID_ROCE_V1 ? IBV_GID_TYPE_ROCE_V1
							   : IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = from->ifindex,
	};
	size_t len = entry_size < sizeof(e) ? entry_size : sizeof(e);

	memcpy(e.gid.raw, from->gid, sizeof(e.gid.raw));
	memcpy(to, &e, len);
	memset((char *)to + len, 0, entry_size - len);
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	const char *verb = "ibv_query_gid_ex";
	struct weft_gid_entry found;
	int err;

	if (flags)
		return weft_broken(verb, UNKNOWN_BITS, weft_value("flags"), flags);
	if (!entry || !entry_size)
		return weft_broken(verb, MISSING, weft_value("entry"), weft_value(entry));
	err = read_entry(verb, context, port_num, gid_index, &found);
	if (err == ENODATA)
		return weft_broken(verb, GID_UNUSED, gid_index);
	if (err)
		return err;
	give_entry(entry, entry_size, &found);
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	const char *verb = "ibv_query_gid_table";
	struct weft_gid_entry *all;
	ssize_t n;

	if (weft_explain_closed(verb, context))
		return -EINVAL;
	if (flags)
		return -weft_broken(verb, UNKNOWN_BITS, weft_value("flags"), flags);
	if (!entries || !entry_size)
		return -weft_broken(verb, MISSING, weft_value("entries"), weft_value(entries));
	all = malloc(WEFT_GID_TABLE_LEN * sizeof(*all));
	if (!all)
		return -weft_explain_errno(verb, ENOMEM);
	n = weft_gids_get_all(all);
	if ((size_t)n > max_entries)
		n = -weft_broken(verb, RANGE, weft_value("max_entries"), max_entries, (uint64_t)n,
				 WEFT_GID_TABLE_LEN);
	for (ssize_t i = 0; i < n; i++)
		give_entry((char *)entries + (size_t)i * entry_size, entry_size, &all[i]);
	free(all);
	return n;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index, union ibv_gid *gid)
{
	struct weft_gid_entry found = {.gid = {0}};
	int err = gid ? read_entry("ibv_query_gid", context, port_num, (uint32_t)index, &found)
		      : weft_broken("ibv_query_gid", MISSING, weft_value("gid"));

	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	memcpy(gid->raw, found.gid, sizeof(gid->raw));
	return 0;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type)
{
	struct weft_gid_entry found = {.type = WEFT_GID_ROCE_V1};
	int err = type ? read_entry("ibv_query_gid_type", context, port_num, index, &found)
		       : weft_broken("ibv_query_gid_type", MISSING, weft_value("type"));

	/* The kernel has no type for an unused index; its reader takes that for the first one. */
	if (err && err != ENODATA) {
		errno = err;
		return -1;
	}
	*type = found.type == WEFT_GID_ROCE_V1 ? IBV_GID_TYPE_SYSFS_IB_ROCE_V1
					       : IBV_GID_TYPE_SYSFS_ROCE_V2;
	return 0;
}

/* A link-local GID made from a hardware address holds that address. */
static void mac_of_link_local(const uint8_t gid[16], uint8_t mac[ETHERNET_LL_SIZE])
{
	mac[0] = gid[8] ^ 0x02;
	memcpy(mac + 1, gid + 9, 2);
	memcpy(mac + 3, gid + 13, 3);
}

/* The hardware address of this host's interface that has the address, or -EHOSTUNREACH. */
static int mac_of_own(const uint8_t gid[16], uint8_t mac[ETHERNET_LL_SIZE])
{
	struct weft_gid_entry *host = malloc(WEFT_GID_TABLE_LEN * sizeof(*host));
	int n = host ? weft_gid_table(host, WEFT_GID_TABLE_LEN) : 0;
	int err = host ? -EHOSTUNREACH : -ENOMEM;
	const struct weft_gid_entry *own = NULL;

	for (int i = 0; err && i < n; i++) {
		const struct weft_gid_entry *e = &host[i];

		/* An interface's first entry is made from its hardware address. */
		if (!own || own->ifindex != e->ifindex)
			own = e;
		if (!memcmp(e->gid, gid, sizeof(e->gid))) {
			mac_of_link_local(own->gid, mac);
			err = 0;
		}
	}
	free(host);
	return err;
}

int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	const char *verb = "ibv_resolve_eth_l2_from_gid";
	const uint8_t *gid;
	int err = 0;

	if (weft_explain_closed(verb, context))
		return EINVAL;
	if (!attr || !eth_mac)
		return weft_broken(verb, MISSING, weft_value("attr or eth_mac"));
	gid = attr->grh.dgid.raw;
	if (IN6_IS_ADDR_MULTICAST(gid)) {
		eth_mac[0] = eth_mac[1] = 0x33;
		memcpy(eth_mac + 2, gid + 12, 4);
	} else if (IN6_IS_ADDR_LINKLOCAL(gid)) {
		mac_of_link_local(gid, eth_mac);
	} else {
		err = mac_of_own(gid, eth_mac);
	}
	if (!err && vid)
		*vid = 0xffff; /* no VLAN */
	return err ? weft_explain_errno(verb, -err) : 0;
}
