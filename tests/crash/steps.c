/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "steps.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pool/step.h"

/* The linker's names for the ends of the section of steps. */
extern struct weft_step __start_weft_steps[], __stop_weft_steps[];

static struct steps_table *table;
static const char *name_of[STEPS_MOST];
static uint32_t count;
static struct {
	struct weft_step *first, *end;
} loaded;

static struct {
	enum kind kind;
	struct order *order;
	pid_t pid; /* children that this process forks do not obey its order */
} self;

uint32_t steps_find(const char *name)
{
	for (uint32_t i = 0; i < count; i++)
		if (!strcmp(name_of[i], name))
			return i;
	return STEPS_MOST;
}

static bool begins_with(const char *name, const char *const *words, size_t count_of_words)
{
	for (size_t i = 0; i < count_of_words; i++)
		if (!strncmp(name, words[i], strlen(words[i])))
			return true;
	return false;
}

static bool is_elsewhere(const char *name)
{
	static const char *const elsewhere[] = {"handed_", "return_", "device_"};

	return begins_with(name, elsewhere, sizeof(elsewhere) / sizeof(*elsewhere));
}

bool steps_is_of_hosts(const char *name)
{
	/* such a pool is not made by its first use, and a process of it always has a helper, so that none migrates as if it had
	 * one thread */
	static const char *const of_one[] = {"file_", "migrate_out_mapped"};

	return !is_elsewhere(name) && !begins_with(name, of_one, sizeof(of_one) / sizeof(*of_one));
}

bool steps_is_everywhere(const char *name)
{
	static const char *const of_hosts[] = {"host_", "home_", "quiesce_"};

	return !is_elsewhere(name) &&
	       !begins_with(name, of_hosts, sizeof(of_hosts) / sizeof(*of_hosts));
}

static void number(struct weft_step *first, struct weft_step *end, bool (*is_ours)(const char *))
{
	for (struct weft_step *s = first; s < end; s++) {
		s->label = steps_find(s->name);
		if (s->label < STEPS_MOST || !is_ours(s->name))
			continue;
		if (count == STEPS_MOST)
			abort();
		s->label = count;
		name_of[count++] = s->name;
	}
}

void steps_loaded(struct weft_step *first, struct weft_step *end)
{
	loaded.first = first;
	loaded.end = end;
}

struct steps_table *steps_begin(bool (*is_ours)(const char *name))
{
	number(__start_weft_steps, __stop_weft_steps, is_ours);
	number(loaded.first, loaded.end, is_ours);
	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (table == MAP_FAILED)
		abort();
	return table;
}

uint32_t steps_count(void)
{
	return count;
}

const char *steps_name(uint32_t label)
{
	return name_of[label];
}

void steps_obey(enum kind kind, struct order *order)
{
	self.kind = kind;
	self.pid = getpid();
	self.order = order;
	atomic_fetch_add(&table->lives[kind], 1);
}

void weft_step(const struct weft_step *step)
{
	struct order *order = self.order;
	_Atomic uint32_t *due;
	bool wanted;

	if (!order || step->label == STEPS_MOST)
		return;
	atomic_fetch_add_explicit(&table->passed[self.kind][step->label], 1, memory_order_relaxed);
	if (!order->label || self.pid != getpid())
		return;
	wanted = order->or_seldom && atomic_load(&table->killed[step->label]) < STEPS_LEAST;
	due = order->label == step->label + 1 ? &order->left : &order->patience;
	if (atomic_fetch_sub(due, 1) != 1 && !wanted)
		return;
	order->obeyed = true;
	if (order->signal == SIGKILL)
		atomic_fetch_add(&table->killed[step->label], 1);
	kill(self.pid, order->signal);
	/* another thread may take the signal */
	while (order->signal == SIGKILL)
		pause();
}
