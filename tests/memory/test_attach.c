/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A debugger attaches to a program whose memory migrates, and is read into, all the time: to thread after
 * thread, as gdb does, and gdb itself. None of that takes long. Arguments: how often by ptrace in each way,
 * and how often by gdb in all.
 */
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "memfd_source.h"
#include "ways.h"

#define BYTES	     (64ul << 10)
#define READERS	     2
#define MOST	     16 /* threads, at most */
#define MOST_SECONDS 5

static struct {
	unsigned long by_ptrace, by_gdb;
} wanted;

static uint8_t *memory;
static atomic_bool failed;

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

/* ---- The program ---- */

static void *read_on(void *arg)
{
	FILE *zero = fopen("/dev/zero", "re");

	while (read(fileno(zero), memory, BYTES) > 0) /* a signal may cut a read short */
		;
	printf("a read failed: %m\n");
	atomic_store(&failed, true);
	return NULL;
}

static void *store_on(void *arg)
{
	for (;;)
		atomic_fetch_add((_Atomic uint64_t *)(memory + BYTES / 2), 1);
	return NULL;
}

/* ---- The debugger ---- */

static double slowest;
static pid_t stopped[MOST];
static unsigned int count;

static void hung(pid_t pid, const char *what)
{
	printf("%s took longer than %d s\n", what, MOST_SECONDS);
	kill(pid, SIGKILL);
	exit(1);
}

/* Waits until the thread stops for the debugger, without waitpid's blocking, which could last for ever. A
 * thread that stops for another signal first gets that, as from any debugger: otherwise the debugger's own
 * SIGSTOP would stay pending until it has detached, and stop the process for good. */
static void await_stop(pid_t pid, pid_t tid, double begun)
{
	int status;

	for (;;) {
		if (waitpid(tid, &status, __WALL | WNOHANG) == tid) {
			if (!WIFSTOPPED(status) || WSTOPSIG(status) == SIGSTOP)
				return;
			ptrace(PTRACE_CONT, tid, NULL, WSTOPSIG(status));
		}
		if (now() - begun > MOST_SECONDS)
			hung(pid, "attaching by ptrace");
		usleep(20);
	}
}

static void attach_to_all(pid_t pid)
{
	double begun = now();
	struct dirent *entry;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while ((entry = readdir(dir)) && count < MOST) {
		pid_t tid = atoi(entry->d_name);

		if (tid <= 0 || ptrace(PTRACE_ATTACH, tid, NULL, NULL))
			continue;
		await_stop(pid, tid, begun);
		stopped[count++] = tid;
	}
	closedir(dir);
	if (now() - begun > slowest)
		slowest = now() - begun;
}

static void detach_all(void)
{
	while (count)
		ptrace(PTRACE_DETACH, stopped[--count], NULL, NULL);
}

static void by_gdb(pid_t pid)
{
	char line[128];
	double begun = now();

	snprintf(line, sizeof(line),
		 "timeout -s KILL %d gdb -nx -batch -p %d -ex 'thread apply all backtrace 1' "
		 ">/dev/null 2>&1",
		 4 * MOST_SECONDS, pid);
	/* gdb itself takes half a second to start, more on a busy machine */
	if (system(line) || now() - begun > 4 * MOST_SECONDS)
		hung(pid, "gdb");
}

static int debug(pid_t pid)
{
	unsigned long attached = 0, gdbs = 0;

	while (attached < wanted.by_ptrace) {
		attach_to_all(pid);
		if (!count) {
			printf("ptrace is not allowed here\n");
			return 0;
		}
		attached += count;
		detach_all();
		usleep(500);
	}
	for (; gdbs < wanted.by_gdb && !system("gdb --version >/dev/null 2>&1"); gdbs++)
		by_gdb(pid);
	printf("%lu attached, the slowest took %.1f ms for all threads; %lu times gdb%s\n",
	       attached, slowest * 1e3, gdbs,
	       gdbs < wanted.by_gdb ? ", which is not installed" : "");
	return 0;
}

static int migrate_on(void *unused)
{
	pid_t self = getpid(), debugger;
	pthread_t thread;
	int status;

	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	debugger = fork();
	if (!debugger)
		exit(debug(self));
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	for (int i = 0; i < READERS; i++)
		pthread_create(&thread, NULL, read_on, NULL);
	pthread_create(&thread, NULL, store_on, NULL);
	while (!waitpid(debugger, &status, WNOHANG)) {
		struct weft_region region;

		if (weft_region_acquire(memory, BYTES, WEFT_REGION_MIGRATE, &region))
			return 1;
		weft_region_release(&region);
	}
	return status || atomic_load(&failed);
}

int main(int argc, char **argv)
{
	unsigned int count_ways = 0;
	int failures = 0;

	for (size_t i = 0; i < nways; i++)
		count_ways += !ways[i].undumpable;
	if (!count_ways)
		return 1;
	wanted.by_ptrace = argc > 1 ? strtoul(argv[1], NULL, 0) : 1000;
	wanted.by_gdb = (argc > 2 ? strtoul(argv[2], NULL, 0) : 20) / count_ways;
	for (size_t i = 0; i < nways; i++) {
		/* a program that has changed its user cannot be attached to by a debugger of its own user */
		if (!ways[i].undumpable)
			failures += !way_run(&ways[i], migrate_on, NULL);
	}
	return failures != 0;
}
