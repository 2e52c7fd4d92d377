/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which libraries a program gets: the loader itself is asked, by its --list, which resolves what
 * the program needs in the environment of `weft run` and runs nothing of it. So whatever decides is
 * taken into account: LD_PRELOAD, DT_RPATH, DT_RUNPATH, copies under other names.
 */
#include "cli/checkup.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/delivery.h"
#include "cli/program.h"

#define TEXT (2 * PATH_MAX + 256)

/* Of this program, so of the libc that ours are made for. */
static int find_loader(struct dl_phdr_info *info, size_t size, void *arg)
{
	for (int i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_INTERP)
			*(const char **)arg =
				(const char *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	return 1; /* the first one is the program */
}

static int set_quietly(const char *name, const char *value)
{
	return setenv(name, value, 1);
}

static void become_loader(const struct weft_delivery *d, const char *path, int out)
{
	const char *loader = NULL;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	dl_iterate_phdr(find_loader, &loader);
	dup2(null, 0);
	dup2(out, 1);
	dup2(out, 2);
	unsetenv("LD_DEBUG");
	if (loader && !weft_delivery_each(d, NULL, set_quietly))
		execl(loader, loader, "--list", path, (char *)NULL);
	_exit(127);
}

/* A stream of what the loader says about the file; NULL with errno. */
static FILE *list_libraries(const struct weft_delivery *d, const char *path, pid_t *pid)
{
	int end[2];

	if (pipe2(end, O_CLOEXEC))
		return NULL;
	fflush(stdout);
	*pid = fork();
	if (!*pid)
		become_loader(d, path, end[1]);
	close(end[1]);
	if (*pid < 0) {
		close(end[0]);
		return NULL;
	}
	return fdopen(end[0], "r");
}

static bool is_named(const char *path, const char *start)
{
	const char *slash = strrchr(path, '/');

	return !strncmp(slash ? slash + 1 : path, start, strlen(start));
}

/* Of a line "\tNAME => PATH (0xADDRESS)" or "\tPATH (0xADDRESS)": the path, cut out in place. */
static char *path_in(char *line)
{
	char *arrow = strstr(line, " => "), *path = arrow ? arrow + 4 : line + 1, *end;

	if (*line != '\t')
		return NULL;
	end = strstr(path, " (0x");
	if (!end)
		return NULL;
	*end = '\0';
	return path;
}

struct libraries {
	bool ours;	    /* libibverbs of Weft came in */
	bool asan;	    /* and the runtime of the address sanitizer */
	char foreign[TEXT]; /* one that is not; or empty */
	char missing[TEXT]; /* what the loader complains about */
};

static void read_libraries(FILE *from, const char *libs, struct libraries *found)
{
	char line[TEXT], real[PATH_MAX];

	while (fgets(line, sizeof(line), from)) {
		char *path;

		line[strcspn(line, "\n")] = '\0';
		if (strstr(line, "not found") || strstr(line, "cannot be preloaded") ||
		    strstr(line, "error while loading")) {
			if (!*found->missing)
				snprintf(found->missing, sizeof(found->missing), "%s",
					 line + strspn(line, "\t "));
			continue;
		}
		path = path_in(line);
		found->asan |=
			path && (is_named(path, "libasan.") || is_named(path, "libclang_rt.asan"));
		if (!path || (!is_named(path, "libibverbs") && !is_named(path, "librdmacm")))
			continue;
		if (realpath(path, real) && !strncmp(real, libs, strlen(libs)) &&
		    real[strlen(libs)] == '/')
			found->ours |= is_named(path, "libibverbs");
		else
			snprintf(found->foreign, sizeof(found->foreign), "%s", path);
	}
}

/* file: what the loader is asked about; name: what the user calls it. */
static void check_libraries(struct weft_checkup *c, const char *check,
			    const struct weft_delivery *d, const char *file, const char *name)
{
	struct libraries found = {.ours = false};
	char finding[2 * TEXT];
	pid_t pid;
	FILE *list = list_libraries(d, file, &pid);

	if (!list) {
		weft_checkup_say(c, check, WEFT_VERDICT_PROBLEM, strerror(errno),
				 "free memory, or raise the limit of processes");
		return;
	}
	read_libraries(list, d->libs, &found);
	fclose(list);
	waitpid(pid, NULL, 0);
	if (*found.foreign) {
		snprintf(finding, sizeof(finding), "%s gets %s", name, found.foreign);
		weft_checkup_say(c, check, WEFT_VERDICT_PROBLEM, finding,
				 "take that library out of LD_PRELOAD, or link the program with "
				 "libibverbs.so.1 of the system instead of a copy");
	} else if (*found.missing || !found.ours) {
		snprintf(finding, sizeof(finding), "%s: %s", name,
			 *found.missing ? found.missing : "libibverbs does not come in");
		weft_checkup_say(c, check, WEFT_VERDICT_PROBLEM, finding,
				 "install what is missing, or build Weft for this system");
	} else {
		snprintf(finding, sizeof(finding), "%s gets libibverbs.so.1 of %s", name, d->libs);
		weft_checkup_say(c, check, WEFT_VERDICT_OK, finding, NULL);
	}
	if (!found.asan)
		return;
	snprintf(finding, sizeof(finding),
		 "%s has the runtime of AddressSanitizer, which starts behind Weft's "
		 "libraries by verify_asan_link_order=0 in ASAN_OPTIONS",
		 name);
	weft_checkup_say(c, "sanitizer", WEFT_VERDICT_OK, finding, NULL);
}

static void check_named(struct weft_checkup *c, const struct weft_delivery *d)
{
	char path[PATH_MAX], finding[TEXT];
	enum weft_program_fit fit = weft_program_find(c->program, path);

	if (fit == WEFT_PROGRAM_FITS) {
		check_libraries(c, "program", d, path, path);
		return;
	}
	snprintf(finding, sizeof(finding), "%s cannot run over Weft", path);
	weft_checkup_say(c, "program", WEFT_VERDICT_PROBLEM, finding, weft_program_fit_str(fit));
}

void weft_check_program(struct weft_checkup *c)
{
	struct weft_delivery d;
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0 || weft_delivery_find(&d)) {
		weft_checkup_say(
			c, "libraries", WEFT_VERDICT_PROBLEM,
			"Weft's own libraries are not there, or the loader cannot take them "
			"from a folder of that name",
			"build or install Weft again, in a folder without colons, "
			"semicolons, $ and % in its name");
		return;
	}
	self[n] = '\0';
	check_libraries(c, "libraries", &d, self, "a program");
	if (c->program)
		check_named(c, &d);
}
