/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/stream.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

const char weft_stream_usage[] =
	"Usage: weft stream generate --write FILE | --to PLACE [OPTION…]\n"
	"       weft stream receive --from PLACE [OPTION…]\n"
	"       weft stream replay --read FILE --to PLACE [OPTION…]\n"
	"       weft stream trigger --read FILE | --from PLACE [OPTION…]\n"
	"       weft stream bench [--rounds N] [--socket BYTES] [--json]\n"
	"       weft stream latency [--seconds S] [--svg FILE] [--json]\n"
	"       weft stream info [--json]\n\n"
	"Streams of datagrams, as detectors send them. PLACE: udp:ADDRESS:PORT, ring:PATH;\n"
	"receivers also packet:INTERFACE:PORT, a port that another has; torus:PROCESS@NODE.\n\n"
	"  generate  events of a ring-imaging detector, as the seed decides them\n"
	"  receive   into buffers, and says what became of each datagram\n"
	"  replay    the datagrams of a capture\n"
	"  trigger   finds the rings of events, makes primitives\n"
	"  bench     how fast streams are taken, beside a bare loop on a socket\n"
	"  latency   from sending to being told, beside a ping-pong of bare sockets\n"
	"  info      what this machine has for streams\n\n"
	"generate:\n"
	"  --write FILE      into a capture: pcap, or pcapng if so it ends\n"
	"  --truth FILE      what the events are made of, which no datagram tells\n"
	"  --events N        how many (default: 10000); --seconds S: for so long\n"
	"  --seed N          (default: 1)\n"
	"  --rings F,F,F,F,F how many events in all have 0, 1, 2, 3, 4 rings\n"
	"  --photons N       of the largest ring, in the mean (default: 12)\n"
	"  --noise N         hits an event, in the mean (default: 0.5)\n"
	"  --rate HZ         of events (default: 1e7), Poisson; --even: one like the other\n"
	"  --pace WIRE       when datagrams are sent: 1gbe, 10gbe, apelink, 4x10gbe and such; or\n"
	"                    free, the default: as the events happen\n"
	"  --most N          events a datagram (default: as many as it has room for)\n"
	"  --source N        0 to 255, in each datagram; --stamp: each has the time it was sent\n"
	"  --scramble        labels mean nothing\n"
	"  --sequenced BYTES datagrams of so many bytes that have a number and nothing else\n"
	"  --segments N      so many datagrams a message (default: 1); replay, too\n"
	"  --back ADDRESS:PORT  primitives come back there, and are told how late\n"
	"receive:\n"
	"  --protocol NAME   raw (the default), mgp, ape; --field OFFSET,BITS[,big]: numbers stand "
	"there\n"
	"  --slots N         a place for each datagram, --longest BYTES each; --ordered by number\n"
	"  --write FILE      captures what came; --stamps: how long each stage took\n"
	"  --datagrams N     ends when so many came; --seconds S: after so long\n"
	"  --socket BYTES    of the socket's buffer; trigger, too\n"
	"  --quiet           no line each second\n"
	"replay:\n"
	"  --port N          those to that port (default: all); --pace WIRE; --scale X: of times\n"
	"trigger:\n"
	"  --port N          to which the events of a capture are sent (default: 6666)\n"
	"  --algorithm NAME  crawford, taubin (one ring through all hits), almagest (the "
	"default),\n"
	"                    histogram; --drop: outliers of one ring are dropped\n"
	"  --gather N        events in a buffer, until it is looked at (default: 1024)\n"
	"  --timeout US      or so long after its first datagram (default: 1000)\n"
	"  --fits FILE       the rings of each event; --write FILE: the primitives\n"
	"  --to PLACE        where primitives are sent; --seconds S: for so long; --from and --to\n"
	"                    may be said several times, for several sources at once\n"
	"  --spin US         it looks for datagrams for so long before it sleeps (default: 0)\n"
	"  --threads N       that look at buffers of each source (default: 1)\n"
	"  --gpu N           buffers lie in that GPU, which looks at them; --pull: a kernel that\n"
	"                    stays there fills them\n"
	"bench:\n"
	"  --rounds N        the fastest of so many (default: 101)\n\n"
	"  --json            the report as one JSON object\n"
	"  --svg FILE        a picture of the histograms: generate, receive, trigger, latency\n\n"
	"0; 1 it could not be done, or a bound of bench was missed; 2 wrong usage.\n";

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} verbs[] = {
#define X(verb) {#verb, weft_stream_##verb},
	WEFT_STREAM_VERBS(X)
#undef X
};

/* Takes --svg FILE out of the options, which all verbs have, and returns the file; or NULL. */
static const char *take_picture(int *argc, char **argv)
{
	for (int i = 1; i + 1 < *argc; i++)
		if (!strcmp(argv[i], "--svg")) {
			const char *path = argv[i + 1];

			*argc -= 2;
			memmove(&argv[i], &argv[i + 2], (size_t)(*argc + 1 - i) * sizeof(*argv));
			return path;
		}
	return NULL;
}

/* Found before hours have been measured. 0, or 1 or 2: it has been said. */
static int look_at_picture(const char *picture, int argc, char **argv)
{
	char folder[PATH_MAX];

	for (int i = 1; i < argc; i++)
		if (weft_stream_is_same_file(picture, argv[i]))
			return weft_main_usage_error(
				"stream", "--svg %s would be over another of the files", picture);
	snprintf(folder, sizeof(folder), "%s", picture);
	if (access(picture, W_OK) && (errno != ENOENT || access(dirname(folder), W_OK)))
		return weft_stream_fail(argv[0], picture, strerror(errno));
	return 0;
}

static int run_verb(int (*verb)(int argc, char **argv), int argc, char **argv)
{
	const char *picture = take_picture(&argc, argv);
	int status = picture ? look_at_picture(picture, argc, argv) : 0, err;

	if (status)
		return status;
	weft_stream_svg_begin(picture);
	status = verb(argc, argv);
	err = status ? 0 : weft_stream_svg_end();
	return err ? weft_stream_fail(argv[0], picture, strerror(-err)) : status;
}

int weft_stream_main(int argc, char **argv)
{
	if (argc < 2)
		return weft_main_usage_error("stream", "what of streams?");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			return run_verb(verbs[i].main, argc - 1, argv + 1);
	return weft_main_usage_error("stream", "there is no '%s'", argv[1]);
}
