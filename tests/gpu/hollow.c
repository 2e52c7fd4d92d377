/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library that the test loads by the name of libcuda, but without most of its calls. */
__attribute__((visibility("default"))) unsigned int cuInit(unsigned int flags);

unsigned int cuInit(unsigned int flags)
{
	return flags;
}
