/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which process has a UDP port that another lacks. */
#ifndef WEFT_LINK_OWNER_H
#define WEFT_LINK_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#define WEFT_OWNER_TEXT 128u

/* A program, another user, or the kernel, as the kernel tells of UDP sockets of this network namespace. False: it is free
 * by now. */
bool weft_owner_of_port(const uint8_t gid[16], uint16_t port, char text[WEFT_OWNER_TEXT]);

#endif
