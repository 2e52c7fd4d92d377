/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "fate.h"

#include <ctype.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/step.h"

static int left; /* how many steps before this process is killed; 0: it is not */
static const char *awaited;
static int how;

void fate_begin(const char *which)
{
	bool is_number = which && isdigit((unsigned char)*which);

	left = is_number ? atoi(which) : 0;
	how = which && *which == '-' ? SIGKILL : SIGSTOP;
	awaited = is_number ? NULL : which && *which == '-' ? which + 1 : which;
}

static void end_in(const char *name, int signal)
{
	dprintf(STDOUT_FILENO, "%s\n", name);
	kill(getpid(), signal);
}

void weft_step(const struct weft_step *step)
{
	if (awaited && !strcmp(step->name, awaited)) {
		awaited = NULL;
		end_in(step->name, how);
	} else if (left && !--left) {
		end_in(step->name, SIGKILL);
	}
}
