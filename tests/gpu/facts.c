/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "facts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define GROUP_SECONDS 60

sigjmp_buf facts_escape;
_Atomic int facts_guarded;
const char *facts_image;
static const char *group_name;

void facts_say(const char *fact, const char *answer)
{
	printf("%s.%s\t%s\n", group_name, fact, answer);
	fflush(stdout);
}

void facts_say_number(const char *fact, long long answer)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", answer);
	facts_say(fact, text);
}

static void on_fault(int signal)
{
	if (facts_guarded)
		siglongjmp(facts_escape, 1);
	_exit(128 + signal);
}

static const struct {
	const char *name;
	void (*ask)(void);
} groups[] = {
	{"before", facts_before_init},
	{"nocontext", facts_no_context},
	{"alloc", facts_alloc},
	{"attributes", facts_attributes},
	{"copies", facts_copies},
	{"register", facts_register},
	{"contexts", facts_contexts},
	{"foreign", facts_foreign},
	{"destroyed", facts_destroyed},
	{"streams", facts_streams},
	{"vmm", facts_vmm},
	{"cpu", facts_cpu},
	{"dmabuf", facts_dmabuf},
	{"ipc", facts_ipc},
	{"fork", facts_fork},
	{"exit", facts_exit},
	{"kernels", facts_kernels},
	{"beside", facts_beside},
	{"held", facts_held},
	{"fault", facts_fault},
	{"sides", facts_sides},
	{"pairs", facts_pairs},
};

static void run_group(unsigned int i)
{
	signal(SIGSEGV, on_fault);
	signal(SIGBUS, on_fault);
	alarm(GROUP_SECONDS);
	group_name = groups[i].name;
	if (!gpu_load()) {
		fputs("facts: no libcuda.so.1\n", stderr);
		_exit(3);
	}
	groups[i].ask();
	exit(0);
}

/* facts MODULE [GROUP…] */
int main(int argc, char **argv)
{
	int failed = 0;

	facts_image = argc > 1 ? argv[1] : "";
	for (unsigned int i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
		bool wanted = argc < 3;
		int status;
		pid_t pid;

		for (int arg = 2; arg < argc; arg++)
			wanted |= !strcmp(argv[arg], groups[i].name);
		if (!wanted)
			continue;
		fflush(stdout);
		pid = fork();
		if (!pid)
			run_group(i);
		waitpid(pid, &status, 0);
		if (status)
			printf("%s\tended with status %#x\n", groups[i].name, status);
		failed |= status != 0;
	}
	return failed;
}
