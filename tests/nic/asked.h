/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The helper of the owner of the peer's memory, as far as the nic sees of it: what is asked of it is carried out
 * when the nic looks, in the order of asking, or not at all while the helper is held. The functions below are
 * rows of the machine of world.c.
 */
#ifndef WEFT_TESTS_NIC_ASKED_H
#define WEFT_TESTS_NIC_ASKED_H

#include "world.h"

void asked_begin(void); /* nothing is asked of it, and it is not held */
void asked_hold(bool held);
/* Carries out everything that is asked. */
void asked_work(void);

int asked_copy(void *context, const struct weft_caller *caller, const struct weft_in_place *memory,
	       void *here, uint64_t len_bytes, bool write);
int asked_atomic(void *context, const struct weft_caller *caller,
		 const struct weft_in_place *memory, bool add, uint64_t compare_add, uint64_t swap,
		 uint64_t *value);
bool asked_answered(void *context, const struct weft_later *later, uint64_t now_ns);
bool asked_carried_out(void *context, const struct weft_later *later, uint64_t *value);
void asked_take_back(void *context, struct weft_later *later);

#endif
