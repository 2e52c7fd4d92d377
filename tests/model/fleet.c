/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The conductor's processes, and the pool that they share. */
#include "fleet.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOOK_NS	   100000000u
#define PATH_BYTES 80
#define CARD_MS	   20000 /* longer than a card waits for anything */

static void *pages(size_t bytes, int kind)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static void pool_path(const struct fleet *f, char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s/pool", f->folder);
}

static bool make_folder(struct fleet *f)
{
	char path[PATH_BYTES];

	strcpy(f->folder, "/dev/shm/weft-model-XXXXXX");
	if (!mkdtemp(f->folder)) {
		perror(f->folder);
		f->folder[0] = 0;
		return false;
	}
	pool_path(f, path);
	return !setenv("WEFT_POOL", path, 1);
}

static void remove_folder(struct fleet *f)
{
	char path[PATH_BYTES];

	if (!f->folder[0])
		return;
	pool_path(f, path);
	unlink(path);
	rmdir(f->folder);
	f->folder[0] = 0;
}

bool fleet_open(struct fleet *f)
{
	f->board = pages(sizeof(*f->board), MAP_SHARED);
	if (!f->board)
		return false;
	f->board->arena = pages(ARENA_BYTES, MAP_PRIVATE);
	f->board->patience_ns = 5000000000u;
	return f->board->arena && make_folder(f);
}

static bool start(struct fleet *f, int process)
{
	struct desk *desk = &f->board->desk[process];

	atomic_store(&desk->asked, 0);
	atomic_store(&desk->answered, 0);
	fflush(NULL);
	f->pid[process] = fork();
	if (!f->pid[process])
		worker_run(f->board, process);
	return f->pid[process] > 0;
}

/* ---- The card ---- */

static bool start_card(struct fleet *f)
{
	int in[2], out[2];
	char seed[24], ready[6];

	if (!f->card_program)
		return true;
	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)f->tally.steps);
	if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
		return false;
	fflush(NULL);
	f->card = fork();
	if (!f->card) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		execl(f->card_program, f->card_program, seed, NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	f->card_in = in[1];
	f->card_out = out[0];
	return f->card > 0 && read(f->card_out, ready, sizeof(ready)) == sizeof(ready);
}

static void end_card(struct fleet *f)
{
	if (f->card <= 0)
		return;
	kill(f->card, SIGKILL);
	waitpid(f->card, NULL, 0);
	close(f->card_in);
	close(f->card_out);
	f->card = 0;
}

bool fleet_settle(struct fleet *f, char *why, size_t why_bytes)
{
	struct pollfd answer = {.fd = f->card_out, .events = POLLIN};
	char letter = '?';

	if (f->card <= 0)
		return true;
	if (write(f->card_in, &letter, 1) == 1 && poll(&answer, 1, CARD_MS) == 1 &&
	    read(f->card_out, &letter, 1) == 1)
		return true;
	snprintf(why, why_bytes, "the card hangs, or has died");
	return false;
}

/* ---- All processes ---- */

static void end_all(struct fleet *f)
{
	end_card(f);
	for (int p = 0; p < PROCESSES; p++)
		if (f->pid[p] > 0)
			kill(f->pid[p], SIGKILL);
	for (int p = 0; p < PROCESSES; p++) {
		if (f->pid[p] > 0)
			waitpid(f->pid[p], NULL, 0);
		f->pid[p] = 0;
	}
}

void fleet_renew(struct fleet *f)
{
	f->played = 0;
	end_all(f);
	remove_folder(f);
	if (!make_folder(f) || !start_card(f))
		exit(1);
}

void fleet_close(struct fleet *f)
{
	end_all(f);
	remove_folder(f);
	munmap(f->board->arena, ARENA_BYTES);
	munmap(f->board, sizeof(*f->board));
}

bool fleet_man(struct fleet *f, int processes)
{
	for (int p = 0; p < processes; p++)
		if (f->pid[p] <= 0 && !start(f, p))
			return false;
	return true;
}

void fleet_ask(struct fleet *f, int process)
{
	struct desk *desk = &f->board->desk[process];

	/* release: pairs with the acquire in worker_run */
	atomic_fetch_add_explicit(&desk->asked, 1, memory_order_release);
	board_wake(&desk->asked);
}

static bool has_ended(struct fleet *f, int process, char *why, size_t why_bytes)
{
	int status;

	if (waitpid(f->pid[process], &status, WNOHANG) != f->pid[process])
		return false;
	f->pid[process] = 0;
	if (WIFSIGNALED(status))
		snprintf(why, why_bytes, "process %d died of signal %d", process, WTERMSIG(status));
	else
		snprintf(why, why_bytes, "process %d exited with %d", process, WEXITSTATUS(status));
	return true;
}

bool fleet_await(struct fleet *f, int process, char *why, size_t why_bytes)
{
	struct desk *desk = &f->board->desk[process];
	uint32_t turn = atomic_load_explicit(&desk->asked, memory_order_relaxed), now;

	/* longer than a worker waits for anything */
	for (uint64_t looks = 0; looks * LOOK_NS < 4 * f->board->patience_ns; looks++) {
		/* acquire: pairs with the release in worker_run */
		now = atomic_load_explicit(&desk->answered, memory_order_acquire);
		if (now == turn)
			return true;
		board_sleep(&desk->answered, now, LOOK_NS);
		if (looks && has_ended(f, process, why, why_bytes))
			return false;
	}
	snprintf(why, why_bytes, "process %d hangs", process);
	return false;
}
