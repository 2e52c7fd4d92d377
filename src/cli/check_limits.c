/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/checkup.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <sys/resource.h>

#include "pool/pool.h"

#define MIB	       ((uint64_t)1 << 20)
#define LITTLE_MIB     256u   /* less is a note: a few buffers fill it */
#define HARDLY_ANY_MIB 16u    /* less is a problem: the tables and rings of one program fill it */
#define PROGRAM_MIB    1024u  /* of addresses, beside the pool's */
#define MAPPINGS       65530u /* the kernel's default */

static void check_cpus(struct weft_checkup *c)
{
	char finding[64];
	cpu_set_t cpus;
	int n = sched_getaffinity(0, sizeof(cpus), &cpus) ? 0 : CPU_COUNT(&cpus);

	/* a mask that does not fit in cpu_set_t has many */
	if (n != 1) {
		snprintf(finding, sizeof(finding), n ? "%d" : "more than %d", n ?: CPU_SETSIZE);
		weft_checkup_say(c, "cpus", WEFT_VERDICT_OK, finding, NULL);
		return;
	}
	weft_checkup_say(c, "cpus", WEFT_VERDICT_NOTE,
			 "1: programs that poll take it from each other",
			 "give the container or virtual machine two CPUs, or let programs sleep on "
			 "events (-e in perftest)");
}

static void check_cgroup(struct weft_checkup *c)
{
	uint64_t room = weft_pool_head_room();
	char finding[96];

	if (room == UINT64_MAX) {
		weft_checkup_say(c, "cgroup", WEFT_VERDICT_OK, "no limit of memory", NULL);
		return;
	}
	snprintf(finding, sizeof(finding), "%" PRIu64 " MiB of memory left below the limit",
		 room / MIB);
	if (room >= LITTLE_MIB * MIB)
		weft_checkup_say(c, "cgroup", WEFT_VERDICT_OK, finding, NULL);
	else
		weft_checkup_say(c, "cgroup",
				 room < HARDLY_ANY_MIB * MIB ? WEFT_VERDICT_PROBLEM
							     : WEFT_VERDICT_NOTE,
				 finding,
				 "raise the container's memory limit; registered memory beyond it "
				 "stays out of the pool");
}

static void check_rlimit(struct weft_checkup *c, const char *check, int resource,
			 uint64_t needed_mib, const char *what, const char *remedy)
{
	struct rlimit limit;
	char finding[160];

	if (getrlimit(resource, &limit) || limit.rlim_cur == RLIM_INFINITY) {
		weft_checkup_say(c, check, WEFT_VERDICT_OK, "no limit", NULL);
		return;
	}
	snprintf(finding, sizeof(finding), "limited to %" PRIu64 " MiB; %s %" PRIu64 " MiB",
		 (uint64_t)limit.rlim_cur / MIB, what, needed_mib);
	if (limit.rlim_cur / MIB >= needed_mib)
		weft_checkup_say(c, check, WEFT_VERDICT_OK, finding, NULL);
	else
		weft_checkup_say(c, check, WEFT_VERDICT_PROBLEM, finding, remedy);
}

static void check_mappings(struct weft_checkup *c)
{
	FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
	unsigned int count = 0;
	char finding[96];

	if (!f || fscanf(f, "%u", &count) != 1)
		count = MAPPINGS;
	if (f)
		fclose(f);
	snprintf(finding, sizeof(finding), "%u a process", count);
	if (count >= MAPPINGS)
		weft_checkup_say(c, "mappings", WEFT_VERDICT_OK, finding, NULL);
	else
		weft_checkup_say(c, "mappings", WEFT_VERDICT_NOTE, finding,
				 "sysctl vm.max_map_count=65530 or more: with many memory regions, "
				 "those beyond it stay out of the pool");
}

void weft_check_limits(struct weft_checkup *c)
{
	uint64_t pool_mib = weft_pool_new_bytes() / MIB;

	check_cpus(c);
	check_cgroup(c);
	check_rlimit(c, "address_space", RLIMIT_AS, pool_mib + PROGRAM_MIB,
		     "a program and its view of a pool, which is addresses and no memory, need",
		     "ulimit -v unlimited");
	check_rlimit(c, "file_size", RLIMIT_FSIZE, pool_mib,
		     "a pool is a file, nearly all of it a hole, of", "ulimit -f unlimited");
	check_mappings(c);
}
