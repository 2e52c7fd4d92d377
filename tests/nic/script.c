/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The words of scripts, which are separated by spaces.
 *
 * First, if at all, how the two ends are connected: @uc; @xrc; @shared (the peer receives from a shared queue); @rnr7
 * (rnr_retry 7: a request waits for a receive without end); @patient (timeout 0: likewise for an answer); @noreads
 * (max_rd_atomic 0). And what the case asks of the transport (enum contract_need): @several; @straight; @waits; @whole; @away; @renews.
 *
 * Requests, which are numbered from 1: write imm read send sendinv add swap put local. Appended to one of these ! is
 * with a fence, - unsignaled, 0 of no bytes. Receives, which are numbered from 101: recv; tiny (with little room).
 *
 * What happens to near and the peer: NAME-error; NAME-reset (and a new connection); NAME-revoke (of its key);
 * NAME-destroy; near-drain and near-resume; queue-destroy, queue-away and queue-back (of the shared queue that XRC
 * names; away is the time of a rehoming); near-away and near-back, peer-away and peer-back (that end rehomes, as its owner says in another process);
 * rehomed (both ends have been rehomed); resize (of the completion queue); fork (a child comes and goes); time (ten
 * seconds pass); helper (those of both ends' processes do their work).
 *
 * What the transport does: hold and go; begin, part0 to part3, end; keep, tell, answerN, lose; cling, let-go.
 *
 * What is seen: N:STATUS, the next completion there is, from 101 on at the peer; none and peer-none (no completion);
 * drained (SQ_DRAINED has come once more) and undrained; peer=XXXX and near=XXXX, the quarters of the bytes; sum=N,
 * the word at the peer; oldN=M, the result of request N at near; begun=N (how many requests were begun at the responder).
 */
#include "nic/cq.h"
#include "nic/nic.h"
#include "script.h"
#include "pool/format_qp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define AWHILE_NS     10000000000ull
#define WORDS_BYTES   32

#define MOST_REQUESTS 16u
#define UNTOLD	      7u /* what near's words of results have before an answer has stored one */

struct script script_now;

/* ---- Requests ---- */

static const struct {
	const char *word;
	enum weft_opcode opcode;
} opcodes[] = {
	{"write", WEFT_OP_WRITE},      {"imm", WEFT_OP_WRITE_IMM},    {"read", WEFT_OP_READ},
	{"sendinv", WEFT_OP_SEND_INV}, {"send", WEFT_OP_SEND},	      {"add", WEFT_OP_FETCH_ADD},
	{"swap", WEFT_OP_CMP_SWAP},    {"put", WEFT_OP_ATOMIC_WRITE}, {"local", WEFT_OP_LOCAL_INV},
};

/* Returns what follows `begins` in the word; NULL: the word does not begin so. */
static const char *behind(const char *word, const char *begins)
{
	size_t n = strlen(begins);

	return strncmp(word, begins, n) ? NULL : word + n;
}

static bool post(const char *word)
{
	struct ends_request r = {.flags = WEFT_SEND_SIGNALED, .compare_add = 1, .swap = 100};
	const char *more = NULL;

	for (size_t i = 0; i < sizeof(opcodes) / sizeof(*opcodes) && !more; i++) {
		more = behind(word, opcodes[i].word);
		r.opcode = opcodes[i].opcode;
	}
	if (!more || strspn(more, "!-0") != strlen(more))
		return false;
	r.wr_id = ++script_now.posted;
	r.flags |= strchr(more, '!') ? WEFT_SEND_FENCE : 0;
	r.flags &= strchr(more, '-') ? (uint8_t)~WEFT_SEND_SIGNALED : UINT8_MAX;
	r.empty = strchr(more, '0');
	r.compare_add = r.opcode == WEFT_OP_FETCH_ADD;
	ends_submit(&r, &ends_near);
	if (script_now.keeps)
		script_now.in->settle();
	return true;
}

static void receive(void)
{
	ends_receive_into(101 + script_now.received++, ENDS_BYTES);
}

static void receive_tiny(void)
{
	ends_receive_into(101 + script_now.received++, 8);
}

/* ---- What happens to the ends ---- */

static void near_error(void)
{
	ends_modify(&ends_near, WEFT_QPS_ERR, &ends_peer);
}

static void peer_error(void)
{
	ends_modify(&ends_peer, WEFT_QPS_ERR, &ends_near);
}

static void near_reset(void)
{
	ends_modify(&ends_near, WEFT_QPS_RESET, &ends_peer);
	ends_connect(&ends_near, &ends_peer);
}

static void peer_reset(void)
{
	ends_modify(&ends_peer, WEFT_QPS_RESET, &ends_near);
	ends_connect(&ends_peer, &ends_near);
}

static void near_revoke(void)
{
	ends_revoke(&ends_near);
}

static void peer_revoke(void)
{
	ends_revoke(&ends_peer);
}

static void near_destroy(void)
{
	ends_destroy(&ends_near);
}

static void peer_destroy(void)
{
	ends_destroy(&ends_peer);
}

static void queue_destroy(void)
{
	ends_destroy_srq();
}

/* As a queue's owner marks all its numbered queues while it rehomes them. */
static void queue_away(void)
{
	weft_srq_publish_all(&world.nic, true);
}

static void queue_back(void)
{
	weft_srq_publish_all(&world.nic, false);
}

static void near_drain(void)
{
	ends_modify(&ends_near, WEFT_QPS_SQD, &ends_peer);
}

static void near_resume(void)
{
	ends_modify(&ends_near, WEFT_QPS_RTS, &ends_peer);
}

/* As its owner marks an end where that is another process. */
static void say_of_end(struct end *e, const struct end *peer, enum weft_pool_conn what)
{
	_Atomic uint64_t *conn = &e->qp.slot->conn;

	*conn = ((*conn >> 32) + 2) << 32 | (uint64_t)what << 24 | peer->qp.qpn;
}

static void near_away(void)
{
	say_of_end(&ends_near, &ends_peer, WEFT_CONN_REHOMING);
}

static void near_back(void)
{
	say_of_end(&ends_near, &ends_peer, WEFT_CONN_READY);
}

static void peer_away(void)
{
	say_of_end(&ends_peer, &ends_near, WEFT_CONN_REHOMING);
}

static void peer_back(void)
{
	say_of_end(&ends_peer, &ends_near, WEFT_CONN_READY);
}

static void rehomed(void)
{
	weft_nic_hold(&world.nic);
	weft_nic_let_go(&world.nic);
}

static void resize(void)
{
	assert_int_equal(weft_cq_resize(&world.cq, 512), 0);
}

/* The child has the pool mapped, and requests are under way; it does nothing with them. */
static void forks(void)
{
	pid_t child = fork();
	int status;

	if (!child)
		_exit(0);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

/* What the helpers of both ends' processes do now and then. */
static void helper(void)
{
	weft_srq_recover(&world.nic);
	weft_nic_faults(&world.nic);
}

static void time_passes(void)
{
	for (int i = 0; i < 2; i++) {
		world_look();
		world.now_ns += AWHILE_NS / 2;
	}
	world_look();
}

/* ---- What the transport does ---- */

static void hold(void)
{
	script_now.in->hold(true);
	script_now.held = true;
}

static void go(void)
{
	script_now.in->hold(false);
	script_now.held = false;
}

static void begins(void)
{
	script_now.in->step('b');
}

static void ends(void)
{
	script_now.in->step('e');
}

/* From now on the answers of requests that are carried out are held back. */
static void keep(void)
{
	script_now.in->keep(true);
	script_now.keeps = true;
}

static void tell(void)
{
	script_now.in->keep(false);
	script_now.keeps = false;
}

static void lose(void)
{
	script_now.in->lose();
}

static void cling(void)
{
	script_now.in->cling(true);
}

static void let_go(void)
{
	script_now.in->cling(false);
}

/* ---- Words ---- */

#define NEEDS(need) (1u << CONTRACT_##need)

static const struct {
	const char *word;
	void (*act)(void);
	unsigned int needs;
} words[] = {
	{"recv", receive, 0},
	{"tiny", receive_tiny, 0},
	{"near-error", near_error, 0},
	{"peer-error", peer_error, 0},
	{"near-reset", near_reset, 0},
	{"peer-reset", peer_reset, 0},
	{"near-revoke", near_revoke, 0},
	{"peer-revoke", peer_revoke, 0},
	{"near-destroy", near_destroy, 0},
	{"peer-destroy", peer_destroy, 0},
	{"queue-destroy", queue_destroy, NEEDS(XRC)},
	{"queue-away", queue_away, NEEDS(XRC)},
	{"queue-back", queue_back, NEEDS(XRC)},
	{"near-drain", near_drain, 0},
	{"near-resume", near_resume, 0},
	{"near-away", near_away, 0},
	{"near-back", near_back, 0},
	{"peer-away", peer_away, 0},
	{"peer-back", peer_back, 0},
	{"rehomed", rehomed, 0},
	{"resize", resize, 0},
	{"fork", forks, 0},
	{"time", time_passes, 0},
	{"helper", helper, 0},
	{"hold", hold, NEEDS(LATE)},
	{"go", go, NEEDS(LATE)},
	{"begin", begins, NEEDS(PARTS)},
	{"end", ends, NEEDS(PARTS)},
	{"keep", keep, NEEDS(ANSWERS)},
	{"tell", tell, NEEDS(ANSWERS)},
	{"lose", lose, NEEDS(ANSWERS)},
	{"cling", cling, NEEDS(CLINGS)},
	{"let-go", let_go, NEEDS(CLINGS)},
	{"none", script_none, 0},
	{"peer-none", script_peer_none, 0},
	{"drained", script_drained, 0},
	{"undrained", script_undrained, 0},
};

/* Words with something behind them. */
static bool act_with(const char *word)
{
	const char *more;
	char *end;
	uint64_t n;

	if ((more = behind(word, "part")))
		script_now.in->step(*more);
	else if ((more = behind(word, "answer")))
		script_now.in->answer(strtoul(more, NULL, 10));
	else if ((more = behind(word, "begun=")))
		assert_int_equal(script_now.in->begun(), strtoul(more, NULL, 10));
	else if ((more = behind(word, "peer=")))
		script_quarters(&ends_peer, more);
	else if ((more = behind(word, "near=")))
		script_quarters(&ends_near, more);
	else if ((more = behind(word, "sum=")))
		script_word(&ends_peer, 0, strtoul(more, NULL, 10));
	else if ((more = behind(word, "old")) && strchr(more, '='))
		script_word(&ends_near, strtoul(more, NULL, 10),
			    strtoul(strchr(more, '=') + 1, NULL, 10));
	else if ((n = strtoul(word, &end, 10)) && *end == ':')
		script_expect(n, end + 1);
	else
		return false;
	return true;
}

static void act(const char *word)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(word, words[i].word)) {
			words[i].act();
			return;
		}
	if (!post(word) && !act_with(word))
		fail_msg("%s: %s is no word", script_now.name, word);
}

/* Copies the next word of the script, and returns it; NULL: there is none. */
static const char *next(const char **script, char word[WORDS_BYTES])
{
	size_t n;

	*script += strspn(*script, " ");
	n = strcspn(*script, " ");
	assert_true(n < WORDS_BYTES);
	memcpy(word, *script, n);
	word[n] = 0;
	*script += n;
	return n ? word : NULL;
}

/* What a case asks of the transport, at the beginning of its script. */
static const struct {
	const char *word;
	unsigned int needs;
} asked_of[] = {
	{"@xrc", NEEDS(XRC)},	    {"@several", NEEDS(SEVERAL)}, {"@straight", NEEDS(STRAIGHT)},
	{"@waits", NEEDS(WAITS)},   {"@whole", NEEDS(WHOLE)},	  {"@away", NEEDS(AWAY)},
	{"@renews", NEEDS(RENEWS)},
};

static unsigned int needs_of(const char *word)
{
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!strcmp(word, words[i].word))
			return words[i].needs;
	for (size_t i = 0; i < sizeof(asked_of) / sizeof(*asked_of); i++)
		if (!strcmp(word, asked_of[i].word))
			return asked_of[i].needs;
	if (behind(word, "part") || behind(word, "begun="))
		return NEEDS(PARTS);
	return behind(word, "answer") ? NEEDS(ANSWERS) : 0;
}

enum contract_need contract_lacking(const struct contract_instance *in, const char *script)
{
	char word[WORDS_BYTES];
	unsigned int needs = 0;

	while (next(&script, word))
		needs |= needs_of(word);
	for (unsigned int need = CONTRACT_NEEDS; need-- > 0;)
		if (needs >> need & 1 && in->lacks[need].why)
			return need;
	return CONTRACT_NEEDS;
}

static bool wish(const char *word)
{
	if (!strcmp(word, "@uc"))
		ends_wish.type = WEFT_QPT_UC;
	else if (!strcmp(word, "@xrc"))
		ends_wish.type = WEFT_QPT_XRC_SEND;
	else if (!strcmp(word, "@rnr7"))
		ends_wish.rnr_retry = 7;
	else if (!strcmp(word, "@patient"))
		ends_wish.patient = true;
	else if (!strcmp(word, "@noreads"))
		ends_wish.no_reads = true;
	else if (!strcmp(word, "@shared"))
		ends_wish.shared = true;
	else
		return needs_of(word) && *word == '@';
	return true;
}

static void open_ends(const struct contract_instance *in, const struct contract_case *row)
{
	memset(&script_now, 0, sizeof(script_now));
	script_now.in = in;
	script_now.name = row->name;
	world.nic.transports = in->transports;
	world.drained_events = 0;
	world.copies = script_check_poller;
	if (in->begin)
		in->begin();
	ends_open();
	ends_peer.kind->write(&ends_peer, ENDS_WORDS, &(const uint64_t){0}, 8);
	for (uint64_t i = 0; i <= MOST_REQUESTS; i++)
		ends_near.kind->write(&ends_near, ENDS_WORDS + 8 * i, &(const uint64_t){UNTOLD}, 8);
}

/* At the end neither completions may be there that the script does not name, nor requests under way. */
void contract_run(const struct contract_instance *in, const struct contract_case *row)
{
	const char *script = row->script, *at = script;
	char word[WORDS_BYTES];

	ends_wish = (struct ends_wish){.in_place = in->in_place, .apart = in->apart};
	while (next(&at, word) && wish(word))
		script = at;
	open_ends(in, row);
	while (next(&script, word)) {
		act(word);
		script_check_poller();
	}
	script_expect_none(1);
	script_expect_none(101);
	world.copies = NULL;
	ends_close();
	ends_wish = (struct ends_wish){.type = 0};
}
