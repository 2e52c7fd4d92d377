/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Receives datagrams into 8 buffers of 1 MiB, and says of each buffer what is in it, until SIGINT:
 * stream udp:127.0.0.1:6666 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/stream.h>

static void must(int answer, const char *what, const struct weft_stream *stream)
{
	if (!answer)
		return;
	fprintf(stderr, "cannot %s: %s\n", what,
		answer == -EINVAL && stream ? weft_stream_wrong(stream) : strerror(-answer));
	exit(1);
}

static void wake(int signal)
{
}

int main(int argc, char **argv)
{
	const struct sigaction interrupt = {.sa_handler = wake};
	const struct weft_stream_list list = {
		.buffers = 8, .bytes = 1 << 20, .timeout_ns = 100000000};
	const struct weft_stream_source source = {.from = argc > 1 ? argv[1] : ""};
	struct weft_stream_counters counters;
	struct weft_stream *stream = NULL;
	struct weft_stream_event event;
	void *memory;
	int answer;

	sigaction(SIGINT, &interrupt, NULL);
	must(weft_stream_open(0, &stream), "open", NULL);
	must(weft_stream_register(stream, &list, NULL, &memory), "register a list", stream);
	must(weft_stream_bind(stream, &source, NULL), "bind a source", stream);
	must(weft_stream_start(stream), "start", stream);
	while (!(answer = weft_stream_wait(stream, &event, -1))) {
		const unsigned char *bytes =
			(unsigned char *)memory + (size_t)event.buffer * list.bytes;

		printf("buffer %u: %u datagrams, %u bytes, the first is %u\n", event.buffer,
		       event.datagrams, event.bytes, *bytes);
		fflush(stdout);
		weft_stream_give_back(stream, event.list, event.buffer, event.generation);
	}
	weft_stream_stop(stream);
	weft_stream_counters(stream, WEFT_STREAM_ALL, &counters);
	printf("%llu datagrams came\n", (unsigned long long)counters.arrived);
	weft_stream_close(stream);
	return answer != -EINTR;
}
