/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Lays down sysroot, the folder from which the shim answers (path.h): run when Weft is built and
 * when it is installed.
 *
 *	mksysroot FOLDER [STAMP]: makes FOLDER anew, then the empty file STAMP for the build system
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "verbs/attr.h"
#include "process/gid.h"

#define DEV    "sys/devices/weft0/"
#define IB     DEV "infiniband/weft0/"
#define PORT   IB "ports/1/"
#define UVERBS DEV "infiniband_verbs/uverbs0/"

static const char *root;

/* Values as the kernel prints them; a word with @ is a template, see expand.h. */
static const struct {
	const char *path, *contents;
} files[] = {
	{DEV "numa_node", "-1"},
	{DEV "local_cpus", "@cpus"},
	{DEV "local_cpulist", "@cpulist"},
	{DEV "vendor", "0xffffff"},
	{DEV "device", "0x0000"},
	{DEV "uevent", "DRIVER=weft"},
	{"sys/bus/weft/drivers/weft/uevent", ""},
	{IB "node_type", "1: CA"},
	{IB "node_desc", WEFT_NODE_DESC},
	{IB "node_guid", "@guid"},
	{IB "sys_image_guid", "@guid"},
	{IB "fw_ver", WEFT_VERSION},
	{IB "hca_type", "weft"},
	{IB "uevent", "NAME=weft0"},
	{PORT "state", "4: ACTIVE"},
	{PORT "phys_state", "5: LinkUp"},
	{PORT "rate", "100 Gb/sec (4X EDR)"},
	{PORT "link_layer", "Ethernet"},
	{PORT "lid", "0x0"},
	{PORT "lid_mask_count", "0"},
	{PORT "sm_lid", "0x0"},
	{PORT "sm_sl", "0"},
	{PORT "cap_mask", "0x04010000"},
	{PORT "pkeys/0", "0xffff"},
	{UVERBS "ibdev", "weft0"},
	{UVERBS "dev", "1:3"}, /* of /dev/null */
	{UVERBS "abi_version", "1"},
	{UVERBS "uevent", "DEVNAME=infiniband/uverbs0"},
	{"sys/class/infiniband_verbs/abi_version", "6"},
	{"sys/class/infiniband_ucma/abi_version", "4"},
};

static const struct {
	const char *path, *target;
} links[] = {
	{"sys/class/infiniband/weft0", "../../devices/weft0/infiniband/weft0"},
	{"sys/class/infiniband_verbs/uverbs0", "../../devices/weft0/infiniband_verbs/uverbs0"},
	{DEV "driver", "../../bus/weft/drivers/weft"},
	{DEV "subsystem", "../../bus/weft"},
	{DEV "net", "/sys/class/net"}, /* the interfaces whose addresses it has */
	{IB "device", "../../../weft0"},
	{IB "subsystem", "../../../../class/infiniband"},
	{UVERBS "device", "../../../weft0"},
	{UVERBS "subsystem", "../../../../class/infiniband_verbs"},
	{"dev/infiniband/uverbs0", "/dev/null"},
	{"dev/infiniband/rdma_cm", "/dev/null"},
};

/* One for each place of the GID table, as many names of one file. */
static const struct {
	const char *folder, *contents;
} tables[] = {
	{PORT "gids", "@gid"},
	{PORT "gid_attrs/types", "@type"},
	{PORT "gid_attrs/ndevs", "@ndev"},
};

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	return remove(path);
}

/* The whole name of a file below root, until the next call; its folders are made. */
static const char *name_below_root(const char *path)
{
	static char whole[PATH_MAX];

	if (snprintf(whole, sizeof(whole), "%s/%s", root, path) >= (int)sizeof(whole))
		errx(1, "%s: the name is too long", path);
	for (char *slash = strchr(whole + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(whole, 0755) && errno != EEXIST)
			err(1, "%s", whole);
		*slash = '/';
	}
	return whole;
}

static void make_file(const char *path, const char *contents)
{
	const char *whole = name_below_root(path);
	FILE *f = fopen(whole, "w");

	if (!f || (*contents && fprintf(f, "%s%s", contents, *contents == '@' ? "" : "\n") < 0) ||
	    fchmod(fileno(f), 0444) || fclose(f))
		err(1, "%s", whole);
}

static void make_table(const char *folder, const char *contents)
{
	char path[128];
	char *first;

	snprintf(path, sizeof(path), "%s/0", folder);
	make_file(path, contents);
	first = strdup(name_below_root(path));
	for (int i = 1; i < WEFT_GID_TABLE_LEN; i++) {
		snprintf(path, sizeof(path), "%s/%d", folder, i);
		if (!first || link(first, name_below_root(path)))
			err(1, "%s", path);
	}
	free(first);
}

int main(int argc, char **argv)
{
	if (argc < 2 || argc > 3)
		errx(2, "usage: mksysroot FOLDER [STAMP]");
	umask(0022);
	root = argv[1];
	if (nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS) && errno != ENOENT)
		err(1, "%s", root);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		make_file(files[i].path, files[i].contents);
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		make_table(tables[i].folder, tables[i].contents);
	for (size_t i = 0; i < sizeof(links) / sizeof(links[0]); i++) {
		const char *whole = name_below_root(links[i].path);

		if (symlink(links[i].target, whole))
			err(1, "%s", whole);
	}
	if (argc == 3 && !freopen(argv[2], "w", stdout))
		err(1, "%s", argv[2]);
	return 0;
}
