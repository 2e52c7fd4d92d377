/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What Weft says on standard error with WEFT_EXPLAIN, in this process and in those that it starts. */
#ifndef WEFT_TESTS_VERBS_TOLD_H
#define WEFT_TESTS_VERBS_TOLD_H

/* Between these standard error goes to a file. Lines in it that are not Weft's are passed on in the end. */
void told_begin(void);
void told_end(void);
/* How many lines have all these words in them; NULL is in each. */
unsigned int told_lines(const char *const *words, unsigned int nwords);
/* Shows what was kept, for a look into a failure. */
void told_show(void);

#endif
