/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "errors.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct row rows[ERRORS_ROWS];
size_t nrows;

struct word {
	const char *word;
	int number;
};

static const struct word statuses[] = {
	{"lost", LOST},
	{"LOC_LEN_ERR", IBV_WC_LOC_LEN_ERR},
	{"LOC_QP_OP_ERR", IBV_WC_LOC_QP_OP_ERR},
	{"LOC_PROT_ERR", IBV_WC_LOC_PROT_ERR},
	{"WR_FLUSH_ERR", IBV_WC_WR_FLUSH_ERR},
	{"REM_INV_REQ_ERR", IBV_WC_REM_INV_REQ_ERR},
	{"REM_ACCESS_ERR", IBV_WC_REM_ACCESS_ERR},
	{"REM_OP_ERR", IBV_WC_REM_OP_ERR},
	{"RETRY_EXC_ERR", IBV_WC_RETRY_EXC_ERR},
	{"RNR_RETRY_EXC_ERR", IBV_WC_RNR_RETRY_EXC_ERR},
	{"-", IBV_WC_SUCCESS},
	{0},
};

static const struct word states[] = {
	{"RESET", IBV_QPS_RESET},
	{"INIT", IBV_QPS_INIT},
	{"RTR", IBV_QPS_RTR},
	{"RTS", IBV_QPS_RTS},
	{"ERR", IBV_QPS_ERR},
	{"gone", GONE},
	{0},
};

static const struct word events[] = {
	{"-", 0},
	{"QP_FATAL", 1u << IBV_EVENT_QP_FATAL},
	{"QP_REQ_ERR", 1u << IBV_EVENT_QP_REQ_ERR},
	{"QP_ACCESS_ERR", 1u << IBV_EVENT_QP_ACCESS_ERR},
	{"CQ_ERR+QP_FATAL", 1u << IBV_EVENT_CQ_ERR | 1u << IBV_EVENT_QP_FATAL},
	{"LAST_WQE_REACHED", 1u << IBV_EVENT_QP_LAST_WQE_REACHED},
	{0},
};

static int number_of(struct row *row, const struct word *words, const char *word)
{
	for (; words->word; words++)
		if (word && !strcmp(words->word, word))
			return words->number;
	row->trouble = "a word that is not known";
	return 0;
}

static const struct cause *find_cause(struct row *row, const char *verb, const char *name)
{
	while (row->verb < VERBS && strcmp(verb_name[row->verb], verb) != 0)
		row->verb++;
	for (size_t i = 0; name && i < ncauses; i++)
		if (!strcmp(causes[i].name, name) && causes[i].verbs & 1u << row->verb)
			return &causes[i];
	row->trouble = "there is no such cause for this verb";
	return NULL;
}

static void read_row(struct row *row, char *line)
{
	struct outcome *o = &row->outcome;
	char *verb = strsep(&line, "\t"), *cause = strsep(&line, "\t");

	snprintf(row->name, sizeof(row->name), "%s_%s", verb, cause);
	for (char *c = row->name; *c; c++)
		if (!isalnum((unsigned char)*c))
			*c = '_';
	row->cause = find_cause(row, verb, cause);
	o->status = number_of(row, statuses, strsep(&line, "\t"));
	o->state = number_of(row, states, strsep(&line, "\t"));
	o->event = (unsigned int)number_of(row, events, strsep(&line, "\t"));
	o->receive = number_of(row, statuses, strsep(&line, "\t"));
	o->peer = number_of(row, states, strsep(&line, "\t"));
	o->peer_event = (unsigned int)number_of(row, events, strsep(&line, "\t"));
	if (!line || !*line || strlen(line) >= sizeof(row->clause))
		row->trouble = "no clause";
	else
		strcpy(row->clause, line);
}

/* Lines that begin with # are comments; the first other line names the columns. */
bool read_table(const char *path)
{
	FILE *file = path ? fopen(path, "r") : NULL;
	bool named = false;
	char line[256];

	if (!file)
		return false;
	for (int n = 1; fgets(line, sizeof(line), file) && nrows < ERRORS_ROWS; n++) {
		line[strcspn(line, "\n")] = 0;
		if (line[0] == '#' || !line[0])
			continue;
		if (named) {
			rows[nrows].line = n;
			read_row(&rows[nrows++], line);
		}
		named = true;
	}
	fclose(file);
	return true;
}
