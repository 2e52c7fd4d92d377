/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two network namespaces with a veth between them, as any user that may make namespaces: w0 has
 * 192.0.2.1, 2001:db8::1 and fe80::1, w1 has those with 2. For the rest of the process, which has
 * one thread; a socket stays where it was made.
 */
#ifndef WEFT_TESTS_LINK_SPACES_H
#define WEFT_TESTS_LINK_SPACES_H

/* NULL, or why there are none. */
const char *spaces_make(void);
/* What is made next is made in the first or the second, 0 or 1. */
void spaces_enter(int which);
void spaces_end(void);

#endif
