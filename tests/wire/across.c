/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Both ends of a connection by a script that each knows: what one posts, the other expects, and after
 * each step each compares every byte of its memory with what it must be. `across WHERE HOST` on one
 * side and `across WHERE` on the other; WHERE: an address of ours (the engine), or the index of a GID
 * (libibverbs).
 *
 *	-i INTERFACE  of a link-local address	-m MTU	  256 to 4096
 *	-l BYTES  the longest message		-n STEPS  random ones
 *	-s SEED	  of those			-u	  UC
 *	-f FAULTS  of its wire (end_spoil)	-e	  errors in place of all that
 *	-t CODE	  of the time-out		-k KIND	  of memory (across_memory.h)
 */
#include "across.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../random.h"
#include "across_errors.h"
#include "talk.h"

#define PORT	    "18516"
#define SLACK	    4096u
#define DEEDS	    4u
#define PATIENCE_NS 20000000000ull
#define ALL_RIGHTS  (WEFT_ACCESS_REMOTE_WRITE | WEFT_ACCESS_REMOTE_READ | WEFT_ACCESS_REMOTE_ATOMIC)

struct deed {
	enum weft_opcode opcode;
	uint64_t at, to, length; /* offsets in the own memory, and in the peer's */
	uint32_t imm;
	uint64_t compare_add, swap;
};

/* Each side's memory: what it sends or lets be read, what is written, what lands. */
enum area { SOURCE, TARGET, LANDING, AREAS };

static struct {
	int fd;
	bool first; /* this side has connected to the other, and begins */
	const char *host, *where, *interface, *faults;
	uint32_t mtu, steps;
	uint8_t timeout;
	uint64_t most, area;
	bool unreliable, errors;
	bool late;		    /* receives are posted when they are missed */
	uint8_t *memory, *image[2]; /* of the first and the second side, as they must be */
	struct across_name peer;
	uint64_t seed;
	const char *doing;
	uint32_t step;
} g = {.mtu = 1024, .most = 65536, .steps = 40, .timeout = 18, .seed = 1};

static _Noreturn void wrong(const char *what)
{
	fprintf(stderr, "wrong, %s, step %u: %s\n", g.doing, g.step, what);
	exit(1);
}

/* ---- Taking turns ---- */

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void say(char word)
{
	talk_put(g.fd, &word, 1);
}

static char hear_any(void)
{
	char heard;

	while (!end_turn(g.fd))
		;
	talk_get(g.fd, &heard, 1);
	return heard;
}

static void hear(char word)
{
	if (hear_any() != word)
		wrong("the peer says something else");
}

static void await(struct across_done *done)
{
	uint64_t end_ns = now_ns() + PATIENCE_NS;

	while (!end_poll(done)) {
		if (now_ns() > end_ns)
			wrong("a completion never comes");
		end_turn(-1);
	}
}

static void meet(const struct across_config *config)
{
	struct across_name mine;

	end_open(config, &mine);
	talk_put(g.fd, &mine, sizeof(mine));
	talk_get(g.fd, &g.peer, sizeof(g.peer));
	end_connect(&g.peer);
	say('c');
	hear('c');
}

static void part(void)
{
	say('p');
	hear('p');
	end_close();
}

/* ---- What must be ---- */

static uint64_t at_of(enum area area, uint64_t at)
{
	return area * g.area + at;
}

static bool consumes(enum weft_opcode opcode)
{
	return opcode == WEFT_OP_SEND || opcode == WEFT_OP_SEND_IMM || opcode == WEFT_OP_WRITE_IMM;
}

static bool sends(enum weft_opcode opcode)
{
	return opcode == WEFT_OP_SEND || opcode == WEFT_OP_SEND_IMM;
}

static void imagine(const struct deed *d, uint8_t *mine, uint8_t *its)
{
	uint64_t old, new;

	if (weft_op_is_atomic(d->opcode)) {
		memcpy(&old, its + at_of(TARGET, d->to), 8);
		memcpy(mine + at_of(LANDING, d->at), &old, 8);
		new = d->opcode == WEFT_OP_FETCH_ADD ? old + d->compare_add
		      : old == d->compare_add	     ? d->swap
						     : old;
		memcpy(its + at_of(TARGET, d->to), &new, 8);
	} else if (d->opcode == WEFT_OP_READ) {
		memcpy(mine + at_of(LANDING, d->at), its + at_of(SOURCE, d->to), d->length);
	} else {
		memcpy(its + at_of(sends(d->opcode) ? LANDING : TARGET, d->to),
		       mine + at_of(SOURCE, d->at), d->length);
	}
}

/* What in this side's memory is not as it must be; NULL: nothing. */
static const char *difference(void)
{
	static const char *const areas[] = {"a byte of the source", "a byte of the target",
					    "a byte that has landed"};
	const uint8_t *image = g.image[!g.first];

	end_pull();
	for (uint64_t i = 0; i < AREAS; i++)
		if (memcmp(g.memory + i * g.area, image + i * g.area, g.area))
			return areas[i];
	return NULL;
}

/* Over UC the bytes may come later than the peer's word, by TCP, that they were sent. */
static void compare(void)
{
	uint64_t end_ns = now_ns() + PATIENCE_NS;
	const char *what;

	while ((what = difference())) {
		if (!g.unreliable || now_ns() > end_ns)
			wrong(what);
		end_turn(-1);
	}
}

/* ---- A step ---- */

static void ask(const struct deed *deeds, uint32_t count)
{
	struct across_done done;

	hear('r');
	for (uint32_t i = 0; i < count; i++) {
		const struct deed *d = &deeds[i];
		bool fetches = weft_op_fetches(d->opcode);
		struct across_request r = {
			.opcode = d->opcode,
			.at = at_of(fetches ? LANDING : SOURCE, d->at),
			.length = d->length,
			.remote_addr = g.peer.va +
				       at_of(d->opcode == WEFT_OP_READ ? SOURCE : TARGET, d->to),
			.rkey = g.peer.rkey,
			.imm = d->imm,
			.compare_add = d->compare_add,
			.swap = d->swap,
		};

		if (!end_send(&r))
			wrong("a request is refused");
	}
	for (uint32_t i = 0; i < count; i++) {
		await(&done);
		if (done.status || done.receive) {
			fprintf(stderr, "status %d\n", done.status);
			wrong("a request has failed");
		}
	}
	say('d');
}

static void give_receives(const struct deed *deeds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (sends(deeds[i].opcode))
			end_receive(at_of(LANDING, deeds[i].to), deeds[i].length);
		else if (consumes(deeds[i].opcode))
			end_receive(0, 0);
}

static void answer(const struct deed *deeds, uint32_t count)
{
	struct across_done done;

	if (!g.late)
		give_receives(deeds, count);
	say('r');
	if (g.late) {
		for (uint32_t i = 0; i < 3; i++)
			end_turn(g.fd);
		give_receives(deeds, count);
	}
	hear('d');
	for (uint32_t i = 0; i < count; i++) {
		const struct deed *d = &deeds[i];

		if (!consumes(d->opcode))
			continue;
		await(&done);
		if (done.status || !done.receive || done.bytes != d->length ||
		    done.with_imm != (d->opcode != WEFT_OP_SEND) ||
		    (done.with_imm && done.imm != d->imm))
			wrong("a receive's completion");
	}
}

static void step(bool first, const struct deed *deeds, uint32_t count)
{
	g.step++;
	for (uint32_t i = 0; i < count; i++)
		imagine(&deeds[i], g.image[!first], g.image[first]);
	if (first == g.first)
		ask(deeds, count);
	else
		answer(deeds, count);
	compare();
	say('k');
	hear('k');
}

/* ---- The script ---- */

static uint64_t below(uint64_t limit)
{
	return splitmix64(&g.seed) % limit;
}

static struct deed deed(enum weft_opcode opcode, uint64_t length)
{
	bool eight = weft_op_is_atomic(opcode);
	struct deed d = {
		.opcode = opcode,
		.length = eight ? 8 : length,
		.at = below(g.area - length),
		.to = below(g.area - length),
		.imm = (uint32_t)splitmix64(&g.seed),
		.compare_add = below(2),
		.swap = below(2),
	};

	if (eight)
		d.to = below(8) * 8;
	return d;
}

static void each_length(const uint64_t *lengths, uint32_t count)
{
	static const uint8_t opcodes[] = {WEFT_OP_WRITE, WEFT_OP_SEND, WEFT_OP_READ,
					  WEFT_OP_WRITE_IMM, WEFT_OP_SEND_IMM};

	for (uint32_t l = 0; l < count; l++)
		for (uint32_t o = 0; o < sizeof(opcodes); o++)
			for (uint32_t side = 0; side < 2; side++) {
				struct deed d = deed(opcodes[o], lengths[l]);

				if (!g.unreliable || opcodes[o] != WEFT_OP_READ)
					step(side, &d, 1);
			}
}

static void some(void)
{
	static const uint8_t opcodes[] = {WEFT_OP_WRITE,    WEFT_OP_SEND,     WEFT_OP_WRITE_IMM,
					  WEFT_OP_SEND_IMM, WEFT_OP_READ,     WEFT_OP_READ,
					  WEFT_OP_CMP_SWAP, WEFT_OP_FETCH_ADD};
	uint64_t limit = g.most < 20 * g.mtu ? g.most : 20 * g.mtu;

	for (uint32_t i = 0; i < g.steps; i++) {
		struct deed deeds[DEEDS];
		uint32_t count = 1 + (uint32_t)below(DEEDS);

		for (uint32_t k = 0; k < count; k++)
			deeds[k] = deed(opcodes[below(g.unreliable ? 4 : 8)], below(limit));
		step(below(2), deeds, count);
	}
}

static void script(void)
{
	const uint64_t lengths[] = {0,
				    1,
				    2,
				    3,
				    4,
				    7,
				    g.mtu - 1,
				    g.mtu,
				    g.mtu + 1,
				    2 * g.mtu,
				    3 * g.mtu + 5,
				    8 * g.mtu - 3,
				    70 * g.mtu + 2};
	const struct across_config config = {
		.mtu = g.mtu,
		.unreliable = g.unreliable,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.timeout = g.timeout,
		.max_dest_rd_atomic = 16,
		.rights = ALL_RIGHTS,
		.key_rights = ALL_RIGHTS,
	};
	uint32_t count = sizeof(lengths) / sizeof(*lengths);

	while (lengths[count - 1] > g.most)
		count--;
	meet(&config);
	g.doing = "each length";
	each_length(lengths, count);
	g.doing = "some at a time";
	some();
	g.doing = "late receives";
	g.late = !g.unreliable;
	each_length(lengths + 1, 1);
	g.late = false;
	g.doing = "the longest";
	each_length(&g.most, 1);
	part();
}

/* ---- Errors ---- */

/* Plays one error: what both sides must hear of it, the responder first. */
static void suffer(const struct across_error *e)
{
	struct across_done done;
	int status =
		end_is_rxe() && e->rxe_receive_status ? e->rxe_receive_status : e->receive_status;

	if (e->receive_bytes)
		end_receive(0, e->receive_bytes - 1);
	say('r');
	if (hear_any() != 'd')
		return;
	if (!end_is_rxe() && end_event(e->event) != e->event)
		wrong("another event than there must be");
	if (!e->receive_bytes)
		return;
	await(&done);
	if (done.status != status)
		wrong("another status of the receive");
}

static void cause(const struct across_error *e)
{
	struct across_request r = {
		.opcode = e->opcode,
		.length = e->length,
		.imm = 5,
		.remote_addr =
			g.peer.va + e->shift + (e->beyond ? AREAS * g.area - e->length + 1 : 0),
		.rkey = g.peer.rkey ^ (e->garbled ? 0x100 : 0),
	};
	int status = g.peer.is_rxe && e->rxe_status ? e->rxe_status : e->status;
	struct across_done done;

	hear('r');
	if (!end_send(&r)) {
		if (!e->refused || !end_is_rxe())
			wrong("the request is refused");
		say('x');
		return;
	}
	await(&done);
	printf("%s: status %d\n", e->name, done.status);
	if (done.status != status)
		wrong("another status than there must be");
	say('d');
}

static void one_error(const struct across_error *e, bool asks)
{
	struct across_config config = {
		.mtu = g.mtu,
		.retry_cnt = 2, /* with 7 rxe tries for ever */
		.rnr_retry = e->rnr_retry,
		.max_dest_rd_atomic = e->no_reads && !asks ? 0 : 16,
		.rights = ALL_RIGHTS & (asks ? ALL_RIGHTS : ~e->without),
		.key_rights = ALL_RIGHTS & (asks ? ALL_RIGHTS : ~e->key_without),
		.silent = e->silent && !asks,
		.timeout = e->silent ? 18 : 20,
	};

	g.doing = e->name;
	g.step++;
	meet(&config);
	if (asks)
		cause(e);
	else
		suffer(e);
	part();
}

static void errors(void)
{
	for (uint32_t i = 0; i < across_error_count; i++)
		for (uint32_t side = 0; side < 2; side++)
			one_error(&across_errors[i], side == (uint32_t)g.first);
}

static void arguments(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "i:m:l:n:s:f:t:k:ue")) != -1) {
		uint32_t value = optarg ? (uint32_t)strtoul(optarg, NULL, 0) : 0;

		if (option == 'i')
			g.interface = optarg;
		else if (option == 'm')
			g.mtu = value;
		else if (option == 'l')
			g.most = value;
		else if (option == 'n')
			g.steps = value;
		else if (option == 's')
			g.seed = value;
		else if (option == 'f')
			g.faults = optarg;
		else if (option == 't')
			g.timeout = (uint8_t)value;
		else if (option == 'k')
			end_kind(optarg);
		else if (option == 'u')
			g.unreliable = true;
		else if (option == 'e')
			g.errors = true;
		else
			exit(2);
	}
	if (optind == argc) {
		fprintf(stderr, "usage: across WHERE [OPTION]... [HOST]\n");
		exit(2);
	}
	g.where = argv[optind];
	g.host = optind + 1 < argc ? argv[optind + 1] : NULL;
	g.first = g.host;
}

int main(int argc, char **argv)
{
	arguments(argc, argv);
	g.area = (g.most + SLACK) / 8 * 8; /* atomics are aligned */
	g.memory = end_begin(g.where, g.interface, AREAS * g.area);
	if (g.faults)
		end_spoil(g.faults);
	for (uint32_t side = 0; side < 2; side++) {
		uint64_t seed = 77 + side;

		g.image[side] = calloc(1, AREAS * g.area);
		if (!g.image[side])
			wrong("memory");
		for (uint64_t i = 0; i + 8 <= g.area; i += 8)
			memcpy(g.image[side] + i, (uint64_t[]){splitmix64(&seed)}, 8);
	}
	memcpy(g.memory, g.image[!g.first], g.area);
	end_push();
	g.fd = talk_open(g.host, PORT);
	if (g.errors)
		errors();
	else
		script();
	printf("%u steps\n", g.step);
	end_say();
	close(g.fd);
	free(g.image[0]);
	free(g.image[1]);
	return 0;
}
