/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* $WEFT_EXPLAIN: completions in error, and asynchronous events, in words. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "nic/ah.h"
#include "nic/place.h"
#include "nic/qp.h"
#include "nic/wqe.h"
#include "verbs/explain.h"
#include "verbs/qp.h"
#include "process/process.h"
#include "pool/format_qp.h"
#include "pool/format_region.h"
#include "pool/sizes.h"

#define TEXT_BYTES   320
#define FLUSHES_TOLD 16 /* of a queue pair, each in a line */

struct words {
	const char *clause, *text;
};

static const struct words words_of[] = {
#define WORDS(name, status, clause, words) [WEFT_CAUSE_##name] = {clause, words},
	WEFT_CAUSES(WORDS)
#undef WORDS
};

/* What the words of a cause can name. */
struct blame {
	const struct weft_qp *qp;
	const struct weft_wqe *wqe;
	const struct weft_pool_qp
		*peer;	/* its entry in the pool; NULL: no queue pair has that number */
	uint8_t state;	/* FLUSHED: of the queue pair */
	uint32_t given; /* by a receive in error */
};

static const char *name_of_operation(uint32_t opcode)
{
	static const char *const names[WEFT_OPS] = {[WEFT_OP_WRITE] = "WRITE",
						    [WEFT_OP_WRITE_IMM] = "WRITE_IMM",
						    [WEFT_OP_SEND] = "SEND",
						    [WEFT_OP_SEND_IMM] = "SEND_IMM",
						    [WEFT_OP_READ] = "READ",
						    [WEFT_OP_CMP_SWAP] = "CMP_SWAP",
						    [WEFT_OP_FETCH_ADD] = "FETCH_ADD",
						    [WEFT_OP_LOCAL_INV] = "LOCAL_INV",
						    [WEFT_OP_BIND_MW] = "BIND_MW",
						    [WEFT_OP_SEND_INV] = "SEND_INV",
						    [WEFT_OP_ATOMIC_WRITE] = "ATOMIC_WRITE"};

	return opcode < WEFT_OPS && names[opcode] ? names[opcode] : "request";
}

static uint8_t remote_right(uint32_t opcode)
{
	if (weft_op_is_atomic(opcode))
		return WEFT_ACCESS_REMOTE_ATOMIC;
	return opcode == WEFT_OP_READ ? WEFT_ACCESS_REMOTE_READ : WEFT_ACCESS_REMOTE_WRITE;
}

static const char *name_of_right(uint8_t access)
{
	if (access & WEFT_ACCESS_LOCAL_WRITE)
		return "local write";
	if (access & WEFT_ACCESS_REMOTE_WRITE)
		return "remote write";
	return access & WEFT_ACCESS_REMOTE_READ ? "remote read" : "remote atomic";
}

/* As posted: where it fails early they have not been summed up. */
static uint64_t posted_bytes(const struct weft_wqe *wqe)
{
	uint64_t bytes = 0;

	if (wqe->flags & WEFT_SEND_INLINE)
		return wqe->len_bytes;
	for (uint32_t i = 0; i < wqe->num_sge; i++)
		bytes += wqe->sge[i].len_bytes;
	return bytes;
}

/* A key that one of these domains was refused. */
struct key {
	const char *kind;
	uint32_t key;
	uint64_t addr, bytes;
	uint8_t access;
	uint64_t domain[3];
	unsigned int ndomains;
};

static enum weft_key_fault fault_of(const struct key *k, struct weft_pool_mr *mr)
{
	enum weft_key_fault fault = WEFT_KEY_DOMAIN;

	for (unsigned int i = 0; i < k->ndomains && fault == WEFT_KEY_DOMAIN; i++)
		fault = weft_cause_of_key(weft_process.pool, k->key, k->domain[i], k->addr,
					  k->bytes, k->access, mr);
	return fault;
}

static void put_key(char *to, size_t room, const struct key *k)
{
	struct weft_pool_mr mr = {0};
	enum weft_key_fault fault = fault_of(k, &mr);
	int n = snprintf(to, room, "%s 0x%x for [0x%" PRIx64 ", +%" PRIu64 "): ", k->kind, k->key,
			 k->addr, k->bytes);

	if (n < 0 || (size_t)n >= room)
		return;
	to += n;
	room -= (size_t)n;
	switch (fault) {
	case WEFT_KEY_UNKNOWN:
		snprintf(to, room, "no region or window has this key");
		break;
	case WEFT_KEY_DOMAIN:
		snprintf(to, room,
			 mr.pd & WEFT_PD_WINDOW ? "it is a memory window's, not for this"
						: "it is of another protection domain");
		break;
	case WEFT_KEY_RIGHT:
		snprintf(to, room, "it does not give %s", name_of_right(k->access));
		break;
	case WEFT_KEY_RANGE:
		snprintf(to, room, "that shows [0x%" PRIx64 ", +%" PRIu64 ")", mr.iova,
			 mr.len_bytes);
		break;
	case WEFT_KEY_HOLDS:
		snprintf(to, room, "it did not hold when it was used");
		break;
	}
}

/* ---- Values, by the names that the words of causes have for them ---- */

static void put_local(char *to, size_t room, const struct blame *b)
{
	uint8_t access = weft_op_fetches(b->wqe->opcode) ? WEFT_ACCESS_LOCAL_WRITE : 0;
	const struct weft_pool_sge *sge = weft_cause_in_list(
		weft_process.pool, b->wqe->sge, b->wqe->num_sge, b->qp->domain, access);

	sge = sge ? sge : b->wqe->sge;
	put_key(to, room,
		&(struct key){
			"lkey", sge->lkey, sge->addr, sge->len_bytes, access, {b->qp->domain}, 1});
}

static uint32_t queue_of(const struct blame *b)
{
	return weft_op_is_atomic(b->wqe->opcode) ? b->wqe->imm : b->wqe->remote_srqn;
}

/* Of an XRC request the keys are those of the queue that it names. */
static void put_remote(char *to, size_t room, const struct blame *b)
{
	bool xrc = b->qp->type == WEFT_QPT_XRC_SEND;
	uint32_t number = xrc ? queue_of(b) : b->qp->attr.dest_qpn;
	const struct weft_pool_qp *line = &weft_process.pool->qps[number & (WEFT_QPS - 1)];
	uint64_t bytes = weft_op_is_atomic(b->wqe->opcode) ? 8 : b->wqe->len_bytes;

	put_key(to, room,
		&(struct key){"rkey",
			      b->wqe->rkey,
			      b->wqe->remote_addr,
			      bytes,
			      remote_right(b->wqe->opcode),
			      {weft_domain(line->owner, line->pd),
			       weft_domain(line->owner, line->pd | WEFT_PD_WINDOW),
			       weft_domain(line->owner, b->qp->attr.dest_qpn | WEFT_PD_QP_WINDOW)},
			      3});
}

static void put_right(char *to, size_t room, const struct blame *b)
{
	const char *right = name_of_right(remote_right(b->wqe->opcode));

	snprintf(to, room, "its qp_access_flags lack %s%s", right,
		 remote_right(b->wqe->opcode) == WEFT_ACCESS_REMOTE_WRITE
			 ? ""
			 : ", or its max_dest_rd_atomic is 0");
}

static const char *name_of_service(uint8_t type)
{
	static const char *const names[] = {[WEFT_QPT_RC] = "RC",
					    [WEFT_QPT_UC] = "UC",
					    [WEFT_QPT_UD] = "UD",
					    [WEFT_QPT_XRC_SEND] = "XRC_SEND",
					    [WEFT_QPT_XRC_RECV] = "XRC_RECV"};

	return type < sizeof(names) / sizeof(*names) && names[type] ? names[type] : "no service";
}

static void put_silence(char *to, size_t room, const struct blame *b)
{
	uint8_t type = weft_qp_peer_type(b->qp->type);
	uint64_t conn;

	if (!b->peer) {
		snprintf(to, room, "is no queue pair's number");
		return;
	}
	if (b->peer->type != type) {
		snprintf(to, room, "is a queue pair of %s, not of %s",
			 name_of_service(b->peer->type), name_of_service(type));
		return;
	}
	conn = atomic_load_explicit(&b->peer->conn, memory_order_relaxed);
	if (b->peer->state != WEFT_QPS_RTR && b->peer->state != WEFT_QPS_RTS &&
	    b->peer->state != WEFT_QPS_SQD)
		snprintf(to, room, "is in %s and does not answer",
			 weft_explain_state(b->peer->state));
	else if ((conn & 0xffffff) != b->qp->qpn)
		snprintf(to, room, "is connected to QP 0x%x", (uint32_t)conn & 0xffffff);
	else if (b->qp->attr.sq_psn != b->peer->rq_psn && b->qp->attr.sq_psn != WEFT_ANY_PSN &&
		 b->peer->rq_psn != WEFT_ANY_PSN)
		snprintf(to, room,
			 "has rq_psn 0x%x, and this one sq_psn 0x%x: its requests are no requests "
			 "there "
			 "(WEFT_PSN=lax lets them through)",
			 b->peer->rq_psn, b->qp->attr.sq_psn);
	else
		snprintf(to, room, "does not answer at that address");
}

static void put_bind(char *to, size_t room, const struct blame *b)
{
	struct weft_bind bind = weft_wqe_bind(b->wqe);

	snprintf(to, room, "[0x%" PRIx64 ", +%" PRIu64 ") of lkey 0x%x", bind.addr, bind.len_bytes,
		 bind.lkey);
}

static const char *text_of_gid(const uint8_t gid[16], char text[INET6_ADDRSTRLEN])
{
	return inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
}

/* By the name that the words of causes have for it. */
static void put_value(char *to, size_t room, const char *name, size_t length, const struct blame *b)
{
#define IS(word) (length == strlen(word) && !memcmp(name, word, length))
#define VALUE(word, format, value)                                                                 \
	if (IS(word)) {                                                                            \
		snprintf(to, room, format, value);                                                 \
		return;                                                                            \
	}
	VALUE("given", "%u", b->given)
	VALUE("lkey", "0x%x", b->given)
	VALUE("state", "%s", weft_explain_state(b->state))
	VALUE("bytes", "%" PRIu64, posted_bytes(b->wqe))
	VALUE("to", "0x%" PRIx64, b->wqe->remote_addr)
	VALUE("rkey", "0x%x", b->wqe->rkey)
	VALUE("imm", "0x%x", b->wqe->imm)
	VALUE("opcode", "%u", b->wqe->opcode)
	VALUE("access", "0x%x", weft_wqe_bind(b->wqe).access)
	VALUE("srq", "0x%x", queue_of(b))
	VALUE("pd", "%u", b->qp->pd)
	VALUE("ah", "%d", b->wqe->ah ? (int)b->wqe->ah->pd : -1)
	VALUE("peer", "0x%x", b->qp->attr.dest_qpn)
	VALUE("dgid", "%s", text_of_gid(b->qp->attr.dgid, (char[INET6_ADDRSTRLEN]){""}))
	VALUE("timeout", "%u", b->qp->attr.timeout)
	VALUE("retry_cnt", "%u", b->qp->attr.retry_cnt)
	VALUE("rnr_retry", "%u", b->qp->attr.rnr_retry)
#undef VALUE
	if (IS("local"))
		put_local(to, room, b);
	else if (IS("remote"))
		put_remote(to, room, b);
	else if (IS("right"))
		put_right(to, room, b);
	else if (IS("silence"))
		put_silence(to, room, b);
	else if (IS("bind"))
		put_bind(to, room, b);
#undef IS
}

/* The words of a cause with values for {names}. */
static void fill_words(char text[TEXT_BYTES], const char *words, const struct blame *b)
{
	size_t at = 0;

	while (*words && at + 1 < TEXT_BYTES) {
		size_t length = strcspn(words, *words == '{' ? "}" : "{");

		text[at] = 0;
		if (*words == '{') {
			put_value(text + at, TEXT_BYTES - at, words + 1, length - 1, b);
			length++;
		} else {
			snprintf(text + at, TEXT_BYTES - at, "%.*s", (int)length, words);
		}
		words += length;
		at += strlen(text + at);
	}
}

/* ---- The caller ---- */

static void say_cause(uint32_t qpn, const char *operation, uint64_t wr_id, enum weft_cause cause,
		      const struct blame *b)
{
	char text[TEXT_BYTES];

	fill_words(text, words_of[cause].text, b);
	weft_explain_say("QP 0x%x: %s of wr_id %" PRIu64 ": %s: %s; IBTA %s", qpn, operation, wr_id,
			 ibv_wc_status_str((enum ibv_wc_status)weft_cause_status(cause)), text,
			 words_of[cause].clause);
}

void weft_blame_request(const struct weft_qp *qp, const struct weft_wqe *wqe, enum weft_cause cause)
{
	uint32_t index = qp->attr.dest_qpn & (WEFT_QPS - 1);
	struct blame b = {.qp = qp, .wqe = wqe};

	if (!weft_explain_wanted())
		return;
	if (!weft_pool_see_qp(weft_process.pool, index) &&
	    atomic_load_explicit(&weft_process.pool->qps[index].qpn, memory_order_relaxed) ==
		    qp->attr.dest_qpn)
		b.peer = &weft_process.pool->qps[index];
	say_cause(qp->qpn, name_of_operation(wqe->opcode), wqe->wr_id, cause, &b);
}

/* By index: the number of the queue pair that has it, and how many of its requests and receives
 * were flushed since it was in RESET. Threads that poll at once may miscount. */
static _Atomic uint64_t flushed[WEFT_QPS];

/* A program that posts on into ERR hears of the first ones, then how many they have become. */
static bool flush_is_told(uint32_t qpn)
{
	_Atomic uint64_t *slot = &flushed[qpn & (WEFT_QPS - 1)];
	uint64_t was = atomic_load_explicit(slot, memory_order_relaxed);
	uint32_t n = was >> 32 == qpn ? (uint32_t)was + 1 : 1;

	atomic_store_explicit(slot, (uint64_t)qpn << 32 | n, memory_order_relaxed);
	if (n <= FLUSHES_TOLD)
		return true;
	if (!(n & (n - 1)))
		weft_explain_say(
			"QP 0x%x: %u of its requests and receives have been flushed by now; "
			"IBTA 10.3.1",
			qpn, n);
	return false;
}

void weft_blame_reset(uint32_t qpn)
{
	atomic_store_explicit(&flushed[qpn & (WEFT_QPS - 1)], 0, memory_order_relaxed);
}

/* Requests that failed were explained as they did. */
static void explain_completion(const struct ibv_wc *wc)
{
	static const struct weft_wqe nothing;
	static const struct weft_qp nobody;
	struct blame b = {.qp = &nobody,
			  .wqe = &nothing,
			  .state = weft_process.pool->qps[wc->qp_num & (WEFT_QPS - 1)].state,
			  .given = wc->byte_len};
	bool receive = wc->opcode & IBV_WC_RECV;

	if (wc->status == IBV_WC_WR_FLUSH_ERR && !flush_is_told(wc->qp_num))
		return;
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		say_cause(wc->qp_num, receive ? "receive" : "request", wc->wr_id,
			  WEFT_CAUSE_FLUSHED, &b);
	else if (receive && wc->status == IBV_WC_LOC_LEN_ERR)
		say_cause(wc->qp_num, "receive", wc->wr_id, WEFT_CAUSE_OWN_RECEIVE_LENGTH, &b);
	else if (receive)
		say_cause(wc->qp_num, "receive", wc->wr_id,
			  wc->byte_len == WEFT_NO_LKEY ? WEFT_CAUSE_OWN_RECEIVE_MEMORY
						       : WEFT_CAUSE_OWN_RECEIVE_KEY,
			  &b);
}

int weft_blame_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc)
{
	int n = weft_verbs_poll_cq(cq, num_entries, wc);

	for (int i = 0; i < n; i++)
		if (wc[i].status)
			explain_completion(&wc[i]);
	return n;
}

void weft_blame_event(const struct ibv_async_event *event)
{
	const char *name = ibv_event_type_str(event->event_type);
	const struct ibv_qp *qp = event->element.qp;

	switch ((int)event->event_type) {
	case IBV_EVENT_CQ_ERR:
		weft_explain_say(
			"completion queue: %s: a completion found no room among %d; IBTA 11.6.3",
			name, event->element.cq->cqe);
		break;
	case IBV_EVENT_QP_FATAL:
		weft_explain_say(
			"QP 0x%x: %s: a receive of it, or a completion queue, is at fault, or with "
			"WEFT_TELL_DEATHS=1 the process of its peer has died; IBTA 11.6.3",
			qp->qp_num, name);
		break;
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		weft_explain_say(
			"QP 0x%x: %s: its peer, QP 0x%x, asked for what it may not; IBTA 11.6.3",
			qp->qp_num, name, weft_qp_real(event->element.qp)->nic.attr.dest_qpn);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		weft_explain_say(
			"QP 0x%x: %s: it is in ERR and takes no more from its shared receive "
			"queue; IBTA 11.6.3",
			qp->qp_num, name);
		break;
	default:
		break; /* no event of these tells of an error */
	}
}
