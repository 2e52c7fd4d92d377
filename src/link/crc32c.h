/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CRC-32C (Castagnoli), the sum of the torus's packets. */
#ifndef WEFT_LINK_CRC32C_H
#define WEFT_LINK_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from crc, that of the bytes before, with these; 0 to begin. */
uint32_t weft_crc32c(uint32_t crc, const void *bytes, size_t count);

#endif
