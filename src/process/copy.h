/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The string copy of struct weft_machine. */
#ifndef WEFT_PROCESS_COPY_H
#define WEFT_PROCESS_COPY_H

#include <stddef.h>
#include <stdint.h>

void weft_copy_body(uint8_t *to, const uint8_t *from, size_t n);

#endif
