/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A library by the name of NVIDIA's: with it loaded, memory must stay in place. */
void weft_fake_cuda(void);

void weft_fake_cuda(void)
{
}
