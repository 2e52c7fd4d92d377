/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define SCRIPTS_MAX 4 /* an interpreter that is a script itself, and so on: the kernel's limit */

/* One element of PATH, up to a colon or the end; the empty one is the current folder. */
static bool join_path(const char *element, size_t len, const char *name, char out[PATH_MAX])
{
	int n = snprintf(out, PATH_MAX, "%.*s%s%s", (int)len, element, len ? "/" : "", name);

	return n < PATH_MAX;
}

static enum weft_program_fit judge_file(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return errno == EACCES ? WEFT_PROGRAM_NOT_EXECUTABLE : WEFT_PROGRAM_MISSING;
	if (!S_ISREG(st.st_mode) || eaccess(path, X_OK))
		return WEFT_PROGRAM_NOT_EXECUTABLE;
	return WEFT_PROGRAM_FITS;
}

static enum weft_program_fit search(const char *name, char path[PATH_MAX])
{
	const char *element = getenv("PATH") ?: "/bin:/usr/bin";
	enum weft_program_fit fit, best = WEFT_PROGRAM_MISSING;
	char candidate[PATH_MAX];
	size_t len;

	snprintf(path, PATH_MAX, "%s", name);
	if (!*name || strchr(name, '/'))
		return judge_file(name);
	for (;; element += len + 1) {
		len = strcspn(element, ":");
		/* as the shell: what is in a folder that we may not look into is not there */
		fit = join_path(element, len, name, candidate) && !access(candidate, F_OK)
			      ? judge_file(candidate)
			      : WEFT_PROGRAM_MISSING;
		if (fit == WEFT_PROGRAM_FITS ||
		    (fit == WEFT_PROGRAM_NOT_EXECUTABLE && best == WEFT_PROGRAM_MISSING)) {
			memcpy(path, candidate, PATH_MAX);
			best = fit;
		}
		if (fit == WEFT_PROGRAM_FITS || !element[len])
			return best;
	}
}

/* Whether exec would change ids or capabilities; root has nothing to gain from the latter. */
static bool gains_rights(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return false;
	return (st.st_mode & S_ISUID && st.st_uid != geteuid()) ||
	       ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) &&
		st.st_gid != getegid()) ||
	       (geteuid() && fgetxattr(fd, "security.capability", NULL, 0) > 0);
}

/* The loader that the file names, in name; false when it names none. */
static bool read_loader(int fd, const ElfW(Ehdr) * elf, char name[PATH_MAX])
{
	for (unsigned int i = 0; i < elf->e_phnum; i++) {
		ElfW(Phdr) segment;
		off_t at = (off_t)(elf->e_phoff + (ElfW(Off))i * elf->e_phentsize);

		if (pread(fd, &segment, sizeof(segment), at) != sizeof(segment))
			return true;
		if (segment.p_type == PT_INTERP) {
			ssize_t n = pread(fd, name, PATH_MAX - 1, (off_t)segment.p_offset);

			name[n < 0 ? 0 : n] = '\0';
			return true;
		}
	}
	return false;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static enum weft_program_fit judge_elf(int fd, const char *path, const ElfW(Ehdr) * elf)
{
	ElfW(Ehdr) self;
	char loader[PATH_MAX] = "";
	int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	bool known = own >= 0 && pread(own, &self, sizeof(self), 0) == sizeof(self);

	if (own >= 0)
		close(own);
	if (known &&
	    (elf->e_ident[EI_CLASS] != self.e_ident[EI_CLASS] || elf->e_machine != self.e_machine))
		return WEFT_PROGRAM_FOREIGN;
	/* The loader itself may be called as a program; it names no other. */
	if (!read_loader(fd, elf, loader))
		return strncmp(base_of(path), "ld-linux", 8) ? WEFT_PROGRAM_STATIC
							     : WEFT_PROGRAM_FITS;
	return strncmp(base_of(loader), "ld-musl", 7) ? WEFT_PROGRAM_FITS : WEFT_PROGRAM_FOREIGN;
}

/* The interpreter in a script's first line, cut out in place. */
static char *interpreter(char *line)
{
	line += 2 + strspn(line + 2, " \t");
	line[strcspn(line, " \t\n")] = '\0';
	return line;
}

enum weft_program_fit weft_program_find(const char *name, char path[PATH_MAX])
{
	enum weft_program_fit fit = search(name, path);

	for (int depth = 0; fit == WEFT_PROGRAM_FITS && depth <= SCRIPTS_MAX; depth++) {
		_Alignas(ElfW(Ehdr)) char head[256] = "";
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		bool gains = fd >= 0 && gains_rights(fd);
		ssize_t n = fd >= 0 ? pread(fd, head, sizeof(head) - 1, 0) : 0;

		if (n >= (ssize_t)sizeof(ElfW(Ehdr)) && !memcmp(head, ELFMAG, SELFMAG))
			fit = gains ? WEFT_PROGRAM_SETUID
				    : judge_elf(fd, path, (const ElfW(Ehdr) *)head);
		if (fd >= 0)
			close(fd);
		if (n < 2 || memcmp(head, "#!", 2))
			return fit;
		snprintf(path, PATH_MAX, "%s", interpreter(head));
		fit = judge_file(path);
	}
	return fit;
}

const char *weft_program_fit_str(enum weft_program_fit fit)
{
	switch (fit) {
	case WEFT_PROGRAM_FITS:
		return "can run over Weft";
	case WEFT_PROGRAM_MISSING:
		return "is not there";
	case WEFT_PROGRAM_NOT_EXECUTABLE:
		return "is not an executable file";
	case WEFT_PROGRAM_STATIC:
		return "is statically linked, so that no libraries of Weft can come in: link it "
		       "dynamically; if it only starts other programs, use "
		       "`eval \"$(weft env)\"` before it";
	case WEFT_PROGRAM_SETUID:
		return "gains rights when it starts (setuid, setgid or file capabilities), and the "
		       "loader then ignores LD_PRELOAD: run it as the user who owns it, or a copy "
		       "without these bits";
	case WEFT_PROGRAM_FOREIGN:
		return "is built for another machine, word size or libc than Weft: run a build for "
		       "this machine's glibc";
	}
	return "";
}
