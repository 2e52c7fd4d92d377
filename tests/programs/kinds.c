/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registers memory of every kind that programs have, prints a line for each (name, key), and sleeps
 * until it is killed. */
#include "end.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096ul
#define MIB  (1024ul * 1024)

static char bss[16 * PAGE];
static char data[16 * PAGE] = {1};

static void show(struct end *end, const char *name, void *at, size_t bytes)
{
	struct ibv_mr *mr =
		ibv_reg_mr(end->pd, at, bytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

	end_require(mr, name);
	printf("%s %u\n", name, mr->rkey);
}

static void show_mapping(struct end *end, const char *name, int flags, int fd, int advice)
{
	void *memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, flags, fd, 0);

	end_require(memory != MAP_FAILED, name);
	madvise(memory, 4 * MIB, advice);
	show(end, name, memory, 4 * MIB);
}

static void *show_stack(void *end)
{
	static _Thread_local char local[4 * PAGE];
	char stack[16 * PAGE];

	show(end, "thread-stack", stack, sizeof(stack));
	show(end, "thread-local", local, sizeof(local));
	printf("ready\n");
	fflush(stdout);
	pause();
	return NULL;
}

int main(void)
{
	FILE *file = tmpfile();
	char stack[16 * PAGE];
	pthread_t thread;
	struct end end;

	end_open(&end, PAGE, false);
	show(&end, "malloc-64", malloc(64), 64);
	show(&end, "malloc-1M", malloc(MIB), MIB);
	show(&end, "malloc-1G", malloc(1024 * MIB), 1024 * MIB);
	show_mapping(&end, "mmap", MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_NORMAL);
	show_mapping(&end, "huge-pages", MAP_PRIVATE | MAP_ANONYMOUS, -1, MADV_HUGEPAGE);
	show_mapping(&end, "shared", MAP_SHARED | MAP_ANONYMOUS, -1, MADV_NORMAL);
	end_require(file && !ftruncate(fileno(file), 4 * MIB), "tmpfile");
	show_mapping(&end, "file", MAP_SHARED, fileno(file), MADV_NORMAL);
	show_mapping(&end, "private-file", MAP_PRIVATE, fileno(file), MADV_NORMAL);
	show(&end, "bss", bss, sizeof(bss));
	show(&end, "data", data, sizeof(data));
	show(&end, "stack", stack, sizeof(stack));
	end_require(!pthread_create(&thread, NULL, show_stack, &end), "pthread_create");
	pthread_join(thread, NULL);
	return 1;
}
