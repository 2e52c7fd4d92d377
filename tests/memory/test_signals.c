/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Where stores are held back by SIGSEGV, the program's own handlers and deaths are as they would be without
 * Weft. Each case runs in a child. Threads that block SIGSEGV are not killed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "memfd_source.h"

#define PAGE 4096ul

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *memory, *forbidden;
static int calls;
static void *fault_at;
static sigjmp_buf back;
static struct sigaction previous;

static void *sleeper(void *arg)
{
	pthread_mutex_lock(&lock);
	return arg;
}

static void start_thread(void)
{
	pthread_t thread;

	pthread_mutex_lock(&lock);
	if (pthread_create(&thread, NULL, sleeper, NULL))
		_exit(100);
}

static void migrate_once(void)
{
	struct weft_region region;

	if (weft_region_acquire(memory, 4 * PAGE, WEFT_REGION_MIGRATE | WEFT_REGION_WRITE, &region))
		_exit(101);
	if (region.pieces[0].off == WEFT_IN_PLACE)
		_exit(102);
	weft_region_release(&region);
}

static void make_accessible(int signal, siginfo_t *info, void *context)
{
	calls++;
	fault_at = info->si_addr;
	mprotect(forbidden, PAGE, PROT_READ | PROT_WRITE);
}

static void jump(int signal)
{
	calls++;
	siglongjmp(back, 1);
}

static void call_previous(int signal, siginfo_t *info, void *context)
{
	calls++;
	previous.sa_sigaction(signal, info, context);
}

static void install(void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigaction(SIGSEGV, &action, &previous);
}

static void store_to_nowhere(void)
{
	*(_Atomic int *)(uintptr_t)PAGE = 1;
}

/* The cases. Each must end with status 0; those whose names begin with dies_ by SIGSEGV. */

static void dies_of_a_fault(void)
{
	migrate_once();
	store_to_nowhere();
}

static void dies_of_a_forbidden_page(void)
{
	migrate_once();
	*(_Atomic uint8_t *)forbidden = 1;
}

static void dies_of_kill(void)
{
	migrate_once();
	kill(getpid(), SIGSEGV);
	pause();
}

static void dies_although_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	migrate_once();
	kill(getpid(), SIGSEGV);
	store_to_nowhere();
}

static void dies_in_a_circle(void)
{
	migrate_once();
	install(call_previous);
	migrate_once();
	install(call_previous);
	migrate_once();
	store_to_nowhere();
}

static void runs_the_earlier_handler(void)
{
	install(make_accessible);
	for (int i = 1; i <= 3; i++) {
		migrate_once();
		mprotect(forbidden, PAGE, PROT_NONE);
		*(_Atomic uint8_t *)(forbidden + 8) = 1;
		if (calls != i || fault_at != forbidden + 8)
			_exit(1);
	}
}

static void runs_the_later_handler(void)
{
	migrate_once();
	install(make_accessible);
	*(_Atomic uint8_t *)(forbidden + 8) = 1;
	migrate_once();
	mprotect(forbidden, PAGE, PROT_NONE);
	*(_Atomic uint8_t *)(forbidden + 8) = 1;
	if (calls != 2)
		_exit(1);
}

static void jump_out_once(void)
{
	migrate_once();
	if (!sigsetjmp(back, 1))
		store_to_nowhere();
}

static void jumps_out(void)
{
	signal(SIGSEGV, jump);
	for (int i = 1; i <= 3; i++) {
		jump_out_once();
		if (calls != i)
			_exit(1);
	}
}

static void handles_once(void)
{
	struct sigaction action = {.sa_handler = jump, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGSEGV, &action, NULL);
	jump_out_once();
	if (calls != 1)
		_exit(1);
}

/* Weft's handler calls both of the program's, the one from before it last. */
static void runs_all_in_a_row(void)
{
	install(make_accessible);
	migrate_once();
	install(call_previous);
	for (int i = 1; i <= 5; i++) {
		migrate_once();
		mprotect(forbidden, PAGE, PROT_NONE);
		*(_Atomic uint8_t *)forbidden = 1;
		if (calls != 2 * i)
			_exit(1);
	}
}

static _Atomic bool blocked, stop;

static void *blocks_segv(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	atomic_store(&blocked, true);
	while (!atomic_load(&stop))
		atomic_fetch_add((_Atomic uint64_t *)memory, 1);
	return NULL;
}

static _Atomic bool looking;

static void *looks_away(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	atomic_store(&looking, true);
	while (!atomic_load(&stop)) {
		usleep(50);
		atomic_fetch_add((_Atomic uint64_t *)memory + 1, 1);
	}
	return NULL;
}

/* Protected pages would kill threads that block SIGSEGV: both are parked, the one that sleeps, too. */
static void migrates_what_a_deaf_thread_may_touch(void)
{
	pthread_t busy, sleepy;

	if (pthread_create(&busy, NULL, blocks_segv, NULL) ||
	    pthread_create(&sleepy, NULL, looks_away, NULL))
		_exit(100);
	while (!atomic_load(&blocked) || !atomic_load(&looking))
		;
	for (int i = 0; i < 1000; i++)
		migrate_once();
	atomic_store(&stop, true);
	pthread_join(busy, NULL);
	pthread_join(sleepy, NULL);
	migrate_once();
}

static int run(void (*fn)(void))
{
	const struct rlimit no_core = {0, 0};
	int status = -1;
	pid_t pid = fork();

	if (!pid) {
		setrlimit(RLIMIT_CORE, &no_core);
		signal(SIGSEGV, SIG_DFL); /* in place of cmocka's handler */
		memfd_source_attach();
		memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			      -1, 0);
		forbidden = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		start_thread();
		alarm(20);
		fn();
		exit(0); /* exit() writes the counts of coverage */
	}
	waitpid(pid, &status, 0);
	return status;
}

static void test_deaths(void **state)
{
	static void (*const cases[])(void) = {
		dies_of_a_fault,       dies_of_a_forbidden_page, dies_of_kill,
		dies_although_ignored, dies_in_a_circle,
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status = run(cases[i]);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSEGV);
	}
}

static void test_handlers(void **state)
{
	static void (*const cases[])(void) = {
		runs_the_earlier_handler,
		runs_the_later_handler,
		jumps_out,
		handles_once,
		runs_all_in_a_row,
		migrates_what_a_deaf_thread_may_touch,
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(run(cases[i]), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deaths),
		cmocka_unit_test(test_handlers),
	};

	setenv("WEFT_MIGRATE", "segv", 1);
	return cmocka_run_group_tests_name("signals", tests, NULL, NULL);
}
