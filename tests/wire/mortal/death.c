/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What becomes of a process at the steps that it was built with (pool/step.h), by a file that it shares with the test: it counts
 * there how often it has passed each, and is killed at the one that is ordered. The file is deaths-NAME in $HOME, NAME the
 * process's; without one nothing becomes of it.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "pool/step.h"

#define NAME_BYTES 40
#define MOST_STEPS 250

/* As test_deaths.py has it. */
struct deaths {
	char ordered[NAME_BYTES];
	_Atomic uint64_t passes; /* of that step, until the process is killed there; 0: it is not */
	_Atomic uint64_t died_ns;
	struct {
		char name[NAME_BYTES];
		_Atomic uint64_t passed; /* of all processes of that name */
	} step[MOST_STEPS];
};

static struct deaths *deaths;

/* The linker's names for the ends of the section of steps. */
extern struct weft_step __start_weft_steps[], __stop_weft_steps[];

static unsigned long number_of(const char *name)
{
	for (unsigned long i = 0; i < MOST_STEPS; i++) {
		if (!deaths->step[i].name[0])
			strncpy(deaths->step[i].name, name, NAME_BYTES - 1);
		if (!strcmp(deaths->step[i].name, name))
			return i;
	}
	abort();
}

/* Each process of the name numbers the same steps in the same order. */
__attribute__((constructor)) static void open_deaths(void)
{
	const char *home = getenv("HOME");
	char path[4096];
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s/deaths-%s", home ? home : "",
		 program_invocation_short_name);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	at = mmap(NULL, sizeof(*deaths), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return;
	deaths = at;
	for (struct weft_step *step = __start_weft_steps; step < __stop_weft_steps; step++)
		step->label = number_of(step->name);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void weft_step(const struct weft_step *step)
{
	if (!deaths)
		return;
	atomic_fetch_add_explicit(&deaths->step[step->label].passed, 1, memory_order_relaxed);
	if (!atomic_load_explicit(&deaths->passes, memory_order_acquire) ||
	    strcmp(deaths->ordered, step->name) != 0 || atomic_fetch_sub(&deaths->passes, 1) != 1)
		return;
	atomic_store(&deaths->died_ns, now_ns());
	kill(getpid(), SIGKILL);
	pause();
}
