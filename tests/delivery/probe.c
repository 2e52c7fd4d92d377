/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Calls one function that the path shim interposes, and prints what it returned, so that a test can compare
 * runs with the shim and without it.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define UNTOUCHED EL2HLT /* an errno that no function sets */

static int base = AT_FDCWD;

static void *function(const char *name)
{
	void *fn = dlsym(RTLD_DEFAULT, name);

	if (!fn) {
		printf("no such function: %s\n", name);
		exit(1);
	}
	return fn;
}

static void fail(void)
{
	printf("%s\n", strerrorname_np(errno));
}

/* A function that succeeds, and changes errno, prints that as well. */
static void note_errno(void)
{
	if (errno != UNTOUCHED)
		printf("(errno %s) ", strerrorname_np(errno));
}

static void print_text(const char *bytes, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++)
		if (bytes[i] == '\n')
			fputs("\\n", stdout);
		else
			putchar(bytes[i]);
	putchar('\n');
}

static void print_file(int fd)
{
	char bytes[4096];
	ssize_t n;
	struct stat st;

	if (fd < 0 || fstat(fd, &st)) {
		fail();
		return;
	}
	note_errno();
	if (S_ISDIR(st.st_mode)) {
		puts("folder");
		return;
	}
	n = read(fd, bytes, sizeof(bytes));
	if (n < 0)
		fail();
	else if (S_ISCHR(st.st_mode))
		puts("device");
	else
		print_text(bytes, n);
}

static void print_stat(int ret, unsigned int mode, unsigned long size, unsigned long ino)
{
	if (!ret)
		note_errno();
	if (ret)
		fail();
	else if (S_ISDIR(mode) || S_ISCHR(mode) || S_ISLNK(mode))
		puts(S_ISDIR(mode) ? "folder" : S_ISCHR(mode) ? "device" : "link");
	else
		printf("file mode %o size %lu inode %lu\n", mode & 07777, size, ino);
}

typedef int open_fn(const char *, int, ...);
typedef int open2_fn(const char *, int);
typedef int openat_fn(int, const char *, int, ...);
typedef int openat2_fn(int, const char *, int);
typedef FILE *fopen_fn(const char *, const char *);
typedef FILE *freopen_fn(const char *, const char *, FILE *);
typedef int stat_fn(const char *, struct stat *);
typedef int fstatat_fn(int, const char *, struct stat *, int);
typedef int xstat_fn(int, const char *, struct stat *);
typedef int fxstatat_fn(int, int, const char *, struct stat *, int);
typedef int access_fn(const char *, int);
typedef int faccessat_fn(int, const char *, int, int);
typedef ssize_t getxattr_fn(const char *, const char *, void *, size_t);
typedef ssize_t readlink_fn(const char *, char *, size_t);
typedef ssize_t readlinkat_fn(int, const char *, char *, size_t);
typedef ssize_t readlink_chk_fn(const char *, char *, size_t, size_t);
typedef ssize_t readlinkat_chk_fn(int, const char *, char *, size_t, size_t);
typedef char *realpath_fn(const char *, char *);
typedef char *realpath_chk_fn(const char *, char *, size_t);
typedef char *canonicalize_fn(const char *);
typedef DIR *opendir_fn(const char *);
typedef int chdir_fn(const char *);
typedef int sort_fn(const struct dirent **, const struct dirent **);
typedef int scandir_fn(const char *, struct dirent ***, int (*)(const struct dirent *), sort_fn *);
typedef int scandirat_fn(int, const char *, struct dirent ***, int (*)(const struct dirent *),
			 sort_fn *);
typedef int glob_fn(const char *, int, int (*)(const char *, int), glob_t *);

static void call_open(void *fn, const char *path)
{
	print_file(((open_fn *)fn)(path, O_RDONLY));
}

static void call_open2(void *fn, const char *path)
{
	print_file(((open2_fn *)fn)(path, O_RDONLY));
}

static void call_openat(void *fn, const char *path)
{
	print_file(((openat_fn *)fn)(base, path, O_RDONLY));
}

static void call_openat2(void *fn, const char *path)
{
	print_file(((openat2_fn *)fn)(base, path, O_RDONLY));
}

static void call_fopen(void *fn, const char *path)
{
	FILE *f = ((fopen_fn *)fn)(path, "re");

	print_file(f ? fileno(f) : -1);
}

static void call_freopen(void *fn, const char *path)
{
	FILE *f = ((freopen_fn *)fn)(path, "r", stdin);

	print_file(f ? fileno(f) : -1);
}

static void call_stat(void *fn, const char *path)
{
	struct stat st;
	int ret = ((stat_fn *)fn)(path, &st);

	print_stat(ret, st.st_mode, (unsigned long)st.st_size, st.st_ino);
}

static void call_fstatat(void *fn, const char *path)
{
	struct stat st;
	int ret = ((fstatat_fn *)fn)(base, path, &st, 0);

	print_stat(ret, st.st_mode, (unsigned long)st.st_size, st.st_ino);
}

static void call_xstat(void *fn, const char *path)
{
	struct stat st;
	int ret = ((xstat_fn *)fn)(1, path, &st);

	print_stat(ret, st.st_mode, (unsigned long)st.st_size, st.st_ino);
}

static void call_fxstatat(void *fn, const char *path)
{
	struct stat st;
	int ret = ((fxstatat_fn *)fn)(1, base, path, &st, 0);

	print_stat(ret, st.st_mode, (unsigned long)st.st_size, st.st_ino);
}

static void call_statx(void *fn, const char *path)
{
	struct statx st;
	int ret = ((__typeof__(&statx))fn)(base, path, 0, STATX_BASIC_STATS, &st);

	print_stat(ret, st.stx_mode, st.stx_size, st.stx_ino);
}

static void print_ok(int ret)
{
	if (!ret)
		note_errno();
	if (ret)
		fail();
	else
		puts("ok");
}

static void call_access(void *fn, const char *path)
{
	print_ok(((access_fn *)fn)(path, R_OK));
}

static void call_faccessat(void *fn, const char *path)
{
	print_ok(((faccessat_fn *)fn)(base, path, R_OK, 0));
}

static void call_getxattr(void *fn, const char *path)
{
	char value[64];

	print_ok(((getxattr_fn *)fn)(path, "user.weft", value, sizeof(value)) < 0);
}

static char buffer[PATH_MAX];

static void print_link(ssize_t n)
{
	if (n < 0)
		fail();
	else
		print_text(buffer, n);
}

static void call_readlink(void *fn, const char *path)
{
	print_link(((readlink_fn *)fn)(path, buffer, sizeof(buffer)));
}

static void call_readlinkat(void *fn, const char *path)
{
	print_link(((readlinkat_fn *)fn)(base, path, buffer, sizeof(buffer)));
}

static void call_readlink_chk(void *fn, const char *path)
{
	print_link(((readlink_chk_fn *)fn)(path, buffer, sizeof(buffer), sizeof(buffer)));
}

static void call_readlinkat_chk(void *fn, const char *path)
{
	print_link(((readlinkat_chk_fn *)fn)(base, path, buffer, sizeof(buffer), sizeof(buffer)));
}

static void print_name(const char *name)
{
	if (name)
		puts(name);
	else
		fail();
}

static void call_realpath(void *fn, const char *path)
{
	char *allocated = ((realpath_fn *)fn)(path, NULL);

	if (allocated && ((realpath_fn *)fn)(path, buffer) != buffer)
		puts("another buffer than the given one");
	else if (allocated && strcmp(allocated, buffer))
		puts("two answers");
	else
		print_name(allocated);
	free(allocated);
}

static void call_realpath_chk(void *fn, const char *path)
{
	print_name(((realpath_chk_fn *)fn)(path, buffer, sizeof(buffer)));
}

static void call_canonicalize(void *fn, const char *path)
{
	print_name(((canonicalize_fn *)fn)(path));
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void print_names(char **names, size_t n)
{
	qsort(names, n, sizeof(*names), by_name);
	for (size_t i = 0; i < n; i++)
		printf("%s ", names[i]);
	puts("");
}

static void call_opendir(void *fn, const char *path)
{
	static char *names[4096];
	size_t n = 0;
	DIR *dir = ((opendir_fn *)fn)(path);
	struct dirent *entry;

	if (!dir) {
		fail();
		return;
	}
	while (n < 4096 && (entry = readdir(dir)))
		if (entry->d_name[0] != '.')
			names[n++] = strdup(entry->d_name);
	closedir(dir);
	print_names(names, n);
}

static int visible(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

static void print_entries(struct dirent **entries, int n)
{
	if (n < 0 || !entries) {
		fail();
		return;
	}
	for (int i = 0; i < n; i++)
		printf("%s ", entries[i]->d_name);
	puts("");
}

static void call_scandir(void *fn, const char *path)
{
	struct dirent **entries = NULL;

	print_entries(entries, ((scandir_fn *)fn)(path, &entries, visible, alphasort));
}

static void call_scandirat(void *fn, const char *path)
{
	struct dirent **entries = NULL;

	print_entries(entries, ((scandirat_fn *)fn)(base, path, &entries, visible, alphasort));
}

static void call_chdir(void *fn, const char *path)
{
	if (((chdir_fn *)fn)(path))
		fail();
	else
		call_opendir(opendir, ".");
}

static void call_glob(void *fn, const char *path)
{
	glob_t found = {0};
	int ret = ((glob_fn *)fn)(path, 0, NULL, &found);

	if (ret)
		puts(ret == GLOB_NOMATCH ? "ENOENT" : "glob failed");
	else
		print_names(found.gl_pathv, found.gl_pathc);
}

static const struct {
	const char *name;
	void (*call)(void *fn, const char *path);
} calls[] = {
	{"open", call_open},
	{"open64", call_open},
	{"openat", call_openat},
	{"openat64", call_openat},
	{"__open_2", call_open2},
	{"__open64_2", call_open2},
	{"__openat_2", call_openat2},
	{"__openat64_2", call_openat2},
	{"fopen", call_fopen},
	{"fopen64", call_fopen},
	{"freopen", call_freopen},
	{"freopen64", call_freopen},
	{"stat", call_stat},
	{"stat64", call_stat},
	{"lstat", call_stat},
	{"lstat64", call_stat},
	{"fstatat", call_fstatat},
	{"fstatat64", call_fstatat},
	{"__xstat", call_xstat},
	{"__xstat64", call_xstat},
	{"__lxstat", call_xstat},
	{"__lxstat64", call_xstat},
	{"__fxstatat", call_fxstatat},
	{"__fxstatat64", call_fxstatat},
	{"statx", call_statx},
	{"access", call_access},
	{"eaccess", call_access},
	{"euidaccess", call_access},
	{"faccessat", call_faccessat},
	{"getxattr", call_getxattr},
	{"lgetxattr", call_getxattr},
	{"readlink", call_readlink},
	{"readlinkat", call_readlinkat},
	{"__readlink_chk", call_readlink_chk},
	{"__readlinkat_chk", call_readlinkat_chk},
	{"realpath", call_realpath},
	{"__realpath_chk", call_realpath_chk},
	{"canonicalize_file_name", call_canonicalize},
	{"opendir", call_opendir},
	{"chdir", call_chdir},
	{"scandir", call_scandir},
	{"scandir64", call_scandir},
	{"scandirat", call_scandirat},
	{"scandirat64", call_scandirat},
	{"glob", call_glob},
	{"glob64", call_glob},
};

static void print_mode(int fd)
{
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		fail();
	else
		printf("%o\n", st.st_mode & 07777);
}

/* Functions that create a file take its mode as a further argument. */
static void create(const char *folder)
{
	char path[PATH_MAX];
	int fd = open(folder, O_RDONLY | O_DIRECTORY);

	umask(0);
	snprintf(path, sizeof(path), "%s/by-open", folder);
	print_mode(open(path, O_CREAT | O_WRONLY | O_EXCL, 0641));
	print_mode(open(path, O_CREAT | O_WRONLY | O_EXCL, 0641));
	print_mode(openat(fd, "by-openat", O_CREAT | O_WRONLY | O_EXCL, 0642));
	print_mode(open64(folder, O_TMPFILE | O_WRONLY, 0643));
	print_mode(openat64(fd, ".", O_TMPFILE | O_WRONLY, 0644));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "list")) {
		for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
			puts(calls[i].name);
		return 0;
	}
	if (argc < 3)
		return 2;
	if (argc > 3)
		base = open(argv[3], O_RDONLY | O_DIRECTORY);
	if (!strcmp(argv[1], "create"))
		create(argv[2]);
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		if (strcmp(calls[i].name, argv[1]))
			continue;
		errno = UNTOUCHED;
		calls[i].call(function(argv[1]), argv[2]);
	}
	return 0;
}
