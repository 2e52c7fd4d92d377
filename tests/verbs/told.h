/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What Weft says on standard error with WEFT_EXPLAIN, of this process and those that it starts. */
#ifndef WEFT_TESTS_VERBS_TOLD_H
#define WEFT_TESTS_VERBS_TOLD_H

/* From here on standard error is kept; till here. What is not Weft's is passed on. */
void told_begin(void);
void told_end(void);
/* How many of the lines there are that have all these words in them; NULL is in each. */
unsigned int told_lines(const char *const *words, unsigned int nwords);
/* For a look into a failure. */
void told_show(void);

#endif
