/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kinds of cases. Each draws by chance what it does, does it, and writes one line but for its end; it
 * leaves nothing behind. */
#ifndef WEFT_TESTS_DIFFERENTIAL_CASES_H
#define WEFT_TESTS_DIFFERENTIAL_CASES_H

#include "world.h"

void case_region(struct world *world);
void case_change_region(struct world *world);
void case_completion_queue(struct world *world);
void case_queue_pair(struct world *world);
void case_in_use(struct world *world);
void case_modify(struct world *world);
void case_traffic(struct world *world);
void case_post_in_state(struct world *world);
void case_silent_peer(struct world *world);
void case_overrun(struct world *world);
void case_srq(struct world *world);
void case_srq_full(struct world *world);
void case_srq_low(struct world *world);
void case_srq_traffic(struct world *world);
void case_window(struct world *world);
void case_alloc_window(struct world *world);
void case_cq_ex(struct world *world);
void case_qp_ex(struct world *world);
void case_extended_traffic(struct world *world);
void case_extended_datagrams(struct world *world);
void case_unreliable_traffic(struct world *world);
void case_unreliable_post_in_state(struct world *world);
void case_modify_unreliable(struct world *world);
void case_modify_datagram(struct world *world);
void case_datagrams(struct world *world);
void case_datagram_in_state(struct world *world);
void case_address(struct world *world);
void case_answer(struct world *world);
void case_armed(struct world *world);

#endif
