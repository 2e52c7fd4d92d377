/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Threads sleep in system calls, each in another one, while memory is registered and deregistered: no call
 * fails with EINTR because of that, none ends before its time, none sleeps for more than twice its time, and
 * those without a time end when a signal is sent to the thread. Argument: for how many milliseconds in each
 * way of migrating.
 */
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "memfd_source.h"
#include "ways.h"

#define PAGE		 4096ul
#define LEN		 (16 * PAGE)
#define TIME_MS		 40
#define SLACK_MS	 700 /* what a thread may wait for a core on a busy machine */
#define LEAST_MIGRATIONS 50
#define HANG_S		 60
/* A program that waits for a signal that it has not blocked may miss it on any system: between two sleeps.
 * Here the signal may also come in the microsecond before a call is made again. */
#define MISSED_MOST   1

#define ENDED_IN_TIME 0 /* any other outcome is an errno */

static int pair[2], epfd, queue, semaphores;
static sem_t nobody_posts;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t nobody_signals = PTHREAD_COND_INITIALIZER;
static sigset_t usr2;

static int outcome(int result)
{
	return result < 0 ? errno : ENDED_IN_TIME;
}

static struct timespec from_now(clockid_t clock)
{
	struct timespec ts;

	clock_gettime(clock, &ts);
	ts.tv_nsec += TIME_MS * 1000000l;
	ts.tv_sec += ts.tv_nsec / 1000000000l;
	ts.tv_nsec %= 1000000000l;
	return ts;
}

/* ---- Calls with a time. ENDED_IN_TIME is what each returns when that is over ---- */

static const struct timespec time_spec = {.tv_nsec = TIME_MS * 1000000l};

static int for_epoll(void)
{
	struct epoll_event event;

	return outcome(epoll_wait(epfd, &event, 1, TIME_MS));
}

static int for_epoll_masked(void)
{
	struct epoll_event event;

	return outcome(epoll_pwait(epfd, &event, 1, TIME_MS, &usr2));
}

static int for_poll(void)
{
	struct pollfd fd = {.fd = pair[0], .events = POLLIN};

	return outcome(poll(&fd, 1, TIME_MS));
}

static int for_ppoll(void)
{
	struct pollfd fd = {.fd = pair[0], .events = POLLIN};

	return outcome(ppoll(&fd, 1, &time_spec, &usr2));
}

static int for_select(void)
{
	struct timeval time = {.tv_usec = TIME_MS * 1000};
	fd_set set;

	FD_ZERO(&set);
	FD_SET(pair[0], &set);
	return outcome(select(pair[0] + 1, &set, NULL, NULL, &time));
}

static int for_pselect(void)
{
	return outcome(pselect(0, NULL, NULL, NULL, &time_spec, &usr2));
}

static int for_nanosleep(void)
{
	return outcome(nanosleep(&time_spec, NULL));
}

static int for_nanosleep_left(void)
{
	struct timespec left;

	return outcome(nanosleep(&time_spec, &left));
}

static int for_nanosleep_until(void)
{
	const struct timespec until = from_now(CLOCK_MONOTONIC);

	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

static int for_usleep(void)
{
	return outcome(usleep(TIME_MS * 1000));
}

static int for_semaphore(void)
{
	const struct timespec until = from_now(CLOCK_REALTIME);
	int err = outcome(sem_timedwait(&nobody_posts, &until));

	return err == ETIMEDOUT ? ENDED_IN_TIME : err;
}

static int for_condition(void)
{
	const struct timespec until = from_now(CLOCK_REALTIME);
	int err;

	pthread_mutex_lock(&mutex);
	err = pthread_cond_timedwait(&nobody_signals, &mutex, &until);
	pthread_mutex_unlock(&mutex);
	/* zero is a wake-up without a cause */
	return err == ETIMEDOUT ? ENDED_IN_TIME : err ? err : ECANCELED;
}

static int for_futex(void)
{
	uint32_t word = 0;
	int err =
		outcome((int)syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time_spec, NULL, 0));

	return err == ETIMEDOUT ? ENDED_IN_TIME : err;
}

static int for_a_signal(void)
{
	int err = outcome(sigtimedwait(&usr2, NULL, &time_spec));

	return err == EAGAIN ? ENDED_IN_TIME : err;
}

static int for_sysv_semaphore(void)
{
	struct sembuf take = {.sem_op = -1};
	int err = outcome(semtimedop(semaphores, &take, 1, &time_spec));

	return err == EAGAIN ? ENDED_IN_TIME : err;
}

/* ---- Calls without a time: only a signal ends them ---- */

static int on_epoll(void)
{
	struct epoll_event event;

	return outcome(epoll_wait(epfd, &event, 1, -1));
}

static int on_poll(void)
{
	struct pollfd fd = {.fd = pair[0], .events = POLLIN};

	return outcome(poll(&fd, 1, -1));
}

static int on_select(void)
{
	return outcome(select(0, NULL, NULL, NULL, NULL));
}

static int on_pause(void)
{
	return outcome(pause());
}

static int on_sigsuspend(void)
{
	sigset_t none;

	sigemptyset(&none);
	return outcome(sigsuspend(&none));
}

static int on_semaphore(void)
{
	return outcome(sem_wait(&nobody_posts));
}

static int on_socket(void)
{
	char byte;

	return outcome((int)recv(pair[0], &byte, 1, 0));
}

static int on_message(void)
{
	struct {
		long type;
		char text[8];
	} message;

	return outcome((int)msgrcv(queue, &message, sizeof(message.text), 0, 0));
}

static int on_sysv_semaphore(void)
{
	struct sembuf take = {.sem_op = -1};

	return outcome(semop(semaphores, &take, 1));
}

static int on_a_signal(void)
{
	return outcome(sigwaitinfo(&usr2, NULL));
}

/* The timeout is the socket's own. It begins anew with each migration, so how long the call takes in all is
 * not looked at. */
static int on_socket_for_a_time(void)
{
	static int fds[2];
	const struct timeval day = {.tv_sec = 86400};
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) ||
	    setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &day, sizeof(day)))
		return errno;
	return outcome((int)recv(fds[0], &byte, 1, 0));
}

#define SLEEP(fn, timed)                                                                           \
	{                                                                                          \
#fn, fn, timed                                                                     \
	}

static struct sleep {
	const char *name;
	int (*fn)(void);
	bool timed;
	/* a call by syscall(2), whose instructions do not tell which call it is: it ends with EINTR if the
	 * thread was not asleep yet when it was stopped, or if the kernel does not say in which call it is */
	bool may_be_interrupted;
	pthread_t thread;
	_Atomic bool ended;
	/* of those with a time only */
	unsigned long sleeps, interrupted, early, late;
	int failure; /* any other error */
} sleeps[] = {
	SLEEP(for_epoll, true),
	SLEEP(for_epoll_masked, true),
	SLEEP(for_poll, true),
	SLEEP(for_ppoll, true),
	SLEEP(for_select, true),
	SLEEP(for_pselect, true),
	SLEEP(for_nanosleep, true),
	SLEEP(for_nanosleep_left, true),
	SLEEP(for_nanosleep_until, true),
	SLEEP(for_usleep, true),
	SLEEP(for_semaphore, true),
	SLEEP(for_condition, true),
	{"for_futex", for_futex, true, .may_be_interrupted = true},
	SLEEP(for_a_signal, true),
	SLEEP(for_sysv_semaphore, true),
	SLEEP(on_epoll, false),
	SLEEP(on_poll, false),
	SLEEP(on_select, false),
	SLEEP(on_pause, false),
	SLEEP(on_sigsuspend, false),
	SLEEP(on_semaphore, false),
	SLEEP(on_socket, false),
	SLEEP(on_message, false),
	SLEEP(on_sysv_semaphore, false),
	SLEEP(on_a_signal, false),
	SLEEP(on_socket_for_a_time, false),
};
#define COUNT (sizeof(sleeps) / sizeof(sleeps[0]))

static atomic_bool stop, called;

static long long now_us(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000ll + ts.tv_nsec / 1000;
}

static void sleep_for_a_time(struct sleep *sleep)
{
	while (!atomic_load(&stop)) {
		long long began = now_us(), took_us;
		int err = sleep->fn();

		took_us = now_us() - began;
		sleep->sleeps++;
		sleep->interrupted += err == EINTR;
		sleep->early += !err && took_us < (TIME_MS - 1) * 1000ll;
		sleep->late += took_us > (2 * TIME_MS + SLACK_MS) * 1000ll;
		if (err && err != EINTR)
			sleep->failure = err;
	}
}

static void *sleep_on(void *arg)
{
	struct sleep *sleep = arg;

	if (sleep->timed) {
		sleep_for_a_time(sleep);
	} else {
		sleep->failure = sleep->fn();
		sleep->early = !atomic_load(&called);
	}
	atomic_store(&sleep->ended, true);
	return NULL;
}

static void *migrate_on(void *count)
{
	uint8_t *memory =
		mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	while (!atomic_load(&stop)) {
		struct weft_region region;

		if (weft_region_acquire(memory, LEN, WEFT_REGION_MIGRATE, &region))
			abort();
		*(unsigned long *)count += region.pieces[0].off == WEFT_IN_PLACE ? 0 : 2;
		weft_region_release(&region);
	}
	return NULL;
}

static void on_signal(int signal)
{
}

/* Ends each call that has no time by one signal, while memory goes on migrating. A thread that has missed it
 * gets another. */
static unsigned int end_all(void)
{
	unsigned int missed = 0;

	atomic_store(&called, true);
	for (size_t i = 0; i < COUNT; i++) {
		long long until = now_us() + SLACK_MS * 1000;

		if (sleeps[i].timed)
			continue;
		pthread_kill(sleeps[i].thread, SIGUSR1);
		while (!atomic_load(&sleeps[i].ended)) {
			usleep(1000);
			if (now_us() < until)
				continue;
			missed++;
			until += SLACK_MS * 1000;
			printf("(%s has missed a signal) ", sleeps[i].name);
			pthread_kill(sleeps[i].thread, SIGUSR1);
		}
	}
	return missed;
}

static unsigned int judge(const struct sleep *sleep)
{
	int wanted = sleep->timed ? ENDED_IN_TIME : EINTR;
	bool wrong = (sleep->interrupted && !sleep->may_be_interrupted) || sleep->early ||
		     sleep->late || sleep->failure != wanted || (sleep->timed && !sleep->sleeps);

	if (wrong)
		printf("\n%s: %lu sleeps, %lu EINTR, %lu early, %lu late, errno %d\n", sleep->name,
		       sleep->sleeps, sleep->interrupted, sleep->early, sleep->late,
		       sleep->failure);
	return wrong;
}

static void prepare(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct sigaction action = {.sa_handler = on_signal};

	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&usr2);
	sigaddset(&usr2, SIGUSR2);
	sem_init(&nobody_posts, 0, 0);
	epfd = epoll_create1(0);
	queue = msgget(IPC_PRIVATE, 0600);
	semaphores = semget(IPC_PRIVATE, 1, 0600);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) || epfd < 0 || queue < 0 || semaphores < 0 ||
	    epoll_ctl(epfd, EPOLL_CTL_ADD, pair[0], &event)) {
		perror("preparing");
		exit(1);
	}
}

static int race(void *ms)
{
	unsigned long migrations = 0, slept = 0;
	unsigned int wrong = 0, missed;
	pthread_t migrator;

	alarm(HANG_S);
	prepare();
	for (size_t i = 0; i < COUNT; i++)
		pthread_create(&sleeps[i].thread, NULL, sleep_on, &sleeps[i]);
	usleep(TIME_MS * 1000); /* all of them are asleep then */
	pthread_create(&migrator, NULL, migrate_on, &migrations);
	usleep(*(useconds_t *)ms * 1000);
	missed = end_all();
	atomic_store(&stop, true);
	pthread_join(migrator, NULL);
	for (size_t i = 0; i < COUNT; i++) {
		pthread_join(sleeps[i].thread, NULL);
		slept += sleeps[i].sleeps;
		wrong += judge(&sleeps[i]);
	}
	msgctl(queue, IPC_RMID, NULL);
	semctl(semaphores, 0, IPC_RMID);
	printf("%lu migrations, %lu sleeps with a time, %u wrong, %u signals missed\n", migrations,
	       slept, wrong, missed);
	return wrong || missed > MISSED_MOST || migrations < LEAST_MIGRATIONS;
}

int main(int argc, char **argv)
{
	useconds_t ms = argc > 1 ? (useconds_t)atoi(argv[1]) : 2000;
	int failures = 0;

	for (size_t i = 0; i < nways; i++)
		failures += !way_run(&ways[i], race, &ms);
	return failures != 0;
}
