/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/stream.h"

#include <stddef.h>
#include <string.h>

#include "cli/cli.h"

const char weft_stream_usage[] =
	"Usage: weft stream generate [OPTION…]\n"
	"       weft stream trigger --read FILE [OPTION…]\n\n"
	"Streams of datagrams, as detectors send them.\n\n"
	"  generate  events of a ring-imaging detector, as the seed decides them, into a capture\n"
	"  trigger   receives the events of a capture, finds their rings, makes primitives\n\n"
	"  --write FILE      the capture: pcap, or pcapng if so it ends; of primitives (trigger)\n"
	"  --truth FILE      what the events are made of, which no datagram tells (generate)\n"
	"  --events N        how many (default: 10000)\n"
	"  --seed N          (default: 1)\n"
	"  --rings F,F,F,F,F how many events in all have 0, 1, 2, 3, 4 rings\n"
	"  --photons N       of the largest ring, in the mean (default: 12)\n"
	"  --noise N         hits an event, in the mean (default: 0.5)\n"
	"  --rate HZ         of events (default: 1e7), Poisson; --even: one like the other\n"
	"  --pace WIRE       when datagrams are sent: 1gbe, 10gbe, apelink, 4x10gbe and such; or\n"
	"                    free, the default: as the events happen\n"
	"  --most N          events a datagram (default: as many as it has room for)\n"
	"  --source N        0 to 255, in each datagram; --stamp: each has the time it was sent\n"
	"  --scramble        labels mean nothing\n\n"
	"  --read FILE       a capture, pcap or pcapng, of events over UDP (trigger)\n"
	"  --port N          to which they are sent (default: 6666)\n"
	"  --algorithm NAME  crawford, taubin (one ring through all hits), almagest (the "
	"default),\n"
	"                    histogram; --drop: outliers of one ring are dropped\n"
	"  --gather N        events in a buffer, until it is looked at (default: 1024)\n"
	"  --fits FILE       the rings of each event\n"
	"  --json            one JSON object: trigger, gathering_ns, account\n\n"
	"0; 1 it could not be done; 2 wrong usage.\n";

static const struct {
	const char *name;
	int (*main)(int argc, char **argv);
} verbs[] = {
#define X(verb) {#verb, weft_stream_##verb},
	WEFT_STREAM_VERBS(X)
#undef X
};

int weft_stream_main(int argc, char **argv)
{
	if (argc < 2)
		return weft_main_usage_error("stream", "what of streams?");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (!strcmp(argv[1], verbs[i].name))
			return verbs[i].main(argc - 1, argv + 1);
	return weft_main_usage_error("stream", "there is no '%s'", argv[1]);
}
