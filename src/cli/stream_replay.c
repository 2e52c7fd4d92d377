/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/report.h"
#include "cli/stream.h"
#include "link/frame.h"
#include "link/pcap.h"
#include "pool/clock.h"
#include "stream/pace.h"
#include "stream/sender.h"

struct job {
	const char *read, *to;
	struct weft_pace pace;
	bool paced, scaled, json;
	double scale; /* of the times between datagrams */
	uint64_t port, segments;
	/* while it runs */
	struct weft_sender *sender;
	uint64_t begin_ns, first_ns, others;
	double due_ns;
	bool begun;
};

enum { READ = 256, TO, PACE, SCALE, PORT, SEGMENTS, JSON };

static const struct option words[] = {
	{"read", required_argument, NULL, READ}, {"to", required_argument, NULL, TO},
	{"pace", required_argument, NULL, PACE}, {"scale", required_argument, NULL, SCALE},
	{"port", required_argument, NULL, PORT}, {"segments", required_argument, NULL, SEGMENTS},
	{"json", no_argument, NULL, JSON},	 {0},
};

static bool take_replay(void *context, int option)
{
	struct job *job = context;

	switch (option) {
	case READ:
		job->read = optarg;
		return true;
	case TO:
		job->to = optarg;
		return true;
	case PACE:
		job->paced = true;
		return weft_pace_named(optarg, &job->pace);
	case SCALE:
		job->scaled = true;
		return weft_stream_real(optarg, 0, 1e6, &job->scale);
	case PORT:
		return weft_stream_number(optarg, 1, UINT16_MAX, &job->port);
	case SEGMENTS:
		return weft_stream_number(optarg, 1, WEFT_SENDER_SEGMENTS, &job->segments);
	case JSON:
		job->json = true;
		return true;
	default:
		return false;
	}
}

static void send_frame(struct job *job, const struct weft_pcap_packet *packet,
		       const struct weft_frame *frame)
{
	if (!job->begun) {
		job->begun = true;
		job->begin_ns = weft_clock_now_ns();
		job->first_ns = packet->time_ns;
	}
	if (!job->paced)
		job->due_ns = (double)(int64_t)(packet->time_ns - job->first_ns) * job->scale;
	if (job->due_ns > 0)
		weft_sender_wait(job->sender, job->begin_ns + (uint64_t)job->due_ns);
	weft_sender_put(job->sender, frame->payload, frame->bytes);
	if (job->paced)
		job->due_ns += weft_pace_ns(&job->pace, frame->bytes);
}

static int replay(struct job *job, const char **why)
{
	struct weft_pcap_reader *reader;
	struct weft_pcap_packet packet;
	struct weft_frame frame;
	int err = weft_pcap_open(job->read, &reader, why);

	if (err)
		return err;
	weft_sender_until(job->sender, weft_stream_sender_over, job->sender);
	while (!weft_stream_sender_over(job->sender) &&
	       (err = weft_pcap_next(reader, &packet, why)) > 0)
		if (weft_frame_parse((enum weft_frame_kind)packet.linktype, packet.data,
				     packet.bytes, &frame) == WEFT_FRAME_UDP &&
		    (!job->port || frame.to_port == job->port))
			send_frame(job, &packet, &frame);
		else
			job->others++;
	weft_sender_flush(job->sender);
	weft_pcap_close(reader);
	return err > 0 ? 0 : err;
}

static void report_replay(const struct job *job)
{
	static const struct weft_column columns[] = {
		{"read", WEFT_COLUMN_TEXT},
		{"to", WEFT_COLUMN_TEXT},
		{"others", WEFT_COLUMN_NUMBER},
		{NULL},
	};
	struct weft_report r;

	weft_report_begin(&r, job->json);
	weft_report_section(&r, "replay", true, columns);
	weft_report_row(&r);
	weft_report_text(&r, job->read);
	weft_report_text(&r, job->to);
	weft_report_number(&r, job->others);
	weft_stream_report_sent(&r, job->sender);
	weft_report_end(&r);
}

int weft_stream_replay(int argc, char **argv)
{
	struct job job = {.scale = 1, .segments = 1};
	int status = weft_stream_options(argc, argv, words, take_replay, &job), err;
	const char *why;

	if (status)
		return status;
	if (!job.read || !job.to)
		return weft_main_usage_error("stream", "replay --read FILE --to udp:ADDRESS:PORT");
	if (job.paced && job.scaled)
		return weft_main_usage_error("stream", "either --pace or --scale");
	weft_stream_catch();
	err = weft_sender_open(job.to, (uint32_t)job.segments, &job.sender);
	if (err)
		return weft_stream_fail("replay", job.to, strerror(-err));
	err = replay(&job, &why);
	if (err)
		status = weft_stream_fail_errno("replay", job.read, why, err);
	else
		report_replay(&job);
	if (!err)
		status = weft_stream_sent_status("replay", job.to, job.sender);
	weft_sender_close(job.sender);
	return status;
}
