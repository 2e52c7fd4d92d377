/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
int weft_plugin(void);
__attribute__((visibility("default"))) int weft_plugin(void)
{
	return 0;
}
