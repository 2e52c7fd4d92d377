/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/interface.h"

#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

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
