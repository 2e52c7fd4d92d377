/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * SENDs that come to a process of a node of a live torus (weft/ape.h): each is a datagram. The library of the torus is loaded when such a
 * link is opened, so that programs which have none do not need it.
 *
 * The card puts the bytes into a receive of the link's, in the node's pool; it is posted again when the datagram was looked at.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/stream.h"
#include "weft/ape.h"

#define LIBRARY	   "libweft-ape.so.0"
#define RECEIVES   32u
#define ROOM_BYTES ((uint64_t)RECEIVES * WEFT_STREAM_LONGEST)

#define CALLS(X)                                                                                   \
	X(open)                                                                                    \
	X(close)                                                                                   \
	X(alloc)                                                                                   \
	X(free)                                                                                    \
	X(receive)                                                                                 \
	X(unregister)                                                                              \
	X(poll)                                                                                    \
	X(wait)                                                                                    \
	X(fd)

struct torus {
	struct weft_stream_link link;
	void *library;
	struct ape *ape;
	uint8_t *room;
	int buffer[RECEIVES];	 /* of each part of the room; negative: it is not posted */
	uint8_t given[RECEIVES]; /* parts that the caller looks at */
	uint32_t givens;
	uint64_t seen;
	int failed;
#define X(name) __typeof__(ape_##name) *name;
	CALLS(X)
#undef X
};

/* It lies beside the library that this is a part of, or where the loader looks. */
static int load_library(struct torus *t)
{
	char path[4096];
	Dl_info self;
	const char *end = dladdr((void *)load_library, &self) && self.dli_fname
				  ? strrchr(self.dli_fname, '/')
				  : NULL;
	bool all = true;

	if (end) {
		snprintf(path, sizeof(path), "%.*s" LIBRARY, (int)(end + 1 - self.dli_fname),
			 self.dli_fname);
		t->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	}
	if (!t->library)
		t->library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!t->library)
		return -ENOTSUP;
#define X(name) all = (t->name = (__typeof__(t->name))dlsym(t->library, "ape_" #name)) && all;
	CALLS(X)
#undef X
	return all ? 0 : -ENOTSUP;
}

static void close_torus(struct weft_stream_link *link)
{
	struct torus *t = (struct torus *)link;

	for (uint32_t i = 0; t->ape && t->room && i < RECEIVES; i++)
		if (t->buffer[i] >= 0)
			t->unregister(t->ape, t->buffer[i]);
	if (t->ape && t->room)
		t->free(t->ape, t->room, ROOM_BYTES);
	if (t->ape)
		t->close(t->ape);
	if (t->library)
		dlclose(t->library);
	free(t);
}

static int post_part(struct torus *t, uint32_t part)
{
	t->buffer[part] = t->receive(t->ape, t->room + (size_t)part * WEFT_STREAM_LONGEST,
				     WEFT_STREAM_LONGEST, part);
	return t->buffer[part] < 0 ? t->buffer[part] : 0;
}

static int begin_receives(struct torus *t, const char *node, int process)
{
	int answer = load_library(t);

	if (!answer)
		answer = t->open(node, process, &t->ape);
	if (!answer)
		t->link.fd = t->fd(t->ape);
	if (!answer && t->link.fd < 0)
		answer = t->link.fd;
	if (!answer && !(t->room = t->alloc(t->ape, ROOM_BYTES)))
		answer = -ENOMEM;
	for (uint32_t i = 0; i < RECEIVES; i++)
		t->buffer[i] = -1;
	for (uint32_t i = 0; !answer && i < RECEIVES; i++)
		answer = post_part(t, i);
	return answer;
}

static int open_torus(const char *where, struct weft_stream_link_options *options,
		      struct weft_stream_link **link)
{
	struct torus *t;
	char *end;
	unsigned long process = strtoul(where, &end, 10);
	int answer;

	options->wrong = "torus: it is no PROCESS or PROCESS@NODE, or no node is named";
	if (*where < '0' || *where > '9' || process > 63 || (*end && *end != '@'))
		return -EINVAL;
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->link = (struct weft_stream_link){&weft_stream_torus, -1};
	answer = begin_receives(t, *end ? end + 1 : NULL, (int)process);
	if (answer)
		close_torus(&t->link);
	else
		*link = &t->link;
	return answer;
}

/* What was given last is looked at: senders may have those parts again. */
static void post_given(struct torus *t)
{
	for (uint32_t i = 0; i < t->givens && !t->failed; i++)
		t->failed = post_part(t, t->given[i]);
	t->givens = 0;
}

static int receive_torus(struct weft_stream_link *link, const struct weft_stream_places *places,
			 struct weft_stream_run run[])
{
	struct torus *t = (struct torus *)link;
	struct ape_event event[RECEIVES];
	int runs = 0, came;

	post_given(t);
	came = t->poll(t->ape, event, RECEIVES);
	for (int i = 0; i < came; i++) {
		uint32_t part = (uint32_t)event[i].tag, bytes = (uint32_t)event[i].bytes;

		t->buffer[part] = -1;
		t->given[t->givens++] = (uint8_t)part;
		if (event[i].status == APE_OK)
			run[runs++] = (struct weft_stream_run){
				t->room + (size_t)part * WEFT_STREAM_LONGEST, bytes,
				bytes ? bytes : 1, WEFT_STREAM_NOWHERE};
	}
	return runs ? runs : t->failed;
}

static bool sleep_torus(struct weft_stream_link *link)
{
	struct torus *t = (struct torus *)link;
	uint64_t news;

	if (read(link->fd, &news, sizeof(news)) < 0)
		return true;
	if (t->wait(t->ape, &t->seen, 0) < 0)
		t->failed = -ENETDOWN;
	return false;
}

const struct weft_stream_link_kind weft_stream_torus = {
	.name = "torus",
	.open = open_torus,
	.receive = receive_torus,
	.sleep = sleep_torus,
	.close = close_torus,
};
