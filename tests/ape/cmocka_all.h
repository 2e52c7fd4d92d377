/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* cmocka, with the headers that have to be included before it. */
#ifndef WEFT_TESTS_APE_CMOCKA_ALL_H
#define WEFT_TESTS_APE_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
