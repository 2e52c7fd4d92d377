/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The engine against itself in virtual time: `test-wire-sim` plays some thousand games, `--seeds N` so
 * many, `--first S` from that on, `--seed S` one, which it tells about. A game that goes wrong is made
 * shorter, and printed with its seed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"

#include "../random.h"

#define MSECOND	 1000000ull
#define PATIENCE (1000 * MSECOND) /* of a game */

static uint64_t below(uint64_t *seed, uint64_t limit)
{
	return splitmix64(seed) % limit;
}

static void make_wires(struct game *g, uint64_t *seed)
{
	static const uint32_t heavy[] = {0, 100, 655, 655, 6000, 13107};
	uint64_t delay_ns = 500 + below(seed, 20000), kind = below(seed, 10);
	uint32_t much = heavy[below(seed, 6)];

	g->harsh = kind >= 7 && much > 655;
	g->stops = kind == 9;
	for (int i = 0; i < 2; i++) {
		struct weft_sim_wire *w = &g->wire[i];

		w->delay_ns = delay_ns;
		w->ns_per_byte_1024 = below(seed, 3) ? 1024 * below(seed, 8) / 8 : 0;
		w->late_ns = below(seed, 64) * 1000;
		if (kind < 2)
			continue;
		w->lost = kind == 2 || kind >= 6 ? (g->harsh ? much : 655) : 0;
		w->doubled = kind == 3 || kind >= 6 ? much : 0;
		w->late = kind == 4 || kind >= 6 ? much : 0;
		w->corrupted = kind == 5 || kind >= 6 ? (g->harsh ? much / 4 : 300) : 0;
	}
}

static struct weft_roce_route route(bool six, bool back)
{
	struct weft_roce_route r = {.src_port = 0xc000, .dst_port = WEFT_ROCE_PORT};

	if (six) {
		memcpy(r.src, "\xfe\x80\0\0\0\0\0\0\2\0\0\0\0\0\0\1", 16);
		memcpy(r.dst, "\xfe\x80\0\0\0\0\0\0\2\0\0\0\0\0\0\2", 16);
	} else {
		memcpy(r.src, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
		memcpy(r.dst, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
	}
	if (back) {
		uint8_t swapped[16];

		memcpy(swapped, r.src, 16);
		memcpy(r.src, r.dst, 16);
		memcpy(r.dst, swapped, 16);
	}
	return r;
}

/* PSNs begin just before their wrap. */
static void make_pair(struct game *g, uint32_t pair, uint64_t *seed)
{
	struct weft_roce_config config[2];
	uint32_t psn[2] = {(uint32_t)(0xffffff - below(seed, 30)),
			   (uint32_t)(0xffffff - below(seed, 30))};
	uint8_t reads = (uint8_t)(1 + below(seed, 16));

	for (int i = 0; i < 2; i++)
		config[i] = (struct weft_roce_config){
			.service = WEFT_ROCE_RC,
			.route = route(g->six, i),
			.qpn = 0x100 + 16 * pair + (uint32_t)i,
			.dest_qpn = 0x100 + 16 * pair + (uint32_t)!i,
			.pkey = 0xffff,
			.mtu = g->mtu,
			.sq_psn = psn[i],
			.rq_psn = psn[!i],
			.timeout = 8,
			.retry_cnt = 7,
			.rnr_retry = g->starving ? 3 : 7,
			.min_rnr_timer = (uint8_t)(1 + below(seed, 4)),
			.max_rd_atomic = reads,
			.max_dest_rd_atomic = reads,
		};
	host_connect(g, pair, config);
	for (int i = 0; i < 2; i++) {
		plan_fill(&g->side[i][pair], seed);
		g->side[i][pair].id = g->counts ? (uint16_t)splitmix64(seed) : 0;
	}
}

static bool over(const struct game *g)
{
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < g->pairs; p++)
			if (!g->side[i][p].dead && g->side[i][p].ended < g->side[i][p].planned)
				return false;
	return true;
}

/* Every request must end in time; on a wire that stopped, by the timers of the verb. */
static void judge(struct game *g, uint64_t stopped_ns)
{
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < g->pairs; p++) {
			struct side *s = &g->side[i][p];
			uint64_t patience_ns = 8 * (4096ull << 8);

			if (!s->dead && s->ended < s->planned)
				host_wrong(g, s, "requests never end");
			if (stopped_ns && s->cause == WEFT_CAUSE_NO_ANSWER &&
			    s->failed_ns > stopped_ns + patience_ns * 3 / 2 + 50 * MSECOND)
				host_wrong(g, s, "silence was noticed too late");
			plan_compare(s);
		}
}

/* A game, with at most so many requests of each side; its trace. */
static uint64_t play(uint64_t seed, uint32_t most, struct game *g)
{
	uint64_t made = seed, stop_ns;

	memset(g, 0, sizeof(*g));
	weft_sim_begin(&g->sim, seed);
	g->most = most;
	g->pairs = 1 + (uint32_t)below(&made, PAIRS);
	g->mtu = 256u << (below(&made, 3) ? below(&made, 2) : below(&made, 5));
	g->receive_bytes = g->mtu > 1024 ? 2 * g->mtu : 4 * g->mtu;
	g->six = below(&made, 2);
	g->counts = !g->six && below(&made, 2);
	g->later = !below(&made, 4);
	g->starving = !below(&made, 16);
	make_wires(g, &made);
	host_begin(g);
	for (uint32_t p = 0; p < g->pairs; p++)
		make_pair(g, p, &made);
	stop_ns = g->stops ? 1 + below(&made, 300000) : 0;
	while (g->sim.now_ns < PATIENCE && !over(g) && !g->wrong) {
		if (!weft_sim_step(&g->sim, stop_ns ? stop_ns : PATIENCE)) {
			g->wire[0].stopped = g->wire[1].stopped = true;
			if (!weft_sim_step(&g->sim, PATIENCE))
				break;
		}
		if (stop_ns && g->sim.now_ns >= stop_ns && !g->wire[0].stopped)
			g->wire[0].stopped = g->wire[1].stopped = true;
	}
	/* what is under way, and comes twice, must do no harm */
	weft_sim_run(&g->sim, g->sim.now_ns + MSECOND);
	judge(g, stop_ns);
	host_end(g);
	return g->trace ^ g->sim.happened;
}

static int tell(uint64_t seed, struct game *g)
{
	uint32_t most = 1;

	while (most < REQUESTS && (play(seed, most, g), !g->wrong))
		most++;
	play(seed, most, g);
	printf("not ok 1 - games\n# seed %llu, %u requests a side: %s\n", (unsigned long long)seed,
	       most, g->where);
	printf("# %u pairs, MTU %u, lost %u doubled %u late %u corrupted %u of 65536%s%s%s\n",
	       g->pairs, g->mtu, g->wire[0].lost, g->wire[0].doubled, g->wire[0].late,
	       g->wire[0].corrupted, g->stops ? ", stops" : "", g->later ? ", later" : "",
	       g->starving ? ", starving" : "");
	return 1;
}

static void count(const struct game *g, struct weft_roce_counters *sum, uint64_t *failed)
{
	for (int i = 0; i < 2; i++)
		for (uint32_t p = 0; p < g->pairs; p++) {
			const struct weft_roce_counters *c = &g->side[i][p].qp.counters;

			sum->sent += c->sent;
			sum->sent_again += c->sent_again;
			sum->duplicates += c->duplicates;
			sum->rnr_sent += c->rnr_sent;
			sum->timeouts += c->timeouts;
			sum->probes += c->probes;
			*failed += g->side[i][p].failed;
		}
}

int main(int argc, char **argv)
{
	struct game *g = malloc(sizeof(*g));
	struct weft_roce_counters sum = {0};
	uint64_t seeds = 2000, first = 1, failed = 0;

	for (int i = 1; i + 1 < argc; i += 2) {
		uint64_t value = strtoull(argv[i + 1], NULL, 0);

		if (!strcmp(argv[i], "--seeds")) {
			seeds = value;
		} else if (!strcmp(argv[i], "--first")) {
			first = value;
		} else if (!strcmp(argv[i], "--seed")) {
			first = value;
			seeds = 1;
		}
	}
	printf("1..1\n");
	for (uint64_t seed = first; seed < first + seeds; seed++) {
		uint64_t trace = play(seed, REQUESTS, g);

		if (g->wrong)
			return tell(seed, g);
		count(g, &sum, &failed);
		if (!(seed % 100) && play(seed, REQUESTS, g) != trace) {
			printf("not ok 1 - games\n# seed %llu: two traces\n",
			       (unsigned long long)seed);
			return 1;
		}
	}
	printf("ok 1 - games\n# %llu games: %llu packets, %llu again, %llu duplicates, %llu "
	       "without receive, "
	       "%llu time-outs, %llu probes, %llu connections failed\n",
	       (unsigned long long)seeds, (unsigned long long)sum.sent,
	       (unsigned long long)sum.sent_again, (unsigned long long)sum.duplicates,
	       (unsigned long long)sum.rnr_sent, (unsigned long long)sum.timeouts,
	       (unsigned long long)sum.probes, (unsigned long long)failed);
	free(g);
	return 0;
}
