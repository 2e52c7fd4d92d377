/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "process/card.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pool/address.h"
#include "pool/clock.h"
#include "pool/format_member.h"
#include "pool/slice.h"
#include "process/gids.h"
#include "process/node.h"
#include "process/process.h"

#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif

#define PATIENCE_NS 3000000000ull /* on a full machine a card that starts has little of a core */
#define AGAIN_NS    1000000000ull /* between two tries that have failed */
#define LOOK_MS	    2
#define STACK_BYTES 65536u
#define LINGER_S    "60"

/* All that the two processes between the program and the card use; they share its memory, and call nothing but the
 * kernel. */
struct start {
	char path[PATH_MAX], address[INET6_ADDRSTRLEN];
	char pool[PATH_MAX + 16], home[PATH_MAX + 8];
	char *argv[4], *envp[3];
	pid_t card;
	uint8_t stack[2][STACK_BYTES] __attribute__((aligned(64)));
};

/* ---- Is one wanted? ---- */

bool weft_card_is_refused(void)
{
	static const char *const words[] = {"off", "no", "0"};
	const char *value = getenv("WEFT_NIC");
	uint8_t at[3];

	for (size_t i = 0; value && i < sizeof(words) / sizeof(*words); i++)
		if (!strcasecmp(value, words[i]))
			return !weft_node_here(at);
	return false;
}

bool weft_card_is_off(void)
{
	uint8_t at[3];

	return weft_card_is_refused() || weft_node_here(at);
}

static bool is_of_host(const uint8_t gid[16])
{
	struct weft_gid_entry all[WEFT_GID_TABLE_LEN];

	return weft_gid_find(all, weft_gids_get_all(all), gid);
}

static bool is_of_pool(const uint8_t gid[16])
{
	struct weft_pool *pool = weft_process.pool;
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++)
		if ((m = weft_pool_member(pool, i)) && weft_member_has_gid(m, gid))
			return true;
	return false;
}

bool weft_card_is_ours(const struct weft_pool_member *m)
{
	return m->net_ns == weft_process.pool->self->net_ns &&
	       atomic_load_explicit(&m->card.reach, memory_order_acquire) == WEFT_CARD_BEYOND;
}

/* One that has died stays a member until it is recovered from. */
static bool has_not_died(uint16_t i, const struct weft_pool_member *m)
{
	return weft_pool_alive(weft_process.pool, i,
			       atomic_load_explicit(&m->incarnation, memory_order_acquire));
}

bool weft_card_with(const uint8_t sgid[16], uint16_t *member)
{
	struct weft_pool *pool = weft_process.pool;
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++)
		if (weft_is_near(pool, i) && (m = weft_pool_member(pool, i)) &&
		    weft_card_is_ours(m) && weft_card_plays(&m->card, sgid) && has_not_died(i, m)) {
			*member = i;
			return true;
		}
	return false;
}

static bool has_own_card(const uint8_t sgid[16])
{
	uint16_t member;

	return weft_card_with(sgid, &member);
}

static bool has_way(const uint8_t sgid[16], const uint8_t dgid[16])
{
	return is_of_pool(dgid) || has_own_card(sgid);
}

/* ---- Starting it ---- */

static int become_card(void *argument)
{
	struct start *s = argument;
	const struct sigaction usual = {.sa_handler = SIG_DFL}, ignored = {.sa_handler = SIG_IGN};
	cpu_set_t any;
	sigset_t none;
	int null;

	for (int i = 1; i < NSIG; i++)
		sigaction(i, &usual, NULL);
	sigaction(SIGHUP, &ignored, NULL);
	sigemptyset(&none);
	setpgid(0, 0); /* in this session, as by weft nic up (cli/nic.c) */
	/* first, as the program may have all that it can */
	syscall(SYS_close_range, STDERR_FILENO + 1, ~0u, 0);
	null = open("/dev/null", O_RDWR);
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	if (null > STDERR_FILENO)
		close(null);
	/* It serves other programs, too: bound to the core of one that polls, it would wait for its turn there. */
	memset(&any, 0xff, sizeof(any));
	sched_setaffinity(0, sizeof(any), &any);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execve(s->path, s->argv, s->envp);
	_exit(127);
}

static int stand_between(void *argument)
{
	struct start *s = argument;

	s->card = clone(become_card, s->stack[1] + STACK_BYTES, CLONE_VM | CLONE_VFORK, s);
	_exit(0);
}

/* With no signal at its end the first process is none that the program waits for, nor hears of. */
static void start_it(struct start *s)
{
	sigset_t all, before;
	int cancel;
	pid_t pid;

	sigfillset(&all);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = clone(stand_between, s->stack[0] + STACK_BYTES, CLONE_VM | CLONE_VFORK, s);
	if (pid > 0)
		waitpid(pid, NULL, __WCLONE);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_setcancelstate(cancel, &cancel);
}

/* It lies beside this library. */
static bool find_program(struct start *s)
{
	static const char name[] = "weftd";
	Dl_info self;
	char *slash;

	if (!dladdr(&weft_process, &self) || !realpath(self.dli_fname, s->path))
		return false;
	slash = strrchr(s->path, '/');
	if (!slash || (size_t)(slash + 1 - s->path) + sizeof(name) > sizeof(s->path))
		return false;
	memcpy(slash + 1, name, sizeof(name));
	return !access(s->path, X_OK);
}

static bool describe_start(struct start *s, const uint8_t sgid[16])
{
	const char *home = getenv("HOME"), *pool = getenv("WEFT_POOL");
	unsigned int n = 0;

	if (!find_program(s))
		return false;
	weft_gid_print(sgid, s->address);
	s->argv[0] = s->path;
	s->argv[1] = s->address;
	s->argv[2] = LINGER_S;
	if (pool && snprintf(s->pool, sizeof(s->pool), "WEFT_POOL=%s", pool) < (int)sizeof(s->pool))
		s->envp[n++] = s->pool;
	if (home && snprintf(s->home, sizeof(s->home), "HOME=%s", home) < (int)sizeof(s->home))
		s->envp[n++] = s->home;
	return true;
}

/* Fifty programs that need a card at once would start fifty, and so leave none of them a core: one starts it, as long as it has
 * this name in the network namespace, which ends with it. False: another has it. A program that cannot have a socket (-1) starts a
 * card all the same, as the port of the card decides in the end. */
static bool claim_start(const char *address, int *claim)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "weft-card-%s", address);
	bool is_taken;

	*claim = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (*claim < 0 ||
	    !bind(*claim, (struct sockaddr *)&name,
		  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)n))
		return true;
	is_taken = errno == EADDRINUSE;
	close(*claim);
	*claim = -1;
	return !is_taken;
}

static void release_start(int claim)
{
	if (claim >= 0)
		close(claim);
}

/* Whether a card is on its way: that which this program has started lives, or another program waits for one. end: a descriptor of the
 * card's process, or -1. */
static bool is_coming(const struct start *s, int end)
{
	struct pollfd card = {.fd = end, .events = POLLIN};
	int claim;

	if (poll(&card, 1, LOOK_MS))
		return false;
	if (s->card > 0)
		return end >= 0 || !kill(s->card, 0);
	if (!claim_start(s->address, &claim))
		return true;
	release_start(claim);
	return false;
}

static void start_and_wait(const uint8_t sgid[16], const uint8_t dgid[16])
{
	struct start *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t begun_ns = weft_clock_now_ns();
	int claim, end = -1;

	if (s == MAP_FAILED)
		return;
	if (describe_start(s, sgid)) {
		if (claim_start(s->address, &claim)) {
			start_it(s);
			end = s->card > 0 ? (int)syscall(SYS_pidfd_open, s->card, 0) : -1;
		}
		while (!has_way(sgid, dgid) && weft_clock_now_ns() - begun_ns < PATIENCE_NS &&
		       is_coming(s, end))
			;
		if (end >= 0)
			close(end);
		release_start(claim);
	}
	munmap(s, sizeof(*s));
}

static void summon(const uint8_t sgid[16], const uint8_t dgid[16])
{
	static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	static uint64_t failed_ns; /* when it last did; 0: never */

	pthread_mutex_lock(&mutex);
	if (!has_way(sgid, dgid) && (!failed_ns || weft_clock_now_ns() - failed_ns > AGAIN_NS)) {
		start_and_wait(sgid, dgid);
		failed_ns = has_way(sgid, dgid) ? 0 : weft_clock_now_ns();
	}
	pthread_mutex_unlock(&mutex);
}

/* Whether a card carries what goes there. */
static bool is_beyond(const uint8_t sgid[16], const uint8_t dgid[16])
{
	return !weft_card_is_refused() && !is_of_pool(dgid) && has_own_card(sgid);
}

bool weft_card_is_wanted(const uint8_t sgid[16], const uint8_t dgid[16])
{
	return !is_of_pool(dgid) && !weft_card_is_off() && !weft_address_is_loopback(sgid) &&
	       !weft_address_is_any(dgid) && !is_of_host(dgid);
}

bool weft_card_summon(const uint8_t sgid[16], const uint8_t dgid[16])
{
	if (!has_way(sgid, dgid) && weft_card_is_wanted(sgid, dgid))
		summon(sgid, dgid);
	return is_beyond(sgid, dgid);
}
