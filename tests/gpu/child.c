/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "child.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "gpu.h"

const char *child_said(void (*run)(void), int *status)
{
	static char text[4096];
	size_t len = 0;
	int out[2];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (!pid) {
		dup2(out[1], STDERR_FILENO);
		alarm(30);
		if (!gpu_load())
			_exit(3);
		run();
		exit(0);
	}
	close(out[1]);
	while ((n = read(out[0], text + len, sizeof(text) - 1 - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	close(out[0]);
	assert_int_equal(waitpid(pid, status, 0), pid);
	return text;
}

void child_ok(void (*run)(void))
{
	int status;
	const char *text = child_said(run, &status);

	if (status || strstr(text, "left behind"))
		print_error("status %#x: %s", status, text);
	assert_int_equal(status, 0);
	assert_null(strstr(text, "left behind"));
}

void child_dies(void (*run)(void), const char *words)
{
	int status;
	const char *text = child_said(run, &status);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
	assert_non_null(strstr(text, words));
}

int child_status(pid_t pid)
{
	int status;

	return waitpid(pid, &status, 0) == pid ? status : -1;
}
