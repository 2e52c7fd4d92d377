/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What becomes of this process at the steps that it was built with (pool/step.h). It says the name of the step on its
 * output before.
 */
#ifndef WEFT_TESTS_HANDED_FATE_H
#define WEFT_TESTS_HANDED_FATE_H

/* A number: it is killed at that step from now on; a name: it is stopped when it passes that step for the first time,
 * and with - in front killed; NULL: it goes on. */
void fate_begin(const char *which);

#endif
