/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/node.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pool/address.h"

#define NET 10 /* of the addresses of nodes */

static bool read_node(const char *text, const char *format, uint8_t at[3])
{
	unsigned int value[3];
	int end = -1;

	if (sscanf(text, format, &value[0], &value[1], &value[2], &end) != 3 || end < 0 ||
	    text[end])
		return false;
	for (unsigned int d = 0; d < 3; d++) {
		if (value[d] >= UINT8_MAX)
			return false;
		at[d] = (uint8_t)value[d];
	}
	return true;
}

bool weft_node_here(uint8_t at[3])
{
	const char *node = getenv(WEFT_TORUS_NODE_ENV), *last;

	if (!node)
		return false;
	last = strrchr(node, *node == '/' ? '/' : ':');
	return last && read_node(last + 1, *node == '/' ? "%3u.%3u.%3u%n" : "%3u,%3u,%3u%n", at);
}

void weft_node_gid(const uint8_t at[3], uint8_t gid[16])
{
	const uint8_t address[16] = {[10] = 0xff, 0xff, NET, at[0], at[1], (uint8_t)(at[2] + 1)};

	memcpy(gid, address, sizeof(address));
}

bool weft_node_of_gid(const uint8_t gid[16], uint8_t at[3])
{
	if (!weft_address_is_ipv4(gid) || gid[12] != NET || !gid[15])
		return false;
	at[0] = gid[13];
	at[1] = gid[14];
	at[2] = (uint8_t)(gid[15] - 1);
	return true;
}

bool weft_node_source(const uint8_t dgid[16], uint8_t sgid[16])
{
	uint8_t here[3], there[3];

	if (!weft_node_here(here) || !weft_node_of_gid(dgid, there))
		return false;
	weft_node_gid(here, sgid);
	return true;
}
