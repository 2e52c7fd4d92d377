/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/ferry.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "process/plugin.h"

#define PAGE 4096ull

/* Of the copy engine: calls that are under way before they are waited for, and what two parts that go at one go may have between them. */
#define CALLS_MOST 16u
#define GAP_MOST   4096u

enum { BYTES, DATAGRAMS, WORDS, PARTS };

struct weft_ferry {
	const struct weft_plugin *plugin;
	void *memory; /* as the plugin knows it */
	void *pin;    /* of the host's room; NULL: the driver stages copies itself */
	void *pull;   /* the kernel that stays, or NULL */
	bool pulls;   /* it runs */
	uint64_t at;  /* in the GPU's addresses */
	uint8_t *host;
	uint64_t asked_bytes, len_bytes; /* of the host's room; whole pages of it */
	uint64_t carried;		 /* calls of weft_ferry_carry */
	/* of the copy engine: */
	struct weft_plugin_part
		part[PARTS]; /* what is to be sent at one go; without words, nothing */
	uint64_t waited;     /* of `carried`: all before is there */
	uint32_t calls;	     /* since the last wait */
	bool failed;	     /* something was not sent */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of weft_plugin_load */

static int begin_memory(struct weft_ferry *f, uint64_t len_bytes)
{
	int err;

	pthread_mutex_lock(&mutex);
	err = weft_plugin_load(&f->plugin);
	pthread_mutex_unlock(&mutex);
	if (err)
		return -ENOTSUP;
	err = f->plugin->begin(f->at, len_bytes, &f->memory);
	return err == -ENOENT || err == -EFAULT ? -EINVAL : err;
}

/* It reaches no room that is not pinned. */
static int begin_pull(struct weft_ferry *f)
{
	if (!f->pin)
		return -ENOTSUP;
	return f->plugin->pull_begin(f->memory, f->at, f->host, f->asked_bytes, &f->pull);
}

int weft_ferry_begin(void *memory, uint64_t len_bytes, bool resident, struct weft_ferry **ferry)
{
	struct weft_ferry *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->at = (uintptr_t)memory;
	f->asked_bytes = len_bytes;
	f->len_bytes = (len_bytes + PAGE - 1) & ~(PAGE - 1);
	err = begin_memory(f, len_bytes);
	if (err)
		goto free_ferry;
	f->host =
		mmap(NULL, f->len_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	err = -ENOMEM;
	if (f->host == MAP_FAILED)
		goto end_memory;
	/* without, copies take longer */
	if (f->plugin->pin(f->memory, f->host, f->len_bytes, &f->pin))
		f->pin = NULL;
	err = resident ? begin_pull(f) : 0;
	if (err)
		goto unmap;
	*ferry = f;
	return 0;
unmap:
	if (f->pin)
		f->plugin->unpin(f->pin);
	munmap(f->host, f->len_bytes);
end_memory:
	f->plugin->end(f->memory);
free_ferry:
	free(f);
	return err;
}

void weft_ferry_end(struct weft_ferry *f)
{
	if (f->pull)
		f->plugin->pull_end(f->pull);
	if (f->pin)
		f->plugin->unpin(f->pin);
	f->plugin->end(f->memory);
	munmap(f->host, f->len_bytes);
	free(f);
}

uint8_t *weft_ferry_host(const struct weft_ferry *f)
{
	return f->host;
}

int weft_ferry_issue(struct weft_ferry *f, uint64_t offset, uint64_t len_bytes)
{
	return f->plugin->issue(f->memory, f->at + offset, f->host + offset, len_bytes, true);
}

void weft_ferry_send(struct weft_ferry *f)
{
	if (!f->part[WORDS].len_bytes)
		return;
	f->failed |= f->plugin->issue_parts(f->memory, f->at, f->host, f->part, PARTS) != 0;
	f->part[WORDS].len_bytes = 0;
	f->calls++;
}

/* Whether that is of the buffer behind the last, and little lies between. */
static bool follows_last(const struct weft_ferry *f, const struct weft_plugin_part *bytes,
			 uint64_t word_at)
{
	const struct weft_plugin_part *before = &f->part[BYTES], *words = &f->part[WORDS];

	return words->len_bytes && words->offset + words->len_bytes == word_at &&
	       bytes->offset - before->offset - before->len_bytes <= GAP_MOST;
}

/* Behind what is to be sent: up to the end of that part. */
static void lengthen_part(struct weft_plugin_part *to, const struct weft_plugin_part *part)
{
	to->len_bytes = part->offset + part->len_bytes - to->offset;
}

static int carry_by_engine(struct weft_ferry *f, const struct weft_plugin_part part[2],
			   uint64_t word_at)
{
	const struct weft_plugin_part word = {word_at, sizeof(uint64_t)};

	if (follows_last(f, &part[0], word_at)) {
		lengthen_part(&f->part[BYTES], &part[0]);
		lengthen_part(&f->part[DATAGRAMS], &part[1]);
		lengthen_part(&f->part[WORDS], &word);
	} else {
		weft_ferry_send(f);
		f->part[BYTES] = part[0];
		f->part[DATAGRAMS] = part[1];
		f->part[WORDS] = word;
	}
	return f->failed ? -EFAULT : 0;
}

int weft_ferry_carry(struct weft_ferry *f, const struct weft_plugin_part part[2], uint64_t word_at)
{
	uint64_t word;
	int err;

	if (f->pulls) {
		memcpy(&word, f->host + word_at, sizeof(word));
		err = f->plugin->pull_put(f->pull, part, word_at, word);
	} else {
		err = carry_by_engine(f, part, word_at);
	}
	f->carried += !err;
	return err;
}

int weft_ferry_start(struct weft_ferry *f)
{
	int err = f->pull ? f->plugin->pull_start(f->pull) : 0;

	f->pulls = f->pull && !err;
	return err;
}

void weft_ferry_stop(struct weft_ferry *f)
{
	if (f->pulls)
		f->plugin->pull_stop(f->pull);
	f->pulls = false;
}

int weft_ferry_wait(struct weft_ferry *f)
{
	int err;

	if (f->pulls)
		return f->plugin->pull_wait(f->pull);
	weft_ferry_send(f);
	err = f->plugin->wait(f->memory);
	f->calls = 0;
	if (err || f->failed)
		return -EFAULT;
	f->waited = f->carried;
	return 0;
}

uint64_t weft_ferry_carried(const struct weft_ferry *f)
{
	return f->carried;
}

/* The engine tells only whether it has finished all, which it never has in a flow that is as fast as it is. */
uint64_t weft_ferry_done(struct weft_ferry *f)
{
	if (f->pulls)
		return f->plugin->pull_done(f->pull);
	if (f->waited == f->carried)
		return f->waited;
	weft_ferry_send(f);
	if (f->calls >= CALLS_MOST)
		weft_ferry_wait(f);
	else if (!f->plugin->ask(f->memory) && !f->failed)
		f->waited = f->carried;
	return f->waited;
}
