/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* An address of 16 bytes (pool/address.h) and a port, as sockets take them. For the files of this folder. */
#ifndef WEFT_LINK_NAME_H
#define WEFT_LINK_NAME_H

#include <netinet/in.h>
#include <string.h>

#include "pool/address.h"

union weft_link_name {
	struct sockaddr any;
	struct sockaddr_in four;
	struct sockaddr_in6 six;
};

/* interface: of a link-local address or a group its index, else 0. How many bytes of the name count. */
static inline socklen_t weft_link_name(const uint8_t address[16], uint16_t port, uint32_t interface,
				       union weft_link_name *name)
{
	memset(name, 0, sizeof(*name));
	if (weft_address_is_ipv4(address)) {
		name->four.sin_family = AF_INET;
		name->four.sin_port = htons(port);
		memcpy(&name->four.sin_addr, address + 12, 4);
		return sizeof(name->four);
	}
	name->six.sin6_family = AF_INET6;
	name->six.sin6_port = htons(port);
	name->six.sin6_scope_id = interface;
	memcpy(&name->six.sin6_addr, address, 16);
	return sizeof(name->six);
}

#endif
