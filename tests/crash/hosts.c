/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "hosts.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "left.h"
#include "pool/format.h"
#include "pool/pool.h"

#define BYTES	   (4ull << 30)
#define CLEAN_NS   20000000000ull
#define SLEEP_NS   1000000
#define MOST_HOSTS 4u

bool hosts_make(struct world *world, uint32_t hosts, uint32_t silence_ms, bool atomics)
{
	const char *why;

	world->hosts = hosts;
	/* of three of four hosts one never comes */
	return !weft_pool_create(world->pool, hosts == 3 ? 4 : hosts, BYTES, silence_ms,
				 atomics ? WEFT_POOL_ATOMICS : 0, &why);
}

void hosts_end(struct world *world)
{
	const char *why;

	weft_pool_remove(world->pool, &why);
}

uint32_t hosts_seats(const struct world *world, uint64_t *seed, bool few)
{
	return world->hosts * (2 + (few ? 0 : (uint32_t)draw(seed, PROCESSES / world->hosts - 1)));
}

uint32_t hosts_draw(const struct world *world, uint64_t *seed)
{
	return world->hosts ? (uint32_t)draw(seed, world->hosts) : 0;
}

void hosts_plan(struct world *world, uint64_t *seed, bool calm)
{
	uint64_t what = draw(seed, 4), doom_ns = now_ns() + 1000000 * (50 + draw(seed, 200));
	uint32_t host = hosts_draw(world, seed);

	world->stands = !calm && what == 1 ? host + 1 : 0;
	for (uint32_t i = 0; i < world->processes; i++) {
		struct process *process = &world->process[i];

		process->host = i % world->hosts;
		if (calm || what > 1 || process->host != host)
			continue;
		process->order = (struct order){.signal = world->stands ? SIGSTOP : SIGKILL};
		process->doom_ns = doom_ns;
	}
}

void hosts_delete_home(const struct world *world, uint32_t host)
{
	struct weft_pool_header header = {.magic = 0};
	int fd = open(world->pool + strlen("shm:"), O_RDONLY | O_CLOEXEC);
	char home[64];

	if (pread(fd, &header, sizeof(header), 0) != sizeof(header))
		abort();
	close(fd);
	snprintf(home, sizeof(home), "/dev/shm/weft-%016jx-%u", (uintmax_t)header.pool_id, host);
	unlink(home);
}

/* ---- Cleaning up ---- */

static _Noreturn void be_agent(const struct world *world, uint32_t host)
{
	char number[16], where[PATH_MAX];
	struct weft_pool *pool;
	const char *why;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	snprintf(number, sizeof(number), "%u", host);
	setenv("WEFT_HOST", number, 1);
	if (weft_pool_get(world->pool, &pool, where, &why)) {
		fprintf(stderr, "%s: host %u: %s\n", where, host, why);
		_exit(1);
	}
	while (!atomic_load(&world->ends)) {
		weft_pool_sleep(pool, SLEEP_NS);
		weft_pool_watch(pool);
	}
	weft_pool_put(pool);
	_exit(0);
}

bool hosts_clean_up(struct world *world, char *what, size_t bytes)
{
	uint64_t limit = now_ns() + CLEAN_NS;
	pid_t agent[MOST_HOSTS];
	bool clean = true, left;
	int status;

	atomic_store(&world->ends, false);
	for (uint32_t i = 0; i < world->hosts; i++) {
		agent[i] = fork();
		if (!agent[i])
			be_agent(world, i);
	}
	while ((left = left_in_hosts(world->pool, 1, what, bytes)) && now_ns() < limit)
		nap(20 * SLEEP_NS);
	atomic_store(&world->ends, true);
	for (uint32_t i = 0; i < world->hosts; i++)
		clean &= waitpid(agent[i], &status, 0) == agent[i] && !status;
	if (!clean)
		snprintf(what, bytes, "an agent has failed");
	return !left && clean && !left_in_hosts(world->pool, 0, what, bytes);
}
