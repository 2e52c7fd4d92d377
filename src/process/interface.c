/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pool/address.h"
#include "process/card.h"
#include "process/gids.h"
#include "process/node.h"

#define MOST_CODE 5u
/* Of a packet, before and behind its bytes: IPv6, UDP, the longest headers of requests with bytes, ICRC. */
#define OVERHEAD_BYTES 80u
#define PRIVATE_POOLS  "/dev/shm/weft-private-"

static uint8_t code_of(const char *netdev)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq request = {.ifr_mtu = 0};
	uint8_t code = MOST_CODE;
	bool known;

	memcpy(request.ifr_name, netdev, strnlen(netdev, IFNAMSIZ - 1));
	known = fd >= 0 && !ioctl(fd, SIOCGIFMTU, &request);
	if (fd >= 0)
		close(fd);
	while (known && code > 1 && (128u << code) + OVERHEAD_BYTES > (uint32_t)request.ifr_mtu)
		code--;
	return code;
}

static bool stays_within(void)
{
	const char *pool = getenv("WEFT_POOL");
	uint8_t at[3];

	if (weft_node_here(at)) /* whose card is that of the torus */
		return false;
	return weft_card_is_off() ||
	       (pool && !strncmp(pool, PRIVATE_POOLS, sizeof(PRIVATE_POOLS) - 1));
}

uint8_t weft_interface_carries(const uint8_t gid[16])
{
	struct weft_gid_entry all[WEFT_GID_TABLE_LEN];
	const struct weft_gid_entry *found;
	uint8_t at[3];

	if (weft_node_here(at))
		return WEFT_NODE_MTU;
	found = weft_gid_find(all, weft_gids_get_all(all), gid);
	return found ? code_of(found->netdev) : MOST_CODE;
}

uint32_t weft_interface_of(const uint8_t gid[16])
{
	struct weft_gid_entry all[WEFT_GID_TABLE_LEN];
	const struct weft_gid_entry *found = weft_gid_find(all, weft_gids_get_all(all), gid);

	return found ? found->ifindex : 0;
}

uint8_t weft_interface_mtu(const uint8_t gid[16])
{
	return stays_within() ? MOST_CODE : weft_interface_carries(gid);
}

uint8_t weft_interface_first_mtu(void)
{
	struct weft_gid_entry first;

	return !stays_within() && weft_gids_get(0, &first) ? weft_interface_carries(first.gid)
							   : MOST_CODE;
}

static bool is_that_gid(const struct sockaddr *address, const uint8_t gid[16])
{
	if (!address)
		return false;
	if (address->sa_family == AF_INET)
		return weft_address_is_ipv4(gid) &&
		       !memcmp(&((const struct sockaddr_in *)(const void *)address)->sin_addr,
			       gid + 12, 4);
	return address->sa_family == AF_INET6 &&
	       !memcmp(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, gid, 16);
}

/* The table has GIDs that were given to no interface. */
static bool is_address(const struct ifaddrs *list, const uint8_t gid[16])
{
	while (list && !is_that_gid(list->ifa_addr, gid))
		list = list->ifa_next;
	return list;
}

/* Of the same interface, or of any. */
static bool find_address(const struct ifaddrs *list, uint32_t ifindex, uint32_t *index)
{
	struct weft_gid_entry all[WEFT_GID_TABLE_LEN];
	unsigned int n = weft_gids_get_all(all);

	for (unsigned int i = 0; i < n; i++)
		if (all[i].type == WEFT_GID_ROCE_V2 && (!ifindex || all[i].ifindex == ifindex) &&
		    !weft_address_is_loopback(all[i].gid) && is_address(list, all[i].gid)) {
			*index = all[i].index;
			return true;
		}
	return false;
}

bool weft_interface_lacks(uint32_t index, uint32_t *instead)
{
	struct weft_gid_entry entry;
	struct ifaddrs *list;
	bool lacks;

	if (!weft_gids_get(index, &entry) || getifaddrs(&list))
		return false;
	lacks = !is_address(list, entry.gid) &&
		(find_address(list, entry.ifindex, instead) || find_address(list, 0, instead));
	freeifaddrs(list);
	return lacks;
}
