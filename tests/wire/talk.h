/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A TCP connection between the two programs of a test. Trouble ends the program with a line. */
#ifndef WEFT_TESTS_WIRE_TALK_H
#define WEFT_TESTS_WIRE_TALK_H

#include <stdbool.h>
#include <stddef.h>

/* To a host that listens, for some seconds until it does; NULL: listens for one. */
int talk_open(const char *host, const char *port);
/* Exactly so many bytes. */
void talk_put(int fd, const void *from, size_t bytes);
void talk_get(int fd, void *to, size_t bytes);
/* So many bytes each way; false: the peer has gone. */
bool talk_swap(int fd, const void *mine, void *peers, size_t bytes);

/* Ends the program with what was wanted, and errno's text, where it is not so. */
void talk_need(bool ok, const char *what);

#endif
