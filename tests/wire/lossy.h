/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What lossy.c sends in turn, for the card that loses some of it (spoiled.c). */
#ifndef WEFT_TESTS_WIRE_LOSSY_H
#define WEFT_TESTS_WIRE_LOSSY_H

#define LOSSY_PSN   0xfffff7u /* of the first packet */
#define LOSSY_PARTS 10u	      /* packets of a message */

/* Of messages with odd numbers one packet is lost, of each next one the next packet. */
static inline int lossy_is_lost(unsigned int psn)
{
	unsigned int at = (psn - LOSSY_PSN) & 0xffffff, message = at / LOSSY_PARTS;

	return message % 2 && at % LOSSY_PARTS == message / 2 % LOSSY_PARTS;
}

#endif
