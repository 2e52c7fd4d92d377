/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "migrate/migratable.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "migrate/pins.h"

#define PAGE		4096ul
#define PAGE_DOWN(addr) ((addr) & ~(PAGE - 1))
#define PAGE_UP(addr)	PAGE_DOWN((addr) + PAGE - 1)

/* glibc's thread descriptor is smaller than this. */
#define DESCRIPTOR_MAX 4096ul
/* glibc's heaps of threads start at multiples of this; the first one of an arena holds it. */
#define HEAP_ALIGN     (64ul << 20)
#define HEAP_INFO_SIZE 128ul

/* The loaded objects as of the loader's count of changes. */
static struct {
	unsigned long long adds, subs;
	struct weft_runs data; /* .data and .bss of each */
	bool driver;	       /* one that pins pages */
	int err;
} objects;

static weft_driver_pins_fn *driver_pins;

static int append_run(struct weft_runs *runs, uintptr_t start, uintptr_t end)
{
	if (runs->count && runs->run[runs->count - 1].end == start) {
		runs->run[runs->count - 1].end = end;
		return 0;
	}
	if (runs->count == runs->room) {
		size_t room = runs->room ? 2 * runs->room : 8;
		struct weft_run *run = realloc(runs->run, room * sizeof(*run));

		if (!run)
			return -ENOMEM;
		runs->run = run;
		runs->room = room;
	}
	runs->run[runs->count++] = (struct weft_run){start, end};
	return 0;
}

/* Takes [start, end), rounded outwards to pages, out of the runs. */
static int subtract(struct weft_runs *runs, uintptr_t start, uintptr_t end)
{
	struct weft_runs rest = {0};
	int err = 0;

	start = PAGE_DOWN(start);
	end = PAGE_UP(end);
	for (size_t i = 0; i < runs->count && !err; i++) {
		struct weft_run run = runs->run[i];

		if (run.end <= start || run.start >= end) {
			err = append_run(&rest, run.start, run.end);
			continue;
		}
		if (run.start < start)
			err = append_run(&rest, run.start, start);
		if (run.end > end && !err)
			err = append_run(&rest, end, run.end);
	}
	free(runs->run);
	*runs = rest;
	return err;
}

static bool overlaps(const struct weft_runs *runs, uintptr_t start, uintptr_t end)
{
	for (size_t i = 0; i < runs->count; i++) {
		if (runs->run[i].start < end && start < runs->run[i].end)
			return true;
	}
	return false;
}

static int note_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	const char *name = strrchr(info->dlpi_name, '/');

	if (!strncmp(name ? name + 1 : info->dlpi_name, "libcuda.so", 10))
		objects.driver = true;
	for (int i = 0; i < info->dlpi_phnum && !objects.err; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_LOAD && segment->p_flags & PF_W)
			objects.err = append_run(&objects.data, start, start + segment->p_memsz);
	}
	return objects.err;
}

static int note_changes(struct dl_phdr_info *info, size_t size, void *changed)
{
	*(bool *)changed = info->dlpi_adds != objects.adds || info->dlpi_subs != objects.subs;
	objects.adds = info->dlpi_adds;
	objects.subs = info->dlpi_subs;
	return 1;
}

/* Not dlopen(RTLD_NOLOAD), whose lock a thread that is just loading us may hold. */
static void see_objects(void)
{
	bool changed = false;

	dl_iterate_phdr(note_changes, &changed);
	if (!changed && !objects.err)
		return;
	objects.data.count = 0;
	objects.driver = false;
	objects.err = 0;
	dl_iterate_phdr(note_object, NULL);
}

void weft_migratable_ask(weft_driver_pins_fn *fn)
{
	driver_pins = fn;
}

/* As of the last look at the objects. */
static bool driver_tells(void)
{
	return !objects.driver || driver_pins;
}

bool weft_migratable_now(void)
{
	see_objects();
	return !objects.err && driver_tells() && !weft_pins_any();
}

bool weft_migratable_back(void)
{
	see_objects();
	return driver_tells() && !weft_pins_any();
}

bool weft_migratable_is_pinned(uintptr_t start, uintptr_t end)
{
	struct weft_run pinned;

	return objects.driver && driver_pins(start, end, &pinned);
}

unsigned int weft_migratable_threads(void)
{
	struct stat task;

	if (stat("/proc/self/task", &task) || task.st_nlink < 3)
		return 0;
	return task.st_nlink - 2;
}

/* The thread's list of robust mutexes begins inside glibc's descriptor of the thread; 0: no such
 * thread. */
static uintptr_t robust_list(pid_t tid)
{
	uintptr_t head = 0;
	size_t len;

	return syscall(SYS_get_robust_list, tid, &head, &len) ? 0 : head;
}

/* glibc's descriptor of a thread around that list's head: more would be the memory behind a stack. */
static struct weft_run descriptor_at(uintptr_t head)
{
	static size_t before, rest; /* the same for all */

	if (!rest) {
		const uint32_t *size = dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread");

		before = robust_list(0) - (uintptr_t)pthread_self();
		rest = size && before < *size ? *size - before : DESCRIPTOR_MAX;
	}
	return (struct weft_run){head - before, head + rest};
}

/* Static thread-local storage lies beside the main thread's descriptor, in an ordinary mapping. Not a page
 * more: what was mapped later lies there, too. */
static struct weft_run with_static_tls(struct weft_run descriptor)
{
	void (*get_info)(size_t * size, size_t * align) =
		(void (*)(size_t *, size_t *))dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info");
	size_t size = 64 << 10, align;

	if (get_info)
		get_info(&size, &align);
#if defined(__x86_64__)
	/* below it, and the size is that of both */
	return (struct weft_run){descriptor.end - size, descriptor.end};
#else
	return (struct weft_run){descriptor.start - size, descriptor.end + size};
#endif
}

/* A thread's descriptor stands at the top of its stack, whose bottom is the mapping's: below is
 * the guard. */
static int subtract_thread(struct weft_runs *runs, const struct weft_vma *vma, pid_t tid)
{
	uintptr_t head = robust_list(tid);
	struct weft_run stays;

	if (head < vma->start || head >= vma->end)
		return 0;
	stays = descriptor_at(head);
	if (tid == getpid())
		stays = with_static_tls(stays);
	else
		stays.start = vma->start;
	return subtract(runs, stays.start, stays.end);
}

static int subtract_threads(struct weft_runs *runs, const struct weft_vma *vma)
{
	struct dirent *entry;
	int err = 0;
	DIR *dir;

	if (weft_migratable_threads() == 1)
		return subtract_thread(runs, vma, getpid());
	dir = opendir("/proc/self/task");
	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			err = subtract_thread(runs, vma, atoi(entry->d_name));
	}
	closedir(dir);
	return err;
}

/* A forked child resets the arenas before any handler of ours could give it the page back. */
static int subtract_arenas(struct weft_runs *runs, const struct weft_vma *vma)
{
	uintptr_t heap = (vma->start + HEAP_ALIGN - 1) & ~(HEAP_ALIGN - 1);
	int err = 0;

	for (; heap < vma->end && !err; heap += HEAP_ALIGN) {
		uintptr_t arena;

		if (!overlaps(runs, heap, heap + PAGE))
			continue;
		arena = *(const uintptr_t *)heap;
		if (arena > heap && arena < heap + HEAP_INFO_SIZE)
			err = subtract(runs, heap, heap + PAGE);
	}
	return err;
}

/* Takes out of the runs what must stay of one anonymous mapping. */
static int subtract_stays(struct weft_runs *runs, const struct weft_vma *vma)
{
	uintptr_t main_stack = getauxval(AT_EXECFN);
	int err = subtract_threads(runs, vma);

	for (size_t i = 0; i < objects.data.count && !err; i++) {
		struct weft_run data = objects.data.run[i];

		if (overlaps(runs, PAGE_DOWN(data.start), PAGE_UP(data.end)))
			err = subtract(runs, data.start, data.end);
	}
	if (!err && main_stack >= vma->start && main_stack < vma->end)
		err = subtract(runs, vma->start, vma->end);
	/* a stack of the program's own making that we run on */
	if (!err && overlaps(runs, (uintptr_t)&err, (uintptr_t)&err + 1))
		err = subtract(runs, vma->start, vma->end);
	return err ? err : subtract_arenas(runs, vma);
}

/* What the driver has pinned of [start, end), and of the page at either end. */
static int subtract_pinned(struct weft_runs *runs, uintptr_t start, uintptr_t end)
{
	struct weft_run pinned;
	int err = 0;

	for (uintptr_t at = start;
	     !err && at < end && objects.driver && driver_pins(at, end, &pinned); at = pinned.end)
		err = subtract(runs, pinned.start, pinned.end);
	return err;
}

static bool kind_migrates(const struct weft_vma *vma)
{
	/* code made at run time stays: the pool may be mounted noexec */
	return weft_vma_is_anonymous(vma) && vma->prot == (PROT_READ | PROT_WRITE);
}

int weft_migratable_runs(struct weft_vma_walk *walk, uintptr_t start, uintptr_t end,
			 struct weft_runs *runs)
{
	struct weft_vma vma;
	int err = 0;

	*runs = (struct weft_runs){0};
	for (uintptr_t at = start; at < end && !err; at = vma.end) {
		struct weft_runs part = {0};

		err = weft_vma_next(walk, at, &vma);
		if (err || vma.start >= end)
			break;
		if (!kind_migrates(&vma))
			continue;
		err = append_run(&part, vma.start > start ? vma.start : start,
				 vma.end < end ? vma.end : end);
		if (!err)
			err = subtract_pinned(&part, part.run[0].start, part.run[0].end);
		if (!err)
			err = subtract_stays(&part, &vma);
		for (size_t i = 0; i < part.count && !err; i++)
			err = append_run(runs, part.run[i].start, part.run[i].end);
		free(part.run);
	}
	if (err == -ENOENT)
		return 0;
	if (err) {
		free(runs->run);
		*runs = (struct weft_runs){0};
	}
	return err;
}
