/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The card dies at each labelled step that it passes, and so does the owner, in one run after the other. Each
 * time the survivor's promises hold: requests that ended before count, the oldest of the others fails as at a
 * peer's death, and those behind it are flushed, within a second; each request completes once; nothing is
 * left behind, and the next connection works. The owner is this program with other arguments.
 */
#include "../nic/ends.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fate.h"
#include "nic/cq.h"
#include "nic/qp.h"
#include "pool/clock.h"
#include "pool/sge.h"
#include "pool/step.h"
#include "pool/view.h"
#include "process.h"
#include "transport/registry.h"

#define REQUESTS    4u
#define UNSIGNALED  2u /* the wr_id of the one that is not signaled */
#define MOST_STEPS  1000
#define PATIENCE_NS 10000000000ull /* longer than anything lasts here */
#define PROMISED_NS 1000000000ull
#define NAME_BYTES  64
#define MOST_NAMES  256

struct load {
	const char *name;
	enum weft_opcode opcode;
	bool refused; /* the peer's key is invalid */
};

static const struct load loads[] = {
	{"WRITE", WEFT_OP_WRITE, false},	{"SEND", WEFT_OP_SEND, false},
	{"READ", WEFT_OP_READ, false},		{"addition", WEFT_OP_FETCH_ADD, false},
	{"refused WRITE", WEFT_OP_WRITE, true},
};

static struct card_process card;

/* ---- Steps at which a process has died ---- */

static char met[MOST_NAMES][NAME_BYTES];

static void meet(const char *name)
{
	for (unsigned int i = 0; i < MOST_NAMES; i++) {
		if (!strcmp(met[i], name))
			return;
		if (!met[i][0]) {
			snprintf(met[i], NAME_BYTES, "%s", name);
			return;
		}
	}
	fail();
}

static bool is_met(const char *name)
{
	for (unsigned int i = 0; i < MOST_NAMES && met[i][0]; i++)
		if (!strcmp(met[i], name))
			return true;
	return false;
}

/* ---- Requests, and their completions ---- */

struct told {
	uint64_t last;
	enum weft_wc_status failed; /* the status of the first request that has failed */
};

/* Whether the card has them: one that has died is chosen no more. */
static bool open_and_post(const struct load *load)
{
	bool handed;

	world.nic.transports = weft_transports;
	ends_open();
	handed = !strcmp(ends_near.qp.transport->name, "handed");
	for (unsigned int i = 0; i < REQUESTS && load->opcode == WEFT_OP_SEND; i++)
		ends_receive();
	if (load->refused)
		ends_revoke(&ends_peer);
	for (uint64_t id = 1; id <= REQUESTS; id++)
		ends_submit(
			&(struct ends_request){.opcode = load->opcode,
					       .wr_id = id,
					       .compare_add = 1,
					       .flags = id == UNSIGNALED ? 0 : WEFT_SEND_SIGNALED},
			&ends_near);
	return handed;
}

/* Takes completions: in order, each once, none left out but that of the unsignaled request. */
static void take(struct told *told)
{
	struct weft_wc wc;

	while (weft_cq_poll(&world.cq, 1, &wc, 0)) {
		bool skips = wc.wr_id == told->last + 2 && wc.wr_id == UNSIGNALED + 1;

		assert_true(wc.wr_id == told->last + 1 || (skips && !told->failed));
		told->last = wc.wr_id;
		if (told->failed)
			assert_int_equal(wc.status, WEFT_WC_WR_FLUSH_ERR);
		else if (wc.status)
			told->failed = wc.status;
		else
			assert_int_not_equal(wc.wr_id, UNSIGNALED);
	}
}

static void check_peer(const struct load *load, const struct told *told, uint64_t sum)
{
	unsigned int received = 0;
	uint64_t word;
	struct weft_wc wc;

	while (weft_cq_poll(&ends_peer_cq, 1, &wc, 0)) {
		assert_int_equal(wc.status, WEFT_WC_SUCCESS);
		received++;
	}
	memcpy(&word, ends_peer.memory + ENDS_WORDS, 8);
	if (load->opcode == WEFT_OP_FETCH_ADD)
		assert_in_range(word - sum, told->failed ? 0 : REQUESTS, REQUESTS);
	if (load->opcode == WEFT_OP_SEND)
		assert_in_range(received, told->failed ? 0 : REQUESTS, REQUESTS);
	for (uint32_t i = 0; i < ENDS_BYTES && !told->failed; i++) {
		if (load->opcode == WEFT_OP_READ)
			assert_int_equal(ends_near.memory[i], 'p');
		else if (load->opcode != WEFT_OP_FETCH_ADD)
			assert_int_equal(ends_peer.memory[i], 'n');
	}
}

/* ---- The card dies ---- */

/* How many segments this pool has leased: that view counts what all members have. */
static uint32_t segments(void)
{
	struct weft_view_cursor at = {0};
	struct weft_view_qp qp;
	struct weft_view *view;
	char where[PATH_MAX];
	const char *why;
	uint32_t n;

	assert_int_equal(weft_view_open(NULL, where, &view, &why), 0);
	assert_int_equal(view->damaged, 0);
	assert_false(weft_view_qp(view, &at, &qp));
	n = view->segments_leased;
	weft_view_close(view);
	return n;
}

/* Takes all completions, and watches whether the card dies. Returns whether it has. */
static bool follow(struct told *told, char *step)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS, died_ns = 0;

	for (take(told); told->last < REQUESTS; take(told)) {
		if (!died_ns && card_has_died(&card, step, NAME_BYTES))
			died_ns = world.now_ns;
		world.now_ns += died_ns ? PROMISED_NS / 10 : 100000;
		assert_true(!died_ns || world.now_ns - died_ns <= PROMISED_NS);
		assert_true(weft_clock_now_ns() < until_ns);
		world_look();
		if (!died_ns)
			usleep(50);
	}
	return died_ns || card_has_died(&card, step, NAME_BYTES);
}

/* Of a card that is about to end: one that was not chosen, or that the pool shows dead before its parent can know. */
static void await_death(char *step)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;

	while (!card_has_died(&card, step, NAME_BYTES)) {
		assert_true(weft_clock_now_ns() < until_ns);
		usleep(50);
	}
}

static bool run_with_card(const struct load *load, const char *fate)
{
	char step[NAME_BYTES] = "";
	struct told told = {0};
	bool died;

	world.fatal_events = 0;
	card_start(&card, "2000", fate);
	if (!open_and_post(load))
		await_death(step);
	died = follow(&told, step);
	if (!died && fate && told.failed == WEFT_WC_RETRY_EXC_ERR) {
		await_death(step);
		died = true;
	}
	for (int i = 0; i < 2; i++)
		world_look();
	world_expect_none();
	if (load->refused)
		assert_true(told.failed == WEFT_WC_REM_ACCESS_ERR ||
			    (died && told.failed == WEFT_WC_RETRY_EXC_ERR));
	else
		assert_true(!told.failed || (died && told.failed == WEFT_WC_RETRY_EXC_ERR));
	assert_int_equal(world.fatal_events, told.failed == WEFT_WC_RETRY_EXC_ERR);
	assert_int_equal(ends_near.qp.state, told.failed ? WEFT_QPS_ERR : WEFT_QPS_RTS);
	check_peer(load, &told, 0x7070707070707070);
	ends_close();
	if (!died && !fate)
		assert_int_equal(card_end(&card), 0);
	else
		died |= card_end(&card) == SIGKILL;
	if (step[0])
		meet(step);
	weft_pool_recover(world.pool);
	weft_srq_recover(&world.nic);
	return died;
}

static void card_dies(void **state)
{
	const struct load *load = *state;
	uint32_t before = 0;
	char fate[16];
	int step;

	assert_false(run_with_card(load, NULL));
	before = segments();
	for (step = 1;; step++) {
		snprintf(fate, sizeof(fate), "%d", step);
		if (!run_with_card(load, fate))
			break;
		assert_false(run_with_card(load, NULL));
		assert_int_equal(segments(), before);
		assert_true(step < MOST_STEPS);
	}
	print_message("%d steps\n", step - 1);
	assert_true(step > 10);
}

/* ---- The owner dies ---- */

static void be_patient(struct told *told)
{
	uint64_t until_ns = weft_clock_now_ns() + PATIENCE_NS;

	for (take(told); told->last < REQUESTS; take(told)) {
		world.now_ns = weft_clock_now_ns();
		assert_true(world.now_ns < until_ns);
		world_look();
		usleep(50);
	}
}

/* An owner that kills its own card, and dies while it ends what that had: the card's dead hand is all that it
 * looks at then. */
static void be_bereaved(const char *fate)
{
	struct told told = {0};
	char step[NAME_BYTES];

	card_start(&card, "2000", NULL);
	kill(card.pid, SIGSTOP);
	while (!card_has_stopped(&card))
		usleep(50);
	assert_true(open_and_post(&loads[0]));
	kill(card.pid, SIGKILL);
	await_death(step);
	fate_begin(fate);
	be_patient(&told);
	assert_int_equal(told.failed, WEFT_WC_RETRY_EXC_ERR);
	ends_close();
}

static const char *owners_load, *owners_fate;

static void owner(void **state)
{
	const struct load *load = &loads[atoi(owners_load)];
	struct told told = {0};

	if (!strcmp(owners_load, "bereaved")) {
		be_bereaved(owners_fate);
	} else {
		fate_begin(owners_fate);
		assert_true(open_and_post(load));
		be_patient(&told);
		check_peer(load, &told, 0x7070707070707070);
		ends_close();
	}
	fate_begin(NULL);
}

static int be_owner(const char *load, const char *fate)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(owner)};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (world_join())
		return 3;
	owners_load = load;
	owners_fate = fate;
	if (cmocka_run_group_tests(tests, NULL, NULL))
		return 4;
	world_leave();
	return 0;
}

/* Returns whether the owner has died. */
static bool run_owner(const char *load, const char *fate)
{
	char step[NAME_BYTES * 16] = "";
	int said[2], status;
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe2(said, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		dup2(said[1], STDOUT_FILENO);
		execl("/proc/self/exe", "owner", load, fate, NULL);
		_exit(127);
	}
	close(said[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = read(said[0], step, sizeof(step) - 1);
	close(said[0]);
	weft_pool_recover(world.pool);
	if (!WIFSIGNALED(status)) {
		if (WEXITSTATUS(status))
			fail_msg("the owner of fate %s: %s", fate ? fate : "none", step);
		return false;
	}
	assert_int_equal(WTERMSIG(status), SIGKILL);
	assert_true(n > 0);
	step[n - 1] = 0;
	meet(strrchr(step, '\n') ? strrchr(step, '\n') + 1 : step);
	return true;
}

static void each_owner(const char *load)
{
	char fate[16];
	int step;

	for (step = 1;; step++) {
		snprintf(fate, sizeof(fate), "%d", step);
		if (!run_owner(load, fate))
			break;
		assert_true(step < MOST_STEPS);
	}
	print_message("%d steps\n", step - 1);
	assert_true(step > 10);
}

/* The card carries the requests of all these owners, one after the other, and outlives them. */
static void owner_dies(void **state)
{
	char load[24];

	snprintf(load, sizeof(load), "%td", (const struct load *)*state - loads);
	card_start(&card, "2000", NULL);
	each_owner(load);
	assert_false(run_owner(load, NULL));
	assert_int_equal(card_end(&card), 0);
	segments();
}

static void bereaved_owner_dies(void **state)
{
	each_owner("bereaved");
	weft_pool_recover(world.pool);
	segments();
}

/* ---- All steps ---- */

/* What is done between two looks is not done in the same order each time, so some steps may have been missed
 * above: here the named step is waited for. */
static void die_there(const char *name)
{
	static const struct load *const owners[] = {&loads[1], &loads[4]};
	char fate[NAME_BYTES], load[24];

	snprintf(fate, sizeof(fate), "-%s", name);
	for (size_t i = 0; i < sizeof(owners) / sizeof(*owners); i++) {
		snprintf(load, sizeof(load), "%td", owners[i] - loads);
		if (!run_with_card(owners[i], fate)) {
			card_start(&card, "2000", NULL);
			run_owner(load, fate);
			assert_int_equal(card_end(&card), 0);
		}
	}
	run_owner("bereaved", fate);
}

static void must_have_died_at(const char *name)
{
	if (!is_met(name))
		die_there(name);
	if (!is_met(name))
		fail_msg("no process has died at %s", name);
}

/* The linker's names for the ends of the section of steps. */
extern struct weft_step __start_weft_steps[], __stop_weft_steps[];

/* The steps of the owner's half are in this program; those of the card's are in another one, and named
 * here. */
static void all_were_met(void **state)
{
	for (struct weft_step *s = __start_weft_steps; s < __stop_weft_steps; s++)
		if (!strncmp(s->name, "handed_", 7) || !strncmp(s->name, "return_", 7))
			must_have_died_at(s->name);
	must_have_died_at("card_entry_written");
	must_have_died_at("card_returned");
	must_have_died_at("card_ended");
	must_have_died_at("card_verdict");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		{"the card, at WRITE", card_dies, NULL, NULL, (void *)&loads[0]},
		{"the card, at SEND", card_dies, NULL, NULL, (void *)&loads[1]},
		{"the card, at READ", card_dies, NULL, NULL, (void *)&loads[2]},
		{"the card, at an addition", card_dies, NULL, NULL, (void *)&loads[3]},
		{"the card, as it refuses", card_dies, NULL, NULL, (void *)&loads[4]},
		{"the owner, at SEND", owner_dies, NULL, NULL, (void *)&loads[1]},
		{"the owner, as it is refused", owner_dies, NULL, NULL, (void *)&loads[4]},
		{"the owner, as it ends what its dead card had", bereaved_owner_dies, NULL, NULL,
		 NULL},
		{"all steps", all_were_met, NULL, NULL, NULL},
	};

	if (argc > 1)
		return be_owner(argv[1], argc > 2 ? argv[2] : NULL);
	return cmocka_run_group_tests_name("handed-deaths", tests, world_attach, world_detach);
}
