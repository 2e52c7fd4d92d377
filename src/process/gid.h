/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The GID table of weft0's one port: made from the addresses of this network namespace, laid out as
 * the kernel lays out a RoCE port.
 *
 * For each network interface that is up: its default link-local GID (EUI-64 of the hardware
 * address) as RoCE v1 and v2, then ::ffff:a.b.c.d as v1 and v2 for each IPv4 address, then each
 * other IPv6 address as v1 and v2. Interfaces with an IPv4 address come first, then by index, so
 * that index 3 is the usual choice. Where no interface but `lo` has an address that can be routed,
 * `lo` comes first with a synthetic link-local GID and ::ffff:127.0.0.1. On a node of a torus (node.h) there is the node's
 * address alone, as v1 and v2, with `lo` as its interface.
 *
 * Context: any thread, no locks, no state; opens and closes one netlink socket.
 */
#ifndef WEFT_PROCESS_GID_H
#define WEFT_PROCESS_GID_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

/* What the port reports as the length of its table; entries behind the last are invalid. */
#define WEFT_GID_TABLE_LEN 256

enum weft_gid_type {
	WEFT_GID_ROCE_V1,
	WEFT_GID_ROCE_V2,
};

struct weft_gid_entry {
	uint8_t gid[16]; /* network order */
	enum weft_gid_type type;
	uint32_t index;	  /* in the table; equals the place in the array */
	uint32_t ifindex; /* of netdev */
	char netdev[IF_NAMESIZE];
};

/*
 * Fills at most max entries and returns how many: never an error, never 0 unless max is 0. An
 * address beyond max is left out. Where the kernel does not answer (no netlink), the table is the
 * one of a lone `lo`.
 */
int weft_gid_table(struct weft_gid_entry *entries, unsigned int max);

/* The first entry of that GID, or NULL. */
const struct weft_gid_entry *weft_gid_find(const struct weft_gid_entry *entries, unsigned int n,
					   const uint8_t gid[16]);

/* The index of the interface that has it, in this network namespace now; 0: none has. */
uint32_t weft_gid_interface(const uint8_t gid[16]);

/* Addresses as people write them; one of IPv4 without its ::ffff:. Whether the text is one. */
bool weft_gid_parse(const char *text, uint8_t gid[16]);
void weft_gid_print(const uint8_t gid[16], char text[INET6_ADDRSTRLEN]);

/* The text that sysfs gives for a type: "IB/RoCE v1" or "RoCE v2". */
const char *weft_gid_type_str(enum weft_gid_type type);

#endif
