/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* deny CALL[,CALL...] PROGRAM...: runs PROGRAM where a seccomp filter refuses these system calls, as
 * a container's profile does. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
	const char *name;
	unsigned int number;
} calls[] = {
	{"membarrier", SYS_membarrier},
	{"userfaultfd", SYS_userfaultfd},
	{"process_vm_readv", SYS_process_vm_readv},
	{"process_vm_writev", SYS_process_vm_writev},
};
#define NCALLS (sizeof(calls) / sizeof(calls[0]))

int main(int argc, char **argv)
{
	struct sock_filter code[2 + 2 * NCALLS];
	struct sock_fprog program = {0, code};

	if (argc < 3)
		return 2;
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
							   offsetof(struct seccomp_data, nr));
	for (char *name = strtok(argv[1], ","); name; name = strtok(NULL, ",")) {
		size_t i = 0;

		while (i < NCALLS && strcmp(calls[i].name, name))
			i++;
		if (i == NCALLS || program.len > 2 * NCALLS)
			return 2;
		code[program.len++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
								   calls[i].number, 0, 1);
		code[program.len++] =
			(struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	}
	code[program.len++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
		perror("deny");
		return 125;
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
