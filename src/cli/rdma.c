/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The command `rdma` that programs under `weft run` find first: tells of weft0 in the format of
 * iproute2's, from /sys/class/infiniband as the path shim shows it. All else, and everything where
 * there is no weft0, is passed on to the system's rdma.
 *
 *	rdma [-j] link [show [weft0[/1]]]
 *	rdma [-j] dev [show [weft0]]
 *
 * Words may be shortened and options may stand anywhere, as iproute2 takes them. Exit status: 0;
 * 1 standard output failed; 127 passed on, and the system has none; else that of the system's.
 */
#include <limits.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEVICE "/sys/class/infiniband/weft0/"
#define PORT   DEVICE "ports/1/"

struct query {
	bool json;
	bool link; /* else dev */
};

struct value {
	char text[128];
};

/* The first line of a file; "" if there is none. */
static struct value read_value(const char *path)
{
	struct value value = {""};
	FILE *f = fopen(path, "re");

	if (f) {
		if (!fgets(value.text, sizeof(value.text), f))
			value.text[0] = '\0';
		fclose(f);
	}
	value.text[strcspn(value.text, "\n")] = '\0';
	return value;
}

/* "4: ACTIVE" is ACTIVE there. */
static const char *behind_number(const char *text)
{
	const char *colon = strchr(text, ':');

	return colon ? colon + 2 : text;
}

static void show_link(bool json)
{
	struct value port = read_value(PORT "state");
	struct value netdev = read_value(PORT "gid_attrs/ndevs/0");
	struct value phys = read_value(PORT "phys_state");
	const char *state = behind_number(port.text);
	const char *physical = strcmp(phys.text, "5: LinkUp") ? "DISABLED" : "LINK_UP";

	if (json)
		printf("[{\"ifindex\":0,\"ifname\":\"weft0\",\"port\":1,\"state\":\"%s\","
		       "\"physical_state\":\"%s\",\"netdev\":\"%s\",\"netdev_index\":%u}]\n",
		       state, physical, netdev.text, if_nametoindex(netdev.text));
	else
		printf("link weft0/1 state %s physical_state %s netdev %s \n", state, physical,
		       netdev.text);
}

static void show_device(bool json)
{
	struct value fw = read_value(DEVICE "fw_ver");
	struct value node = read_value(DEVICE "node_guid");
	struct value image = read_value(DEVICE "sys_image_guid");

	if (json)
		printf("[{\"ifindex\":0,\"ifname\":\"weft0\",\"node_type\":\"ca\",\"fw\":\"%s\","
		       "\"node_guid\":\"%s\",\"sys_image_guid\":\"%s\"}]\n",
		       fw.text, node.text, image.text);
	else
		printf("0: weft0: node_type ca fw %s node_guid %s sys_image_guid %s \n", fw.text,
		       node.text, image.text);
}

static bool shortens(const char *word, const char *whole)
{
	return *word && !strncmp(whole, word, strlen(word));
}

/* Whether the letters behind a dash are only of output: JSON, pretty, details, raw. */
static bool take_option(const char *option, struct query *q)
{
	if (!strcmp(option, "-json"))
		option = "j";
	if (strspn(option, "jpdr") != strlen(option))
		return false;
	q->json |= strchr(option, 'j') != NULL;
	return true;
}

/* Whether the question is one that we answer. */
static bool parse_question(int argc, char **argv, struct query *q)
{
	const char *words[3] = {"", "show", "weft0"};
	int n = 0;

	for (int i = 1; i < argc; i++) {
		if (argv[i][0] == '-') {
			if (!take_option(argv[i] + 1, q))
				return false;
		} else if (n == 3) {
			return false;
		} else {
			words[n++] = argv[i];
		}
	}
	q->link = shortens(words[0], "link");
	if (!q->link && !shortens(words[0], "dev"))
		return false;
	if (!shortens(words[1], "show") && !shortens(words[1], "list"))
		return false;
	return !strcmp(words[2], "weft0") ||
	       (q->link && (!strcmp(words[2], "weft0/1") || !strcmp(words[2], "weft0/-")));
}

static bool is_self(const char *path)
{
	struct stat self, other;

	return stat("/proc/self/exe", &self) || stat(path, &other) ||
	       (self.st_dev == other.st_dev && self.st_ino == other.st_ino);
}

/* Becomes the first `rdma` of these folders that is not this one, if there is any. */
static void become_one_of(const char *folders, char **argv)
{
	char path[PATH_MAX];

	for (const char *at = folders; *at;) {
		size_t len = strcspn(at, ":");

		if (len + sizeof("/rdma") <= sizeof(path)) {
			memcpy(path, at, len);
			strcpy(path + len, "/rdma");
			if (!is_self(path))
				execv(path, argv);
		}
		at += len + (at[len] == ':');
	}
}

static int run_real(char **argv)
{
	const char *path = getenv("PATH");

	if (path)
		become_one_of(path, argv);
	become_one_of("/usr/sbin:/sbin:/usr/bin:/bin", argv);
	fputs("rdma: Weft's own answers `link show` and `dev show` of weft0 only, and the system "
	      "has none: install iproute2\n",
	      stderr);
	return 127;
}

int main(int argc, char **argv)
{
	struct query q = {0};

	if (access(DEVICE, F_OK) || !parse_question(argc, argv, &q))
		return run_real(argv);
	if (q.link)
		show_link(q.json);
	else
		show_device(q.json);
	return fflush(stdout) || ferror(stdout);
}
