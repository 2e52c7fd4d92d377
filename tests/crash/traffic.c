/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests whose every byte is known beforehand, and what becomes of them when their peer dies. */
#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <string.h>

#include "worker.h"

#define PATIENT_POLLS 32u
#define NAP_NS	      100000
#define WAKE_UP_MS    5000
#define HANGS_NS      20000000000ull
/* A peer of another host that still lives then was thought silent. */
#define DESERTED_NS 3000000000ull
#define RECEIVED    (1ull << 63) /* a bit of wr_id that marks a receive */

struct in_place in_place;

/* ---- Patterns ---- */

static uint64_t word_of(uint64_t tag, uint64_t i)
{
	uint64_t x = (tag + i) * 0x9e3779b97f4a7c15ull;

	return x ^ x >> 29;
}

static void paint(void *at, uint32_t bytes, uint64_t tag)
{
	uint8_t *to = at;

	for (uint32_t i = 0; i < bytes; i += 8) {
		uint64_t word = word_of(tag, i);

		memcpy(to + i, &word, bytes - i < 8 ? bytes - i : 8);
	}
}

static void look(const void *at, uint32_t bytes, uint64_t tag, const char *what)
{
	const uint8_t *from = at;

	for (uint32_t i = 0; i < bytes; i += 8) {
		uint64_t word = word_of(tag, i);

		if (memcmp(from + i, &word, bytes - i < 8 ? bytes - i : 8))
			broken("%s: byte %u of %u is wrong", what, i, bytes);
	}
}

/* The seed of a pattern: of a process's own bytes, or of the n-th message from one process to another. */
static uint64_t tag_of(uint64_t kind, uint64_t from, uint64_t to, uint64_t n)
{
	return kind << 60 | from << 52 | to << 44 | n << 20;
}

#define CONSTANT(process)      tag_of(1, process, 0, 0)
#define MESSAGE(from, to, n)   tag_of(2, from, to, n)
#define ANNOUNCED(from, to, n) tag_of(3, from, to, n)
#define SCRATCH(from, to, n)   tag_of(4, from, to, n)
#define GUARD(process)	       tag_of(5, process, 0, 0)

void traffic_fill(struct worker *w)
{
	paint(w->shared->constant, sizeof(w->shared->constant), CONSTANT(w->me));
	paint(w->shared->guard, sizeof(w->shared->guard), GUARD(w->me));
	paint(in_place.constant, sizeof(in_place.constant), CONSTANT(w->me));
}

void traffic_check(struct worker *w)
{
	look(w->shared->constant, sizeof(w->shared->constant), CONSTANT(w->me),
	     "bytes that no peer writes");
	look(w->shared->guard, sizeof(w->shared->guard), GUARD(w->me), "guard");
	look(in_place.constant, sizeof(in_place.constant), CONSTANT(w->me),
	     "bytes in place that no peer writes");
}

/* ---- Completions ---- */

static void look_at_message(struct worker *w, struct link *l, uint32_t slot, uint32_t bytes)
{
	look(w->shared->received[l->peer][slot], bytes, MESSAGE(l->peer, w->me, l->got),
	     "a message");
	l->got++;
	traffic_receive(w, l, slot);
}

static void look_at_announced(struct worker *w, struct link *l, uint32_t slot, uint32_t number,
			      uint32_t bytes)
{
	if (number != ++l->looked)
		broken("announcement %u from %u came as number %u", number, l->peer, l->looked);
	look(w->shared->from[l->peer].announced, bytes, ANNOUNCED(l->peer, w->me, number),
	     "announced bytes");
	__atomic_store_n(&w->process->mail[l->peer].acked, number, __ATOMIC_RELEASE);
	traffic_receive(w, l, slot);
}

/* The first request without an answer has one error, and the rest are flushed, as with a card. */
static void look_at_error(struct worker *w, struct link *l, const struct ibv_wc *wc, bool receive)
{
	const struct process *peer = &w->world->process[l->peer];
	uint64_t limit = now_ns() + HANGS_NS;

	if (receive || l->lost) {
		if (wc->status != IBV_WC_WR_FLUSH_ERR)
			broken("flushed for %u: %s", l->peer, ibv_wc_status_str(wc->status));
		if (!l->lost && !is_of_our_host(w, peer))
			w->process->deserted++;
		else if (!l->lost && !may_lose(w, l))
			broken("a receive from %u was flushed before an error", l->peer);
		l->lost = true;
		return;
	}
	l->lost = true;
	if (may_lose(w, l) &&
	    (wc->status == IBV_WC_RETRY_EXC_ERR || wc->status == IBV_WC_WR_FLUSH_ERR))
		return;
	if (wc->status != IBV_WC_RETRY_EXC_ERR)
		broken("request %d to %u: %s; of %u hosts%s, %s, in stage %u; keys %x and %x",
		       l->request, l->peer, ibv_wc_status_str(wc->status), w->world->hosts,
		       is_of_our_host(w, peer) ? ", of ours" : "",
		       has_died(peer) ? "it died" : "it lives", stage_of(peer), peer->key[0],
		       peer->key[1]);
	while (!has_died(peer) && stage_of(peer) < LEAVING) {
		if (!is_of_our_host(w, peer) && now_ns() > limit - HANGS_NS + DESERTED_NS) {
			w->process->deserted++;
			return;
		}
		if (now_ns() > limit)
			broken("%u gave no answer, but lives", l->peer);
		nap(NAP_NS); /* what reaps the dead may need this core */
	}
	if (has_died(peer)) {
		uint64_t now = now_ns(), died = atomic_load(&peer->died_ns);
		uint64_t late = now > died ? now - died : 0;

		w->process->late_ns = late > w->process->late_ns ? late : w->process->late_ns;
	}
}

static void take(struct worker *w, const struct ibv_wc *wc)
{
	struct link *l = &w->link[wc->wr_id & 0xff];
	uint32_t slot = (uint32_t)(wc->wr_id >> 8) & 0xff;
	bool receive = wc->wr_id & RECEIVED;

	if (receive ? !l->receives_due-- : !l->sends_due--)
		broken("more completions than requests with %u", l->peer);
	if (wc->status)
		look_at_error(w, l, wc, receive);
	else if (receive && wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM)
		look_at_announced(w, l, slot, ntohl(wc->imm_data), wc->byte_len);
	else if (receive)
		look_at_message(w, l, slot, wc->byte_len);
	else if (l->lost)
		broken("a request succeeded after an error");
}

bool traffic_poll(struct worker *w)
{
	struct ibv_wc wc[8];
	int n = ibv_poll_cq(w->cq, 8, wc);

	if (n < 0)
		broken("poll: %d", n);
	for (int i = 0; i < n; i++)
		take(w, &wc[i]);
	return n;
}

static void take_events(struct worker *w)
{
	struct pollfd fd = {w->channel->fd, POLLIN, 0};
	struct ibv_cq *cq;
	void *context;

	while (poll(&fd, 1, 0) == 1) {
		if (ibv_get_cq_event(w->channel, &cq, &context) || cq != w->cq)
			broken("an event is not what it should be");
		ibv_ack_cq_events(cq, 1);
	}
}

/* A worker that waits for a completion that must come sleeps, but with a bound. */
static void sleep_until_event(struct worker *w)
{
	struct pollfd fd = {w->channel->fd, POLLIN, 0};

	take_events(w);
	if (ibv_req_notify_cq(w->cq, 0))
		broken("cannot arm");
	if (traffic_poll(w))
		return;
	if (!poll(&fd, 1, WAKE_UP_MS) && traffic_poll(w))
		broken("a completion came, but its event did not");
	take_events(w);
}

void traffic_wait(struct worker *w)
{
	churn_serve(w);
	if (traffic_poll(w)) {
		w->idle = 0;
		return;
	}
	/* there are more workers than cores */
	if (++w->idle > PATIENT_POLLS)
		nap(NAP_NS);
	else
		sched_yield();
}

static void settle(struct worker *w, struct link *l)
{
	uint64_t limit = now_ns() + HANGS_NS;

	/* listeners must not sleep, as workers that connect to them would have to wait */
	if (!w->process->port && !draw(&w->seed, 4))
		while (l->sends_due && now_ns() < limit)
			sleep_until_event(w);
	while (l->sends_due || (l->lost && l->receives_due)) {
		traffic_wait(w);
		if (now_ns() > limit)
			broken("%u: %u sends and %u receives hang (request %d%s); of %u hosts, %s, "
			       "in stage %u",
			       l->peer, l->sends_due, l->receives_due, l->request,
			       l->lost ? ", lost" : "", w->world->hosts,
			       has_died(&w->world->process[l->peer]) ? "it died" : "it lives",
			       stage_of(&w->world->process[l->peer]));
	}
}

/* ---- Requests ---- */

static struct ibv_send_wr request(struct worker *w, struct link *l, enum ibv_wr_opcode opcode,
				  struct ibv_sge *sge)
{
	return (struct ibv_send_wr){.wr_id = (uint64_t)(l - w->link),
				    .sg_list = sge,
				    .num_sge = 1,
				    .opcode = opcode,
				    .send_flags = IBV_SEND_SIGNALED};
}

static void post(struct link *l, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err = ibv_post_send(l->qp, wr, &bad);

	if (err)
		broken("post: %s", strerror(err));
	for (; wr; wr = wr->next)
		l->sends_due++;
}

static void post_one(struct worker *w, struct link *l, enum ibv_wr_opcode opcode, uint8_t *local,
		     uint32_t bytes, uint64_t remote, uint32_t key)
{
	/* the bytes, in half of the cases as two elements */
	uint32_t first = bytes > 8 && draw(&w->seed, 2) ? bytes / 2 : bytes;
	struct ibv_sge sge[2] = {{(uintptr_t)local, first, w->mr[0]->lkey},
				 {(uintptr_t)local + first, bytes - first, w->mr[0]->lkey}};
	struct ibv_send_wr wr = request(w, l, opcode, sge);

	wr.num_sge = first < bytes ? 2 : 1;
	wr.wr.rdma.remote_addr = remote;
	wr.wr.rdma.rkey = key;
	if (opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		wr.imm_data = htonl(l->announced);
	post(l, &wr);
}

static void post_atomic(struct worker *w, struct link *l, enum ibv_wr_opcode opcode, uint8_t *local,
			uint64_t compare_add, uint64_t swap)
{
	const struct process *peer = &w->world->process[l->peer];
	struct ibv_sge sge = {(uintptr_t)local, 8, w->mr[0]->lkey};
	struct ibv_send_wr wr = request(w, l, opcode, &sge);

	wr.wr.atomic.remote_addr = peer->address[0] + offsetof(struct shared, from[w->me].counter);
	wr.wr.atomic.rkey = peer->key[0];
	wr.wr.atomic.compare_add = compare_add;
	wr.wr.atomic.swap = swap;
	post(l, &wr);
}

void traffic_receive(struct worker *w, struct link *l, uint32_t slot)
{
	struct ibv_sge sge = {(uintptr_t)w->shared->received[l->peer][slot], TEXT_BYTES,
			      w->mr[0]->lkey};
	struct ibv_recv_wr wr = {.wr_id = RECEIVED | slot << 8 | (uint64_t)(l - w->link),
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;

	if (ibv_post_recv(l->qp, &wr, &bad))
		broken("cannot post a receive");
	l->receives_due++;
}

static uint32_t some_bytes(struct worker *w, uint32_t most)
{
	static const uint32_t usual[] = {8, 8, 64, 1000, 4096, 12000};
	uint32_t bytes = usual[draw(&w->seed, 6)];

	return bytes < most ? bytes : most;
}

static void send_some(struct worker *w, struct link *l)
{
	uint32_t n = 1 + (uint32_t)draw(&w->seed, 4);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t bytes = some_bytes(w, TEXT_BYTES);
		uint8_t *local = w->shared->local + (size_t)i * TEXT_BYTES;

		paint(local, bytes, MESSAGE(w->me, l->peer, l->sent++));
		post_one(w, l, IBV_WR_SEND, local, bytes, 0, 0);
	}
}

/* Announces the next bytes, once the peer has looked at the last ones. */
static void announce(struct worker *w, struct link *l)
{
	const struct process *peer = &w->world->process[l->peer];
	uint32_t bytes = some_bytes(w, SLOT_BYTES);

	if (__atomic_load_n(&peer->mail[w->me].acked, __ATOMIC_ACQUIRE) != l->announced)
		return;
	paint(w->shared->local, bytes, ANNOUNCED(w->me, l->peer, ++l->announced));
	post_one(w, l, IBV_WR_RDMA_WRITE_WITH_IMM, w->shared->local, bytes,
		 peer->address[0] + offsetof(struct shared, from[w->me].announced), peer->key[0]);
}

static void write_and_read(struct worker *w, struct link *l, uint32_t bytes, uint64_t remote,
			   uint32_t key)
{
	l->bytes = bytes;
	l->at = (uint32_t)draw(&w->seed, 1000);
	paint(w->shared->local, bytes, SCRATCH(w->me, l->peer, l->at));
	memset(w->shared->local + SLOT_BYTES, 0, bytes);
	post_one(w, l, IBV_WR_RDMA_WRITE, w->shared->local, bytes, remote, key);
	post_one(w, l, IBV_WR_RDMA_READ, w->shared->local + SLOT_BYTES, bytes, remote, key);
}

static void read_constant(struct worker *w, struct link *l, int region, uint32_t most)
{
	const struct process *peer = &w->world->process[l->peer];

	l->bytes = some_bytes(w, most < SLOT_BYTES ? most : SLOT_BYTES);
	l->at = 8 * (uint32_t)draw(&w->seed, (most - l->bytes) / 8 + 1);
	post_one(w, l, IBV_WR_RDMA_READ, w->shared->local + SLOT_BYTES, l->bytes,
		 peer->address[region] + l->at, peer->key[region]);
}

static void begin(struct worker *w, struct link *l)
{
	const struct process *peer = &w->world->process[l->peer];
	uint8_t *result = w->shared->local + SLOT_BYTES;

	switch (l->request) {
	case REQUEST_SEND:
		send_some(w, l);
		break;
	case REQUEST_ANNOUNCE:
		announce(w, l);
		break;
	case REQUEST_WRITE:
		write_and_read(w, l, some_bytes(w, SLOT_BYTES),
			       peer->address[0] + offsetof(struct shared, from[w->me].scratch),
			       peer->key[0]);
		break;
	case REQUEST_READ:
		read_constant(w, l, 0, CONST_BYTES);
		break;
	case REQUEST_REACH:
		read_constant(w, l, 1, sizeof(in_place.constant));
		break;
	case REQUEST_REACH_BACK:
		write_and_read(w, l, some_bytes(w, sizeof(in_place.scratch[0])),
			       peer->address[1] + offsetof(struct in_place, scratch[w->me]),
			       peer->key[1]);
		break;
	case REQUEST_COUNT:
		post_atomic(w, l, IBV_WR_ATOMIC_FETCH_AND_ADD, result, 1, 0);
		post_atomic(w, l, IBV_WR_ATOMIC_CMP_AND_SWP, result + 8, l->counted + 1,
			    l->counted + 2);
		break;
	case REQUESTS:
		break;
	}
}

static void end(struct worker *w, struct link *l)
{
	const uint8_t *result = w->shared->local + SLOT_BYTES;
	uint64_t old[2];

	switch (l->request) {
	case REQUEST_WRITE:
	case REQUEST_REACH_BACK:
		look(result, l->bytes, SCRATCH(w->me, l->peer, l->at), "written and read");
		break;
	case REQUEST_READ:
	case REQUEST_REACH:
		look(result, l->bytes, CONSTANT(l->peer) + l->at, "read");
		break;
	case REQUEST_COUNT:
		memcpy(old, result, sizeof(old));
		if (old[0] != l->counted || old[1] != l->counted + 1)
			broken("counted %lu and %lu after %lu", (unsigned long)old[0],
			       (unsigned long)old[1], (unsigned long)l->counted);
		l->counted += 2;
		break;
	case REQUEST_SEND:
	case REQUEST_ANNOUNCE:
	case REQUESTS:
		break;
	}
}

void traffic_run(struct worker *w, struct link *l)
{
	l->request = draw(&w->seed, REQUESTS);
	/* of a stopped process the helper would have to copy these */
	if (w->process->kind == SLEEPER &&
	    (l->request == REQUEST_REACH || l->request == REQUEST_REACH_BACK))
		l->request = REQUEST_READ;
	begin(w, l);
	settle(w, l);
	if (!l->lost)
		end(w, l);
}

void traffic_probe(struct worker *w, struct link *l)
{
	const struct process *peer = &w->world->process[l->peer];

	l->request = REQUEST_WRITE;
	post_one(w, l, IBV_WR_RDMA_WRITE, w->shared->local, 8,
		 peer->address[0] + offsetof(struct shared, from[w->me].scratch), peer->key[0]);
	settle(w, l);
}
