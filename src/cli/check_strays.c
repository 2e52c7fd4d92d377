/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/checkup.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/private.h"

/* The process, if we may look at it, maps a file that was a pool and has no name any more. A file
 * of that name may be there again. */
static bool maps_removed(const char *pid, char pool[PATH_MAX])
{
	char path[64], line[PATH_MAX + 128];
	bool found = false;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%.20s/maps", pid);
	f = fopen(path, "re");
	while (f && !found && fgets(line, sizeof(line), f)) {
		char *name = strchr(line, '/'), *gone = name ? strstr(name, " (deleted)\n") : NULL;

		if (!gone)
			continue;
		*gone = '\0';
		found = !strncmp(name, "/dev/shm/weft-", 14);
		snprintf(pool, PATH_MAX, "%s", name);
	}
	if (f)
		fclose(f);
	return found;
}

static void check_removed(struct weft_checkup *c)
{
	char pool[PATH_MAX], finding[PATH_MAX + 128];
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool any = false;

	while (proc && (entry = readdir(proc))) {
		if (!isdigit(entry->d_name[0]) || !maps_removed(entry->d_name, pool))
			continue;
		any = true;
		snprintf(finding, sizeof(finding),
			 "process %.20s goes on in %s, which was removed: "
			 "programs started since do not reach it",
			 entry->d_name, pool);
		weft_checkup_say(
			c, "removed_pool", WEFT_VERDICT_PROBLEM, finding,
			"start it again; systemd removes files at logout unless RemoveIPC=no "
			"in logind.conf");
	}
	if (proc)
		closedir(proc);
	if (!any)
		weft_checkup_say(c, "removed_pool", WEFT_VERDICT_OK, "no program is in one", NULL);
}

static void check_private(struct weft_checkup *c)
{
	unsigned int left = weft_private_sweep(c->fix);
	char finding[96];

	snprintf(finding, sizeof(finding),
		 c->fix ? "removed %u private pools of ended programs"
			: "%u private pools of ended programs are left in "
			  "/dev/shm",
		 left);
	if (!left)
		weft_checkup_say(c, "private_pools", WEFT_VERDICT_OK, "none is left over", NULL);
	else if (c->fix)
		weft_checkup_say(c, "private_pools", WEFT_VERDICT_FIXED, finding, NULL);
	else
		weft_checkup_say(c, "private_pools", WEFT_VERDICT_PROBLEM, finding,
				 "weft doctor --fix removes them");
}

void weft_check_strays(struct weft_checkup *c)
{
	check_removed(c);
	check_private(c);
}
