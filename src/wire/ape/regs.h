/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The card's registers, 32 bits each, by the hardware's numbers; docs/ape.md says what they hold
 * here. */
#ifndef WEFT_WIRE_APE_REGS_H
#define WEFT_WIRE_APE_REGS_H

#include "wire/ape/ni.h"

#define WEFT_APE_REGISTERS 220u

/* 0 for a number that is no register. */
uint32_t weft_ape_reg_read(const struct weft_ape_ni *c, unsigned int number);
/* False: the register cannot be written, or not with this value; then nothing has changed. */
bool weft_ape_reg_write(struct weft_ape_ni *c, unsigned int number, uint32_t value);

#endif
