/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const struct weft_stream_link_kind *const kinds[] = {
	&weft_stream_udp, &weft_stream_ring, &weft_stream_packet, &weft_stream_torus};

#define KINDS (sizeof(kinds) / sizeof(*kinds))

const char *weft_stream_link_name(unsigned int which)
{
	return which < KINDS ? kinds[which]->name : NULL;
}

int weft_stream_link_open(const char *from, struct weft_stream_link_options *options,
			  struct weft_stream_link **link)
{
	const char *colon = strchr(from, ':');
	int answer = -EPROTONOSUPPORT;

	options->wrong = "it is no KIND:WHERE";
	for (size_t i = 0; colon && i < KINDS; i++)
		if (strlen(kinds[i]->name) == (size_t)(colon - from) &&
		    !strncmp(from, kinds[i]->name, (size_t)(colon - from)))
			answer = kinds[i]->open(colon + 1, options, link);
	return answer;
}

static bool parse_port(const char *text, uint16_t *port)
{
	char *end;
	unsigned long value = strtoul(text, &end, 10);

	*port = (uint16_t)value;
	return *text >= '0' && *text <= '9' && !*end && value <= UINT16_MAX;
}

bool weft_stream_address(const char *text, uint8_t address[16], uint16_t *port)
{
	const char *colon = strrchr(text, ':');
	char host[INET6_ADDRSTRLEN + 2] = "0.0.0.0";
	size_t length = colon ? (size_t)(colon - text) : 0;

	if (!colon || length >= sizeof(host) || !parse_port(colon + 1, port))
		return false;
	if (length) {
		memcpy(host, text, length);
		host[length] = '\0';
	}
	if (*host == '[' && length > 2 && host[length - 1] == ']') {
		host[length - 1] = '\0';
		return inet_pton(AF_INET6, host + 1, address) == 1;
	}
	memset(address, 0, 10);
	address[10] = address[11] = 0xff;
	return inet_pton(AF_INET, host, address + 12) == 1;
}
