/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/checkup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "pool/pool.h"
#include "pool/view.h"
#include "pool/sizes.h"

#define MIB	       ((uint64_t)1 << 20)
#define S_NS	       ((uint64_t)1000000000)
#define LITTLE_MIB     256u
#define HARDLY_ANY_MIB 4u /* the tables and rings of one member */
#define TEXT	       (PATH_MAX + 256)

static void folder_of(const char *path, char folder[PATH_MAX])
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	snprintf(folder, PATH_MAX, "%.*s", slash ? (int)(len ?: 1) : 1, slash ? path : ".");
}

/* Makes a file of a pool's size beside where the pool will be. 0 or -errno. */
static int try_making(const char *folder)
{
	char path[PATH_MAX + 32];
	int fd, err;

	snprintf(path, sizeof(path), "%s/.weft-try-XXXXXX", folder);
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	signal(SIGXFSZ, SIG_IGN); /* too large is an answer */
	err = fallocate(fd, 0, 0, WEFT_PAGE) || ftruncate(fd, (off_t)weft_pool_new_bytes()) ? -errno
											    : 0;
	close(fd);
	return err;
}

static void check_making(struct weft_checkup *c, const char *where)
{
	char folder[PATH_MAX], finding[TEXT];
	int err;

	folder_of(where, folder);
	err = try_making(folder);
	if (!err) {
		snprintf(finding, sizeof(finding), "%s will be made when the first program starts",
			 where);
		weft_checkup_say(c, "pool", WEFT_VERDICT_OK, finding, NULL);
		return;
	}
	snprintf(finding, sizeof(finding), "%s cannot be made: %s", where, strerror(-err));
	weft_checkup_say(
		c, "pool", WEFT_VERDICT_PROBLEM, finding,
		err == -ENOSPC || err == -EDQUOT || err == -ENOMEM
			? "free or enlarge its file system (see room)"
		: err == -EFBIG ? "raise the limit on the size of a file (ulimit -f)"
		: err == -ENOENT
			? "mount a tmpfs there, or name a pool elsewhere (--pool, WEFT_POOL)"
			: "name a pool in a folder of a tmpfs that you may write to (--pool, "
			  "WEFT_POOL)");
}

static void check_room(struct weft_checkup *c, const char *where)
{
	char folder[PATH_MAX], finding[TEXT];
	struct statfs fs;
	uint64_t free_mib;

	folder_of(where, folder);
	if (statfs(where, &fs) && statfs(folder, &fs))
		return; /* the check of the pool says so */
	free_mib = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize / MIB;
	snprintf(finding, sizeof(finding), "%" PRIu64 " MiB left in %s", free_mib, folder);
	if (free_mib < LITTLE_MIB)
		weft_checkup_say(
			c, "room",
			free_mib < HARDLY_ANY_MIB ? WEFT_VERDICT_PROBLEM : WEFT_VERDICT_NOTE,
			finding,
			strcmp(folder, "/dev/shm")
				? "enlarge or empty that file system: registered memory beyond "
				  "it stays out of the pool"
				: "enlarge it (mount -o remount,size=50% /dev/shm; docker run "
				  "--shm-size=1g): registered memory beyond it stays out of the "
				  "pool");
	else
		weft_checkup_say(c, "room", WEFT_VERDICT_OK, finding, NULL);
	if (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC)
		return;
	snprintf(finding, sizeof(finding), "%s is on no tmpfs: the kernel writes the pool to disk",
		 folder);
	weft_checkup_say(c, "room", WEFT_VERDICT_NOTE, finding, "put the pool into a tmpfs");
}

static void remove_other(struct weft_checkup *c, const char *where, const char *why)
{
	char finding[TEXT];
	int err = 0;

	if (c->fix)
		err = weft_pool_remove(c->pool, &why);
	if (c->fix && !err) {
		snprintf(finding, sizeof(finding), "%s was removed: nobody used it", where);
		weft_checkup_say(c, "pool", WEFT_VERDICT_FIXED, finding, NULL);
		return;
	}
	snprintf(finding, sizeof(finding), "%s: %s", where, why);
	weft_checkup_say(c, "pool", WEFT_VERDICT_PROBLEM, finding,
			 err == -EBUSY ? "end the programs that use it, then weft doctor --fix"
			 : err	       ? "remove the file, or name another pool (--pool, WEFT_POOL)"
				       : "weft doctor --fix removes it if it is a pool and nobody "
					 "uses it");
}

static void cannot_open(struct weft_checkup *c, const char *where, const char *why, int err)
{
	char finding[TEXT];

	snprintf(finding, sizeof(finding), "%s: %s: %s", where, why, strerror(-err));
	weft_checkup_say(c, "pool", WEFT_VERDICT_PROBLEM, finding,
			 err == -EPERM
				 ? "let its owner chmod 600 or remove it, or name another pool "
				   "(--pool, WEFT_POOL)"
				 : "let its owner give you rights to read and write, or name "
				   "another pool (--pool, WEFT_POOL)");
}

/* Those that live, of all hosts; or the dead, which only a program of their own host gives back. */
static unsigned int count_members(const struct weft_view *v, bool alive)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < v->nmembers; i++)
		n += v->member[i].incarnation && v->member[i].alive == alive &&
		     (alive || v->member[i].is_here);
	return n;
}

static void check_dead(struct weft_checkup *c, const struct weft_view *v)
{
	char where[PATH_MAX];
	unsigned int dead = count_members(v, false);
	struct weft_pool *pool;
	const char *why;
	char finding[TEXT];

	if (!dead) {
		weft_checkup_say(c, "leftovers", WEFT_VERDICT_OK, "none", NULL);
		return;
	}
	snprintf(finding, sizeof(finding),
		 "%u programs died, or ended without closing the device: their memory is in the "
		 "pool",
		 dead);
	if (!c->fix) {
		weft_checkup_say(
			c, "leftovers", WEFT_VERDICT_NOTE, finding,
			"weft doctor --fix gives it back, and so does the next program that "
			"joins");
		return;
	}
	if (weft_pool_get(c->pool, &pool, where,
			  &why)) { /* a member that joins recovers the dead */
		weft_checkup_say(c, "leftovers", WEFT_VERDICT_PROBLEM, finding, why);
		return;
	}
	weft_pool_put(pool);
	snprintf(finding, sizeof(finding), "gave back what %u programs left that have died", dead);
	weft_checkup_say(c, "leftovers", WEFT_VERDICT_FIXED, finding, NULL);
}

static unsigned int count_damage(struct weft_view *v)
{
	struct weft_view_cursor qps = {0}, mrs = {0};
	struct weft_view_qp qp;
	struct weft_view_mr mr;

	while (weft_view_qp(v, &qps, &qp))
		;
	while (weft_view_mr(v, &mrs, &mr))
		;
	return v->damaged;
}

/* Of several hosts: those that do not answer. */
static void check_hosts(struct weft_checkup *c, const struct weft_view *v)
{
	char finding[TEXT];
	uint32_t up = 0;

	for (uint32_t i = 0; i < v->hosts; i++) {
		up += v->host[i].state == WEFT_HOST_UP;
		if (v->host[i].state != WEFT_HOST_SILENT)
			continue;
		snprintf(finding, sizeof(finding),
			 "host %u, %s, has been silent for %" PRIu64 " s: %u members", i,
			 v->host[i].name, v->host[i].beat_ns / S_NS, v->host[i].members);
		weft_checkup_say(c, "hosts", WEFT_VERDICT_NOTE, finding,
				 "if its programs ended, run one there again; if its machine is "
				 "off, weft pool evict");
	}
	snprintf(finding, sizeof(finding), "%u of %u hosts are up", up, v->hosts);
	weft_checkup_say(c, "hosts", WEFT_VERDICT_OK, finding, NULL);
}

/* Of a device-dax, whose align is 2 MiB unless somebody has set it. */
static void check_grain(struct weft_checkup *c, const struct weft_view *v)
{
	const char *slash = strrchr(v->path, '/'), *name = slash ? slash + 1 : v->path;
	char finding[TEXT], advice[3 * NAME_MAX + TEXT];

	if (v->grain_bytes <= WEFT_PAGE) {
		weft_checkup_say(c, "pages", WEFT_VERDICT_OK, "memory can migrate into the pool",
				 NULL);
		return;
	}
	snprintf(finding, sizeof(finding),
		 "align of %s is %" PRIu64 " bytes: memory is registered in place, which is slower",
		 name, v->grain_bytes);
	snprintf(advice, sizeof(advice),
		 "as root, on every machine, when no program uses it: cd /sys/bus/dax; "
		 "echo %.*s >drivers/device_dax/unbind; echo 4096 >devices/%.*s/align; "
		 "echo %.*s >drivers/device_dax/bind",
		 NAME_MAX, name, NAME_MAX, name, NAME_MAX, name);
	weft_checkup_say(c, "pages", WEFT_VERDICT_NOTE, finding, advice);
}

static void check_contents(struct weft_checkup *c, struct weft_view *v)
{
	unsigned int damaged = count_damage(v);
	char finding[TEXT], who[128];

	if (damaged) {
		snprintf(finding, sizeof(finding), "%s: %u entries make no sense", v->path,
			 damaged);
		weft_checkup_say(c, "pool", WEFT_VERDICT_PROBLEM, finding,
				 "end the programs that use it, then weft pool rm");
		return;
	}
	/* that of several hosts has another name than its memory */
	if (!v->hosts && access(v->path, R_OK | W_OK)) {
		cannot_open(c, v->path, "no program of yours can join", -errno);
		return;
	}
	snprintf(finding, sizeof(finding), "%s: %u members, %" PRIu64 " KiB", v->path,
		 count_members(v, true), v->allocated_bytes / 1024);
	weft_checkup_say(c, "pool", WEFT_VERDICT_OK, finding, NULL);
	if (!v->unlocked)
		return;
	weft_view_lock_owner(v, who, sizeof(who));
	snprintf(finding, sizeof(finding), "%s, for a tenth of a second now: nobody can join", who);
	weft_checkup_say(c, "pool", WEFT_VERDICT_PROBLEM, finding, WEFT_BACKING_ADVICE);
}

void weft_check_pool(struct weft_checkup *c)
{
	char where[PATH_MAX], finding[TEXT];
	struct weft_view *v;
	const char *why;
	int err = weft_view_open(c->pool, where, &v, &why);

	if (!err) {
		check_contents(c, v);
		check_dead(c, v);
		if (v->hosts) {
			check_hosts(c, v);
			check_grain(c, v);
		}
		weft_view_close(v);
	} else if (!weft_pool_is_made_by_use(c->pool)) {
		snprintf(finding, sizeof(finding), "%s: %s", where, why);
		weft_checkup_say(c, "pool", WEFT_VERDICT_PROBLEM, finding,
				 "weft pool create makes one of several hosts");
	} else if (err == -ENOENT) {
		check_making(c, where);
	} else if (err == -EPROTO) {
		remove_other(c, where, why);
	} else {
		cannot_open(c, where, why, err);
	}
	if (err != -ENAMETOOLONG)
		check_room(c, where);
}
