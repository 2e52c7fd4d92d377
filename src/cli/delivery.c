/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/delivery.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const libraries[] = {"libibverbs.so.1", "librdmacm.so.1", "libweft-shim.so"};
#define NLIBRARIES (sizeof(libraries) / sizeof(libraries[0]))

static const struct {
	const char *libs, *bin;
} places[] = {
	{".", "src/cli"}, /* a build folder */
	{WEFT_LIBS_FROM_BIN, WEFT_LIBS_FROM_BIN "/bin"},
	{"../lib/weft", "../lib/weft/bin"}, /* an installation that was moved */
};

/* UCX warns of a variable that none of the transports in UCX_TLS asks for. */
static bool uses_connections(void)
{
	static const char *const kinds[] = {"all", "ib", "rc", "rc_v", "rc_verbs"};
	const char *at = getenv("UCX_TLS");
	bool all_but = at && *at == '^', named = false;

	if (!at)
		return true;
	for (at += all_but; *at; at += strcspn(at, ","), at += *at == ',')
		for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			named |= strcspn(at, ",:") == strlen(kinds[i]) &&
				 !strncmp(at, kinds[i], strlen(kinds[i]));
	return named != all_but;
}

static bool is_one(const char *name)
{
	const char *at = getenv(name);

	return at && !strcmp(at, "1");
}

/* NCCL takes memory of the host, or NVLink, between processes of one host, unless it is told so. */
static bool asks_for_network(void)
{
	return is_one("NCCL_P2P_DISABLE") && is_one("NCCL_SHM_DISABLE");
}

/* Programs choose a NIC's address by these where no RDMA card tells them: index 3 is RoCE v2 on
 * IPv4; NCCL's networking from inside kernels takes each card for one of mlx5 (2.28.9 crashes on
 * others). Open MPI otherwise accepts only devices and transports that it knows by name. UCX takes its
 * receives in turn: 512 of 8 KiB stay in caches, its 4,096 do not; fewer than its window of 512
 * would make senders wait. It reckons from a card's costs when to name its bytes in place and when to
 * copy them into a buffer of its own: here the latter takes less, up to that buffer's size. NCCL that is to use
 * the network takes a card that is no PCI device for one far from each GPU, and goes through memory of the host; and a kernel
 * that CUDA loads when it is first launched holds up our copies, which an earlier kernel waits for; and where a process has died
 * the others wait for its bytes, with no request under way that could fail. */
static const struct {
	const char *name, *value;
	bool (*wanted)(void); /* NULL: always */
} defaults[] = {
	{"NCCL_GIN_TYPE", "0"},
	{"NCCL_IB_GID_INDEX", "3"},
	{"NCCL_NET_GDR_LEVEL", "SYS", asks_for_network},
	{"CUDA_MODULE_LOADING", "EAGER", asks_for_network},
	{"WEFT_TELL_DEATHS", "1", asks_for_network},
	{"OMPI_MCA_pml_ucx_devices", "any"},
	{"OMPI_MCA_pml_ucx_tls", "any"},
	{"UCX_RC_VERBS_RX_QUEUE_LEN", "512", uses_connections},
	{"UCX_ZCOPY_THRESH", "8192"},
};

/* The canonical name of base/rel in out, if it is there. */
static int resolve(const char *base, const char *rel, char out[PATH_MAX])
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/%s", base, rel) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return realpath(path, out) ? 0 : -errno;
}

static const char *missing_library(const struct weft_delivery *d)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < NLIBRARIES; i++)
		if (resolve(d->libs, libraries[i], path))
			return libraries[i];
	return NULL;
}

static int check_found(const struct weft_delivery *d)
{
	const char *missing = missing_library(d);

	if (missing) {
		fprintf(stderr, "weft: %s is not in %s: build or install Weft again\n", missing,
			d->libs);
		return 125;
	}
	if (strpbrk(d->libs, ":;$%") || strchr(d->bin, ':')) {
		fprintf(stderr,
			"weft: the loader cannot take libraries from '%s': move Weft to a "
			"folder without colons, semicolons, $ and %% in its name\n",
			d->libs);
		return 125;
	}
	return 0;
}

int weft_delivery_find(struct weft_delivery *d)
{
	char folder[PATH_MAX], shim[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", d->self, sizeof(d->self) - 1);

	if (n < 0) {
		fprintf(stderr, "weft: cannot find my own place: /proc/self/exe: %m\n");
		return 125;
	}
	d->self[n] = '\0';
	memcpy(folder, d->self, sizeof(folder));
	*strrchr(folder, '/') = '\0';
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (resolve(folder, places[i].libs, d->libs) ||
		    resolve(folder, places[i].bin, d->bin) ||
		    resolve(d->libs, "libweft-shim.so", shim))
			continue;
		return check_found(d);
	}
	fprintf(stderr,
		"weft: found libweft-shim.so neither in %s nor in %s/%s: build or install "
		"Weft again\n",
		folder, folder, WEFT_LIBS_FROM_BIN);
	return 125;
}

int weft_delivery_load_plugin(void)
{
	struct weft_delivery delivery;
	char path[PATH_MAX + 32];

	if (weft_delivery_find(&delivery))
		return -ELIBACC;
	snprintf(path, sizeof(path), "%s/libweft-cuda.so", delivery.libs);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL) ? 0 : -ENOPKG;
}

/* A variable that is a list. */
struct list {
	const char *name;
	const char *separators;
	bool ours_first;
	bool empty_counts; /* an empty element means the current folder */
	const char *if_unset;
};

static const struct list library_path = {"LD_LIBRARY_PATH", ":;", true, true, ""};
static const struct list preload = {"LD_PRELOAD", ": ", false, false, ""};
/* A sanitizer's runtime that is a library of its own, as gcc's is, wants to be the first of all, and ends the program
 * where others are preloaded. Behind ours it sees the same calls: what the shim is asked it passes on to the
 * next. To preload the runtime, too, would bring it into the program's children. */
static const struct list asan = {"ASAN_OPTIONS", ":", false, false, ""};
static const struct list path = {"PATH", ":", true, true, "/bin:/usr/bin"}; /* as execvp has it */

static bool contains(char *const items[], const char *item, size_t len)
{
	for (; *items; items++)
		if (strlen(*items) == len && !memcmp(*items, item, len))
			return true;
	return false;
}

/* Writes the elements of old that are not ours, each behind a colon where one is due. */
static void keep_foreign(FILE *out, const struct list *l, const char *old, char *const ours[])
{
	const char *colon = l->ours_first ? ":" : "";

	while (*old) {
		size_t len = strcspn(old, l->separators);

		if ((len || l->empty_counts) && !contains(ours, old, len)) {
			fprintf(out, "%s%.*s", colon, (int)len, old);
			colon = ":";
		}
		old += len;
		/* A separator at the very end stands before one more, empty element. */
		if (*old && !*++old && l->empty_counts)
			fputs(colon, out);
	}
	if (!l->ours_first)
		fputs(colon, out);
}

/* The list with our elements (NULL-terminated) once each; NULL without memory. */
static char *merge_list(const struct list *l, char *const ours[])
{
	const char *old = getenv(l->name) ?: l->if_unset;
	char *value = NULL;
	size_t size;
	FILE *out = open_memstream(&value, &size);

	if (!out)
		return NULL;
	if (!l->ours_first)
		keep_foreign(out, l, old, ours);
	for (size_t i = 0; ours[i]; i++)
		fprintf(out, "%s%s", i ? ":" : "", ours[i]);
	if (l->ours_first)
		keep_foreign(out, l, old, ours);
	return fclose(out) ? NULL : value;
}

static char *concat(const char *a, const char *b)
{
	char *s;

	return asprintf(&s, "%s/%s", a, b) < 0 ? NULL : s;
}

/* A space ends a name in LD_PRELOAD, and in no other list: what has no folder in its name is looked
 * for in LD_LIBRARY_PATH. That DT_RPATH goes before it makes this the second choice. */
static char *name_to_preload(const struct weft_delivery *d, const char *library)
{
	return strchr(d->libs, ' ') ? (char *)library : concat(d->libs, library);
}

static int set_list(const struct list *l, char *const ours[],
		    int (*set)(const char *name, const char *value))
{
	char *value = merge_list(l, ours);

	if (!value) {
		fputs("weft: out of memory\n", stderr);
		return 125;
	}
	return set(l->name, value);
}

static int set_pool(const char *pool, int (*set)(const char *name, const char *value))
{
	/* as backing/shm.c, backing/pci.c and backing/dax.c have it */
	const char *kind = strncmp(pool, "shm:", 4) ? "" : "shm:", *file = pool + strlen(kind);
	char *cwd, *absolute;

	if (file[0] == '/' || !strncmp(pool, "pci:", 4) || !strncmp(pool, "dax:", 4))
		return set("WEFT_POOL", pool);
	cwd = getcwd(NULL, 0);
	if (!cwd || asprintf(&absolute, "%s%s/%s", kind, cwd, file) < 0) {
		fprintf(stderr, "weft: this folder has no name: %m; give an absolute PATH\n");
		return 125;
	}
	return set("WEFT_POOL", absolute);
}

int weft_delivery_each(const struct weft_delivery *d, const char *pool,
		       int (*set)(const char *name, const char *value))
{
	char *libs[] = {(char *)d->libs, NULL};
	char *bin[] = {(char *)d->bin, NULL};
	char *any_order[] = {"verify_asan_link_order=0", NULL};
	char *preloads[NLIBRARIES + 1] = {NULL};
	int err;

	for (size_t i = 0; i < NLIBRARIES; i++) {
		preloads[i] = name_to_preload(d, libraries[i]);
		if (!preloads[i])
			return 125;
	}
	err = set_list(&library_path, libs, set);
	err = err ?: set_list(&preload, preloads, set);
	err = err ?: set_list(&path, bin, set);
	err = err ?: set_list(&asan, any_order, set);
	err = err || !pool ? err : set_pool(pool, set);
	for (size_t i = 0; !err && i < sizeof(defaults) / sizeof(defaults[0]); i++)
		if (!getenv(defaults[i].name) && (!defaults[i].wanted || defaults[i].wanted()))
			err = set(defaults[i].name, defaults[i].value);
	return err;
}
