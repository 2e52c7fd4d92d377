/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What becomes of this process at the steps that it was built with (pool/step.h). It prints the name of the
 * step before.
 */
#ifndef WEFT_TESTS_HANDED_FATE_H
#define WEFT_TESTS_HANDED_FATE_H

/* A number n: the process is killed at the n-th step from now on. A name: it is stopped when it passes that
 * step for the first time, and with - in front of the name killed. NULL: nothing becomes of it. */
void fate_begin(const char *which);

#endif
