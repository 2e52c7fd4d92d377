/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/playback.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/frame.h"
#include "link/pcap.h"

struct playback {
	const struct weft_playback_options *options;
	struct weft_nanet *engine;
	void *memory;
	uint8_t *buffers;
	struct weft_nanet_out out;
};

static uint8_t *buffer_of(const struct playback *p, uint32_t buffer)
{
	return p->buffers + (size_t)buffer * p->options->list.bytes;
}

static void tell_record(struct playback *p, const struct weft_clop_record *record)
{
	p->options->told(p->options->context, record, buffer_of(p, record->buffer));
	weft_nanet_give_back(p->engine, 0, record->buffer, record->generation);
}

static void follow_datagram(struct playback *p, const uint8_t *data)
{
	for (uint32_t i = 0; i < p->out.steps; i++) {
		const struct weft_nanet_step *s = &p->out.step[i];

		if (s->kind == WEFT_NANET_PLACE)
			memcpy(buffer_of(p, s->place.buffer) + s->place.offset,
			       data + s->place.from, s->place.bytes);
		else
			tell_record(p, &s->record);
	}
}

/* Tells of each buffer that the engine says, when no datagram was given and there is nothing to copy. */
static void tell_all(struct playback *p)
{
	for (uint32_t i = 0; i < p->out.steps; i++)
		tell_record(p, &p->out.step[i].record);
}

static void receive(struct playback *p, const struct weft_pcap_packet *packet,
		    struct weft_playback_result *result)
{
	struct weft_frame frame;
	enum weft_frame_verdict verdict = weft_frame_parse((enum weft_frame_kind)packet->linktype,
							   packet->data, packet->bytes, &frame);
	uint64_t at_ns;

	while ((at_ns = weft_nanet_deadline(p->engine)) <= packet->time_ns) {
		weft_nanet_timer(p->engine, at_ns, &p->out);
		tell_all(p);
	}
	result->packets++;
	if (verdict == WEFT_FRAME_UDP && frame.to_port == p->options->port) {
		weft_nanet_receive(p->engine, 0, frame.payload, frame.bytes, UINT16_MAX,
				   packet->time_ns, &p->out);
		follow_datagram(p, frame.payload);
	} else {
		result->damaged += verdict == WEFT_FRAME_CUT || verdict == WEFT_FRAME_WRONG;
		result->others += verdict == WEFT_FRAME_OTHER || verdict == WEFT_FRAME_UDP;
	}
}

static int begin_playback(struct playback *p, const char **why)
{
	const struct weft_playback_options *o = p->options;
	const struct weft_nanet_source_options source = {0, o->protocol, o->window, o->history,
							 o->jump};
	const struct weft_nanet_options options = {1, 1, &source, &o->list};

	*why = weft_nanet_wrong(&options);
	if (*why)
		return -EINVAL;
	*why = "no memory";
	p->memory = malloc(weft_nanet_bytes(&options));
	p->buffers = calloc(o->list.buffers, o->list.bytes);
	if (!p->memory || !p->buffers)
		return -ENOMEM;
	p->engine = weft_nanet_begin(&options, p->memory);
	return 0;
}

int weft_playback(const char *path, const struct weft_playback_options *options,
		  struct weft_playback_result *result, const char **why)
{
	struct playback *p = calloc(1, sizeof(*p));
	struct weft_pcap_reader *reader;
	struct weft_pcap_packet packet;
	int err = -ENOMEM;

	*result = (struct weft_playback_result){0};
	*why = "no memory";
	if (!p)
		return err;
	p->options = options;
	err = begin_playback(p, why);
	if (!err)
		err = weft_pcap_open(path, &reader, why);
	if (err)
		goto free_memory;
	while ((err = weft_pcap_next(reader, &packet, why)) > 0)
		receive(p, &packet, result);
	weft_nanet_flush(p->engine, 0, &p->out);
	tell_all(p);
	weft_nanet_account(p->engine, 0, &result->account);
	weft_pcap_close(reader);
free_memory:
	free(p->buffers);
	free(p->memory);
	free(p);
	return err;
}
