/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/gid.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "pool/address.h"
#include "process/node.h"

#define MAC_LEN 6

struct table {
	struct weft_gid_entry *entries;
	unsigned int max;
	unsigned int n;
};

struct netdev {
	char name[IF_NAMESIZE];
	unsigned int ifindex;
	uint8_t mac[MAC_LEN];
};

const char *weft_gid_type_str(enum weft_gid_type type)
{
	switch (type) {
	case WEFT_GID_ROCE_V1:
		return "IB/RoCE v1";
	case WEFT_GID_ROCE_V2:
		return "RoCE v2";
	}
	return NULL;
}

/* The kernel gives each address to both types, and a GID only once to a network interface. */
static void add(struct table *t, const struct netdev *dev, const uint8_t gid[16])
{
	for (unsigned int i = 0; i < t->n; i++)
		if (t->entries[i].ifindex == dev->ifindex && !memcmp(t->entries[i].gid, gid, 16))
			return;
	for (int type = WEFT_GID_ROCE_V1; type <= WEFT_GID_ROCE_V2 && t->n < t->max; type++) {
		struct weft_gid_entry *e = &t->entries[t->n];

		memcpy(e->gid, gid, 16);
		e->type = type;
		e->index = t->n++;
		e->ifindex = dev->ifindex;
		memcpy(e->netdev, dev->name, sizeof(e->netdev));
	}
}

static void add_default(struct table *t, const struct netdev *dev)
{
	const uint8_t *m = dev->mac;
	const uint8_t gid[16] = {0xfe,	      0x80, 0,	  0,	0,    0,    0,	  0,
				 m[0] ^ 0x02, m[1], m[2], 0xff, 0xfe, m[3], m[4], m[5]};

	add(t, dev, gid);
}

static void add_ipv4(struct table *t, const struct netdev *dev, uint32_t addr_be)
{
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff};

	memcpy(gid + 12, &addr_be, sizeof(addr_be));
	add(t, dev, gid);
}

/* A number of the kernel, anew each time it boots. The first namespaces have the same inode numbers on all of them. */
static uint32_t number_of_kernel(void)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	uint32_t number = 2166136261u; /* FNV-1a */
	int c;

	while (f && (c = fgetc(f)) != EOF)
		number = (number ^ (uint32_t)c) * 16777619u;
	if (f)
		fclose(f);
	return number;
}

/*
 * An interface without a hardware address still needs a link-local GID that differs from those of
 * other namespaces of this host, and of other hosts: made from the namespace's inode number and the kernel's.
 */
static void synthetic_mac(struct netdev *dev)
{
	struct stat st;
	uint32_t ns = stat("/proc/thread-self/ns/net", &st) ? 0 : (uint32_t)st.st_ino;

	ns ^= number_of_kernel();
	dev->mac[0] = 0x02; /* locally administered */
	dev->mac[1] = (uint8_t)dev->ifindex;
	memcpy(dev->mac + 2, &ns, sizeof(ns));
}

/* A link without a hardware address (a tunnel) comes without any. */
static bool is_link(const struct ifaddrs *ifa, struct netdev *dev)
{
	static const uint8_t none[MAC_LEN];
	const struct sockaddr_ll *ll = (const void *)ifa->ifa_addr;

	if ((ll && ll->sll_family != AF_PACKET) || !(ifa->ifa_flags & IFF_UP))
		return false;
	memset(dev, 0, sizeof(*dev));
	strncpy(dev->name, ifa->ifa_name, IF_NAMESIZE - 1);
	dev->ifindex = if_nametoindex(dev->name);
	if (ll && ll->sll_halen == MAC_LEN && memcmp(ll->sll_addr, none, MAC_LEN))
		memcpy(dev->mac, ll->sll_addr, MAC_LEN);
	else
		synthetic_mac(dev);
	return true;
}

/* An IPv4 address comes with its label ("eth0:1"), not with the name of its interface. */
static bool belongs(const struct ifaddrs *ifa, const struct netdev *dev, int family)
{
	size_t len = strlen(dev->name);

	return ifa->ifa_addr && ifa->ifa_addr->sa_family == family &&
	       !strncmp(ifa->ifa_name, dev->name, len) &&
	       (ifa->ifa_name[len] == '\0' || ifa->ifa_name[len] == ':');
}

static bool has_ipv4(const struct ifaddrs *list, const struct netdev *dev)
{
	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next)
		if (belongs(ifa, dev, AF_INET))
			return true;
	return false;
}

static bool routable(const struct ifaddrs *ifa)
{
	if (!ifa->ifa_addr || !(ifa->ifa_flags & IFF_UP) || ifa->ifa_flags & IFF_LOOPBACK)
		return false;
	if (ifa->ifa_addr->sa_family == AF_INET)
		return true;
	return ifa->ifa_addr->sa_family == AF_INET6 &&
	       !IN6_IS_ADDR_LINKLOCAL(&((struct sockaddr_in6 *)(void *)ifa->ifa_addr)->sin6_addr);
}

static void add_netdev(struct table *t, const struct ifaddrs *list, const struct netdev *dev)
{
	bool has_address = false;

	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next)
		has_address |= belongs(ifa, dev, AF_INET) || belongs(ifa, dev, AF_INET6);
	if (!has_address)
		return;
	add_default(t, dev);
	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next)
		if (belongs(ifa, dev, AF_INET))
			add_ipv4(t, dev,
				 ((struct sockaddr_in *)(void *)ifa->ifa_addr)->sin_addr.s_addr);
	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next)
		if (belongs(ifa, dev, AF_INET6))
			add(t, dev,
			    ((struct sockaddr_in6 *)(void *)ifa->ifa_addr)->sin6_addr.s6_addr);
}

/* Not asked of the kernel: a new namespace's `lo` is down and has no address yet. */
static void add_lo(struct table *t)
{
	struct netdev lo = {.name = "lo", .ifindex = 1};

	synthetic_mac(&lo);
	add_default(t, &lo);
	add_ipv4(t, &lo, htonl(INADDR_LOOPBACK));
}

/* The port is the node's, in whatever namespace the program is. */
static bool add_node(struct table *t)
{
	const struct netdev lo = {.name = "lo", .ifindex = 1};
	uint8_t at[3], gid[16];

	if (!weft_node_here(at))
		return false;
	weft_node_gid(at, gid);
	add(t, &lo, gid);
	return true;
}

int weft_gid_table(struct weft_gid_entry *entries, unsigned int max)
{
	struct table t = {.entries = entries, .max = max};
	struct ifaddrs *list = NULL;
	bool any_routable = false;

	if (add_node(&t))
		return (int)t.n;
	if (getifaddrs(&list))
		list = NULL;
	for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next)
		any_routable |= routable(ifa);
	if (!any_routable)
		add_lo(&t);
	for (int want_ipv4 = 1; want_ipv4 >= 0; want_ipv4--) {
		for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
			struct netdev dev;

			if (is_link(ifa, &dev) && !(ifa->ifa_flags & IFF_LOOPBACK) &&
			    has_ipv4(list, &dev) == want_ipv4)
				add_netdev(&t, list, &dev);
		}
	}
	if (list)
		freeifaddrs(list);
	return (int)t.n;
}

const struct weft_gid_entry *weft_gid_find(const struct weft_gid_entry *entries, unsigned int n,
					   const uint8_t gid[16])
{
	for (unsigned int i = 0; i < n; i++)
		if (!memcmp(entries[i].gid, gid, 16))
			return &entries[i];
	return NULL;
}

uint32_t weft_gid_interface(const uint8_t gid[16])
{
	struct weft_gid_entry all[WEFT_GID_TABLE_LEN];
	unsigned int n = (unsigned int)weft_gid_table(all, WEFT_GID_TABLE_LEN);
	const struct weft_gid_entry *found = weft_gid_find(all, n, gid);

	return found ? found->ifindex : 0;
}

bool weft_gid_parse(const char *text, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (inet_pton(AF_INET6, text, gid) == 1)
		return true;
	gid[10] = gid[11] = 0xff;
	return inet_pton(AF_INET, text, gid + 12) == 1;
}

void weft_gid_print(const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
	bool four = weft_address_is_ipv4(gid);

	inet_ntop(four ? AF_INET : AF_INET6, four ? gid + 12 : gid, text, INET6_ADDRSTRLEN);
}
