/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef WEFT_CARD_PROMPT_H
#define WEFT_CARD_PROMPT_H

/* Asks the kernel to let this thread go first when it is woken. */
void weft_card_be_prompt(void);

#endif
