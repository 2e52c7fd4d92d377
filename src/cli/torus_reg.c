/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The registers of a card that runs: asked for at its door, one at a time. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/torus.h"
#include "pool/clock.h"
#include "wire/ape/regs.h"

#define PATIENCE_NS 10000000000ull

struct access {
	unsigned int number;
	bool write;
	uint32_t value;
};

/* N or N=V, V also as 0x…. */
static bool parse_access(const char *text, struct access *a)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10), value;

	if (*text < '0' || *text > '9' || number >= WEFT_APE_REGISTERS)
		return false;
	*a = (struct access){.number = (unsigned int)number, .write = *end == '='};
	if (!*end)
		return true;
	text = end + 1;
	errno = 0;
	value = strtoul(text, &end, 0);
	a->value = (uint32_t)value;
	return a->write && *text >= '0' && *text <= '9' && !*end && !errno && value <= UINT32_MAX;
}

/* Its locks keep one access behind the other; the door's pid says whether there is a card. */
static int ask_register(struct weft_torus_door *door, const struct access *a, uint64_t *answer)
{
	uint64_t until = weft_clock_now_ns() + PATIENCE_NS, last, word;

	last = atomic_load_explicit(&door->answered, memory_order_relaxed);
	word = (last & WEFT_TORUS_REG_SERIAL) + WEFT_TORUS_REG_NEXT;
	word |= (uint64_t)a->number << WEFT_TORUS_REG_NUMBER | a->value;
	word |= a->write ? WEFT_TORUS_REG_FLAG : 0;
	atomic_store_explicit(&door->asked, word, memory_order_relaxed);
	weft_door_knock(&door->door);
	do {
		*answer = atomic_load_explicit(&door->answered, memory_order_relaxed);
		if (!((*answer ^ word) & WEFT_TORUS_REG_SERIAL))
			return 0;
		usleep(1000);
	} while (weft_clock_now_ns() < until);
	fputs("weft torus: the card does not answer\n", stderr);
	return 1;
}

static int show(struct weft_torus_door *door, const struct access *a, bool zero_too)
{
	uint64_t answer;
	int err = ask_register(door, a, &answer);

	if (err)
		return err;
	if (answer & WEFT_TORUS_REG_FLAG) {
		fprintf(stderr, "weft torus: register %u does not take 0x%x\n", a->number,
			a->value);
		return 1;
	}
	if (zero_too || (uint32_t)answer)
		printf("%3u  0x%08x\n", a->number, (uint32_t)answer);
	return 0;
}

static int show_all(struct weft_torus_door *door)
{
	int err = 0;

	for (unsigned int n = 0; n < WEFT_APE_REGISTERS && !err; n++)
		err = show(door, &(struct access){.number = n}, false);
	return err;
}

int weft_torus_reg(struct weft_torus_options *o, char **words)
{
	struct weft_torus_door *door;
	struct weft_torus_end end;
	char node[PATH_MAX], path[PATH_MAX];
	struct access a = {0};
	int err = weft_torus_parse_end(o, words[0], NULL, &end), fd, lock;

	if (err)
		return err;
	if (words[1] && !parse_access(words[1], &a))
		return weft_main_usage_error("torus", "no register: '%s' (N or N=V, N up to %u)",
					     words[1], WEFT_APE_REGISTERS - 1);
	if (weft_torus_node(o->home, end.at.at, NULL, node) || !weft_torus_card_pid(node) ||
	    weft_torus_node(o->home, end.at.at, "door", path)) {
		fprintf(stderr, "weft torus: node %s of '%s' has no card: it has died\n", words[0],
			o->name);
		return 1;
	}
	door = weft_torus_door_open(path, false, &fd);
	lock = open(node, O_RDONLY | O_CLOEXEC);
	if (!door || lock < 0 || flock(lock, LOCK_EX)) {
		fprintf(stderr, "weft torus: %s: %m\n", node);
		err = 1;
	} else {
		err = words[1] ? show(door, &a, true) : show_all(door);
	}
	if (door) {
		weft_torus_door_close(door);
		close(fd);
	}
	if (lock >= 0)
		close(lock);
	return err;
}
