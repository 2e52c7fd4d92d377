/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The card: `weftd ADDRESS [SECONDS]`, a member of the pool that plays a network card for one address of its
 * network namespace, on UDP port 4791. It says on its output when it does, and ends when it is told to, or so many
 * seconds after its last queue pair. The streams that it was started with it keeps only until it is ready.
 *
 * `weftd ape HOME X,Y,Z`: the card of a node of a torus (card/torus/), which `weft torus up` starts.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "card/alone.h"
#include "card/loop.h"
#include "card/prompt.h"
#include "card/torus/torus.h"
#include "link/owner.h"
#include "nic/errors.h"
#include "pool/format_member.h"
#include "pool/slice.h"
#include "process/gid.h"
#include "process/interface.h"
#include "process/process.h"

#define BUFFER_BYTES (4u << 20)
#define SLACK_NS     1000u
#define NS_A_SECOND  1000000000ull
#define LOOKS	     25
#define LOOK_US	     10000

static atomic_bool stop;

static void stop_soon(int signal)
{
	atomic_store(&stop, true);
}

static int complain(const char *address, const char *what, int err)
{
	fprintf(stderr, "weftd: %s: %s: %s\n", address, what, strerror(err));
	return 1;
}

/* Whether another member, in this network namespace, is the card of that address. */
static bool is_played_already(struct weft_pool *pool, const uint8_t gid[16])
{
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++)
		if (weft_is_near(pool, i) && (m = weft_pool_member(pool, i)) &&
		    m->net_ns == pool->self->net_ns &&
		    atomic_load_explicit(&m->card.reach, memory_order_acquire) != WEFT_CARD_NONE &&
		    weft_card_plays(&m->card, gid))
			return true;
	return false;
}

/* The port is taken: says by which process, unless that is a card that plays the address for this pool already. */
static int find_other(const char *address, const uint8_t gid[16])
{
	char owner[WEFT_OWNER_TEXT];

	for (int i = 0; i < LOOKS; i++) {
		if (is_played_already(weft_process.pool, gid))
			return 0;
		usleep(LOOK_US);
	}
	fprintf(stderr, "weftd: %s: UDP port 4791 is taken by %s\n", address,
		weft_owner_of_port(gid, WEFT_ROCE_PORT, owner) ? owner
							       : "a socket that has gone since");
	return 1;
}

/* Lets go of the streams of the program that has started the card, as the card may outlive it. */
static void let_go_of_streams(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++)
		dup2(null, stream);
	close(null);
}

static int play_card(const char *address, struct weft_out *out, struct weft_udp *udp,
		     const uint8_t gid[16], uint64_t linger_ns)
{
	static struct weft_wire wire;
	struct weft_loop loop;
	int err = weft_loop_begin(&loop, &wire, udp, linger_ns);
	uint32_t mtu = 128u << weft_interface_carries(gid);

	if (err)
		return complain(address, "cannot start", -err);
	err = weft_wire_begin(&wire, &weft_process_nic, weft_caller(), gid, mtu, out);
	if (err) {
		weft_loop_end(&loop);
		return complain(address, "cannot start", -err);
	}
	loop.groups.pool = weft_process.pool;
	loop.groups.interface = out->interface;
	memcpy(loop.groups.address, gid, 16);
	printf("weftd: %s: ready\n", address);
	fflush(stdout);
	let_go_of_streams();
	prctl(PR_SET_TIMERSLACK, SLACK_NS);
	weft_card_be_prompt();
	weft_loop_run(&loop, &stop);
	weft_wire_end(&wire);
	weft_loop_end(&loop);
	return 0;
}

/* Joins the pool and plays the card; the socket is open, as without it the card need not join. */
static int join_and_play(const char *address, struct weft_udp *udp,
			 const struct weft_udp_config *config, uint64_t linger_ns)
{
	struct weft_out *out = calloc(1, sizeof(*out));
	int status;

	if (!out)
		return complain(address, "cannot start", ENOMEM);
	if (weft_process_get(&weft_alone_api)) {
		free(out);
		return 1;
	}
	out->udp = udp;
	out->interface = config->interface;
	out->port = WEFT_ROCE_PORT;
	status = play_card(address, out, udp, config->address, linger_ns);
	weft_process_put();
	free(out);
	return status;
}

static int open_and_play(const char *address, uint64_t linger_ns)
{
	struct weft_udp_config config = {
		.port = WEFT_ROCE_PORT, .unheard = true, .buffer_bytes = BUFFER_BYTES};
	struct weft_udp *udp;
	int status, err;

	if (!weft_gid_parse(address, config.address)) {
		fprintf(stderr, "weftd: %s: no address\n", address);
		return 2;
	}
	config.interface = weft_gid_interface(config.address);
	if (!config.interface)
		return complain(address, "not of this network namespace", EADDRNOTAVAIL);
	err = weft_udp_open(&config, &udp);
	if (err == -EADDRINUSE) {
		if (weft_process_get(&weft_alone_api))
			return 1;
		status = find_other(address, config.address);
		weft_process_put();
		return status;
	}
	if (err)
		return complain(address, "UDP port 4791", -err);
	status = join_and_play(address, udp, &config, linger_ns);
	weft_udp_close(udp);
	return status;
}

/* The card of a node of a torus; until SIGTERM. */
static int play_node(const char *home, const char *node)
{
	const char *why = NULL;
	unsigned int value[3];
	int end = -1, err;

	if (sscanf(node, "%3u,%3u,%3u%n", &value[0], &value[1], &value[2], &end) != 3 ||
	    node[end]) {
		fprintf(stderr, "weftd: %s: no node\n", node);
		return 2;
	}
	err = weft_torus_card_run(
		home, (const uint8_t[]){(uint8_t)value[0], (uint8_t)value[1], (uint8_t)value[2]},
		&why);
	if (err)
		fprintf(stderr, "weftd: node %s: %s: %s\n", node, why, strerror(-err));
	return err ? 1 : 0;
}

static bool read_seconds(const char *text, uint64_t *ns)
{
	char *end;
	unsigned long seconds = strtoul(text, &end, 10);

	*ns = seconds * NS_A_SECOND;
	return *text >= '0' && *text <= '9' && !*end && seconds <= UINT32_MAX;
}

int main(int argc, char **argv)
{
	const struct sigaction ends = {.sa_handler = stop_soon};
	uint64_t linger_ns = UINT64_MAX;

	if (argc == 4 && !strcmp(argv[1], "ape"))
		return play_node(argv[2], argv[3]);
	if (argc < 2 || argc > 3 || (argc == 3 && !read_seconds(argv[2], &linger_ns))) {
		fprintf(stderr, "usage: weftd ADDRESS [SECONDS] | weftd ape HOME X,Y,Z\n");
		return 2;
	}
	sigaction(SIGTERM, &ends, NULL);
	sigaction(SIGINT, &ends, NULL);
	return open_and_play(argv[1], linger_ns);
}
