/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two network namespaces with a veth between them, made as any user that may make namespaces: w0 has
 * 192.0.2.1, 2001:db8::1 and fe80::1, w1 has those that end in 2. They last as long as this process, which
 * may have one thread only. A socket stays in the namespace that it was made in.
 */
#ifndef WEFT_TESTS_LINK_SPACES_H
#define WEFT_TESTS_LINK_SPACES_H

/* Returns NULL, or why there are none. */
const char *spaces_make(void);
/* Whatever is made from now on is made in the first namespace (0) or in the second (1). */
void spaces_enter(int which);
void spaces_end(void);

#endif
