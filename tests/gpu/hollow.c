/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A libcuda, by the name that the test gives it, without most calls. */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int cuInit(unsigned int flags)
{
	return flags;
}
