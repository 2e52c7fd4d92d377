/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEED "1"

static void fail(const char *what)
{
	perror(what);
	abort();
}

void card_start(struct card_process *card, const char *part_bytes, const char *fate)
{
	int in[2], out[2];
	char ready[6];

	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		fail("pipe");
	card->pid = fork();
	if (!card->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(CARD, CARD, SEED, part_bytes, fate, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	card->in = in[1];
	card->out = out[0];
	if (read(card->out, ready, sizeof(ready)) != sizeof(ready))
		fail(CARD);
}

void card_said(struct card_process *card, char *what, size_t bytes)
{
	ssize_t n = read(card->out, what, bytes - 1);

	what[n > 0 ? n : 0] = 0;
	what[strcspn(what, "\n")] = 0;
}

static bool has_changed(struct card_process *card, int flags)
{
	return card->pid && waitpid(card->pid, &card->status, flags) == card->pid;
}

bool card_has_died(struct card_process *card, char *step, size_t bytes)
{
	if (!has_changed(card, WNOHANG))
		return !card->pid;
	card->pid = 0;
	card_said(card, step, bytes);
	return true;
}

bool card_has_stopped(struct card_process *card)
{
	return has_changed(card, WNOHANG | WUNTRACED) && WIFSTOPPED(card->status);
}

int card_end(struct card_process *card)
{
	close(card->in);
	if (has_changed(card, 0))
		card->pid = 0;
	close(card->out);
	return WIFSIGNALED(card->status) ? WTERMSIG(card->status) : WEXITSTATUS(card->status);
}
