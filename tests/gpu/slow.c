/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library whose constructor waits for another thread, with the loader's lock held
 * meanwhile. */
void slow_begins(void);

__attribute__((constructor)) static void begin(void)
{
	slow_begins();
}
