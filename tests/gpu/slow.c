/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library whose loading takes as long as another thread's work: the loader's lock is held
 * meanwhile. */
void slow_begins(void);

__attribute__((constructor)) static void begin(void)
{
	slow_begins();
}
