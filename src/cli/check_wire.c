/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a card needs of this network namespace: room in its socket, its port, and addresses that arrive as they were sent. */
#include "cli/checkup.h"
#include "cli/nic.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/owner.h"
#include "pool/address.h"
#include "process/gid.h"

#define ROCE_PORT    4791
#define BUFFER_BYTES (4u << 20) /* that a card asks for (card/weftd.c) */

static void check_socket_buffer(struct weft_checkup *c)
{
	FILE *f = fopen("/proc/sys/net/core/rmem_max", "re");
	unsigned int bytes = 0;
	bool known = f && fscanf(f, "%u", &bytes) == 1;
	char finding[96];

	if (f)
		fclose(f);
	snprintf(finding, sizeof(finding), known ? "net.core.rmem_max is %u" : "not told here",
		 bytes);
	if (!known || bytes >= BUFFER_BYTES)
		weft_checkup_say(c, "socket_buffer", WEFT_VERDICT_OK, finding, NULL);
	else
		weft_checkup_say(
			c, "socket_buffer", WEFT_VERDICT_NOTE, finding,
			"sysctl net.core.rmem_max=4194304: packets of other hosts for which "
			"a card's socket has no room are lost, and sent again");
}

/* ---- The port ---- */

/* Whether no other program has it, or what has it is said. */
static bool check_roce_port(struct weft_checkup *c, const uint8_t gid[16])
{
	char owner[WEFT_OWNER_TEXT], address[INET6_ADDRSTRLEN];
	char finding[WEFT_OWNER_TEXT + INET6_ADDRSTRLEN + 64];

	if (!weft_owner_of_port(gid, ROCE_PORT, owner) || weft_nic_shows_card(c->pool, gid))
		return true;
	weft_gid_print(gid, address);
	snprintf(finding, sizeof(finding), "UDP port 4791 of %s is taken by %s", address, owner);
	weft_checkup_say(c, "port", WEFT_VERDICT_PROBLEM, finding,
			 "end that, or connect from another address: one user has the card of an "
			 "address");
	return false;
}

/* ---- NAT ---- */

static bool has_default_route(const char *netdev)
{
	FILE *f = fopen("/proc/net/route", "re");
	char line[512], name[IFNAMSIZ];
	unsigned int to;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%15s %X", name, &to) == 2 && !to && !strcmp(name, netdev);
	if (f)
		fclose(f);
	return found;
}

/* As those of containers and of virtual machines are that have their host's address outside. */
static bool is_translated(const struct weft_gid_entry *e)
{
	const uint8_t *at = e->gid + 12;
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ifreq request = {.ifr_data = (void *)&driver};
	int fd;

	if (!weft_address_is_ipv4(e->gid) || !has_default_route(e->netdev))
		return false;
	/* QEMU's user network */
	if (at[0] == 10 && !at[1] && at[2] == 2)
		return true;
	if (at[0] != 10 && (at[0] != 172 || at[1] >> 4 != 1) && (at[0] != 192 || at[1] != 168))
		return false;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	memcpy(request.ifr_name, e->netdev, IFNAMSIZ - 1);
	if (fd < 0 || ioctl(fd, SIOCETHTOOL, &request))
		driver.driver[0] = 0;
	if (fd >= 0)
		close(fd);
	return !strcmp(driver.driver, "veth");
}

/* ---- */

static void check_nat(struct weft_checkup *c, const struct weft_gid_entry *all, unsigned int n)
{
	char address[INET6_ADDRSTRLEN], finding[INET6_ADDRSTRLEN + IF_NAMESIZE + 64];

	for (unsigned int i = 0; i < n; i++) {
		if (all[i].type != WEFT_GID_ROCE_V2 || !is_translated(&all[i]))
			continue;
		weft_gid_print(all[i].gid, address);
		snprintf(finding, sizeof(finding), "%s of %s may be another address outside",
			 address, all[i].netdev);
		weft_checkup_say(c, "nat", WEFT_VERDICT_NOTE, finding,
				 "towards hosts beyond it use an address that they see (a host's "
				 "network, macvlan, a routed bridge): the checksum of RoCE covers "
				 "addresses, and what NAT has changed is dropped");
		return;
	}
	weft_checkup_say(c, "nat", WEFT_VERDICT_OK, "no sign of it", NULL);
}

void weft_check_wire(struct weft_checkup *c)
{
	struct weft_gid_entry all[WEFT_GID_TABLE_LEN];
	unsigned int n = (unsigned int)weft_gid_table(all, WEFT_GID_TABLE_LEN);
	bool free = true;

	check_socket_buffer(c);
	for (unsigned int i = 0; i < n; i++)
		if (all[i].type == WEFT_GID_ROCE_V2)
			free &= check_roce_port(c, all[i].gid);
	if (free)
		weft_checkup_say(c, "port", WEFT_VERDICT_OK,
				 "UDP port 4791 is free, or a card's of this pool", NULL);
	check_nat(c, all, n);
}
