/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "told.h"
#include "rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PREFIX "weft: "

static int kept = -1, before = -1;
static char text[1 << 16];

void told_begin(void)
{
	kept = memfd_create("told", MFD_CLOEXEC);
	before = dup(2);
	assert_true(kept >= 0 && before >= 0);
	/* O_APPEND: otherwise two processes that share a position in such a file would overwrite each other's
	 * lines */
	assert_int_equal(fcntl(kept, F_SETFL, O_APPEND), 0);
	assert_int_equal(dup2(kept, 2), 2);
}

void told_end(void)
{
	const char *line, *next;
	ssize_t n;

	if (kept < 0)
		return;
	dup2(before, 2);
	n = pread(kept, text, sizeof(text) - 1, 0);
	text[n > 0 ? n : 0] = 0;
	close(kept);
	close(before);
	kept = before = -1;
	for (line = text; *line; line = next) {
		next = strchrnul(line, '\n');
		next += *next == '\n';
		if (strncmp(line, PREFIX, strlen(PREFIX)) != 0)
			fprintf(stderr, "%.*s", (int)(next - line), line);
	}
}

static bool has(const char *line, size_t length, const char *word)
{
	return !word || memmem(line, length, word, strlen(word));
}

unsigned int told_lines(const char *const *words, unsigned int nwords)
{
	unsigned int lines = 0, found;
	size_t length;

	for (const char *line = text; *line; line += length + (line[length] == '\n')) {
		length = strcspn(line, "\n");
		if (strncmp(line, PREFIX, strlen(PREFIX)) != 0)
			continue;
		for (found = 0; found < nwords && has(line, length, words[found]); found++)
			;
		lines += found == nwords;
	}
	return lines;
}

void told_show(void)
{
	fputs(text, stderr);
}
