/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Memory that did not move into the pool: by the kernel's process_vm calls where they are allowed,
 * else by the helper of its owner, through a bounce buffer in the pool. Atomics are always the
 * owner's.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "pool/clock.h"
#include "pool/step.h"
#include "pool/format_line.h"
#include "pool/format_member.h"
#include "pool/format_region.h"
#include "pool/sizes.h"
#include "migrate/vma.h"
#include "process/device.h"
#include "process/process.h"

#define PATIENCE_NS 1000000000ull
#define LEFT_SPINS  64

/* ---- Asked in vain ---- */

/*
 * An ask that its thread has given up: the helper that was asked may be in the middle of it still, read the bytes
 * of its bounce buffer, or write an answer there. The thread's next ask waits for that helper.
 */
static void note_left(struct weft_pool *pool, const struct weft_pool_ask *ask, uint64_t incarnation)
{
	weft_process.left[ask - pool->self->ask] =
		(struct weft_left){(uint16_t)ask->target, incarnation};
}

/* Until what it does at ours now is over. */
static int await_line(struct weft_pool *pool, const struct weft_left *left,
		      const _Atomic uint64_t *busy, uint64_t begun_ns)
{
	/* acquire: pairs with the release in weft_pool_depart */
	uint64_t was = atomic_load_explicit(busy, memory_order_acquire), waited_ns;

	if (weft_busy_member(was) != pool->me + 1u)
		return 0;
	for (unsigned int spins = 1; atomic_load_explicit(busy, memory_order_acquire) == was;
	     spins++) {
		if (spins % LEFT_SPINS)
			continue;
		pool->meanwhile(pool);
		if (!weft_pool_alive(pool, left->member, left->incarnation))
			return 0;
		waited_ns = weft_clock_now_ns() - begun_ns;
		if (waited_ns > PATIENCE_NS)
			return -ETIMEDOUT;
		weft_pool_pause(waited_ns);
	}
	return 0;
}

/* Before anything of the ask, or its bounce buffer, is used anew: until no helper is at it. 0; -ETIMEDOUT: one is, and it
 * may not be used. */
static int await_left(struct weft_pool *pool, const struct weft_pool_ask *ask)
{
	struct weft_left *left = &weft_process.left[ask - pool->self->ask];
	const struct weft_pool_member *m;
	uint64_t begun_ns;
	uint32_t lines;
	int err = 0;

	if (!left->incarnation)
		return 0;
	m = weft_pool_member(pool, left->member);
	lines = m ? atomic_load_explicit(&m->lines, memory_order_acquire) : 0;
	begun_ns = weft_clock_now_ns();
	/* which of them is the helper's is not known here */
	for (uint32_t k = 0; !err && k < lines && k < WEFT_MEMBER_LINES; k++)
		err = await_line(pool, left, &m->line[k].busy, begun_ns);
	if (!err)
		left->incarnation = 0;
	return err;
}

/* ---- Asking ---- */

static int wait_answer(struct weft_pool *pool, struct weft_pool_ask *ask, uint64_t seq,
		       uint16_t member, uint64_t incarnation)
{
	uint64_t begun_ns = weft_clock_now_ns(), waited_ns;

	for (unsigned int spins = 1;; spins++) {
		/* acquire: pairs with the release in answer() */
		if (atomic_load_explicit(&ask->answered, memory_order_acquire) == seq)
			return (int)ask->error;
		if (spins % 64)
			continue;
		pool->meanwhile(pool);
		if (spins % 4096 == 0 && !weft_pool_alive(pool, member, incarnation))
			return -ESRCH;
		waited_ns = weft_clock_now_ns() - begun_ns;
		if (waited_ns > PATIENCE_NS)
			return -ETIMEDOUT;
		weft_pool_pause(waited_ns);
	}
}

/* The ask of this thread is free: it waits for each answer, or gives that number up, and await_left comes before the
 * next. */
static int ask_member(struct weft_pool *pool, struct weft_pool_ask *ask, uint16_t member,
		      uint64_t id, enum weft_signal_reason reason)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);
	uint64_t seq = atomic_load_explicit(&ask->seq, memory_order_relaxed) + 1;
	uint64_t incarnation;
	int err;

	if (!m)
		return -ESRCH;
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	ask->target = member;
	ask->id = id;
	/* release: pairs with the acquire in asked() */
	atomic_store_explicit(&ask->seq, seq, memory_order_release);
	WEFT_STEP(reach_asked);
	weft_pool_signal(pool, member, reason);
	err = wait_answer(pool, ask, seq, member, incarnation);
	WEFT_STEP(reach_answer_got);
	atomic_store_explicit(&ask->seq, seq + 1, memory_order_relaxed);
	/* pairs with the fence in answer(): either that sees it, or the revoker that sees our line idle, and the
	 * next ask of ours, see that helper at work */
	if (err) {
		atomic_thread_fence(memory_order_seq_cst);
		note_left(pool, ask, incarnation);
	}
	return err;
}

/* An executor that was stopped asks before it goes on: 0, -EACCES, -ESRCH as above. */
int weft_reach_check(const struct weft_pool *pool, const struct weft_in_place *memory)
{
	const _Atomic uint64_t *id = &pool->mrs[(uint32_t)memory->id >> WEFT_KEY_BITS].id;

	if (atomic_load_explicit(memory->grant->word, memory_order_acquire) != memory->grant->was)
		return -ESRCH;
	return atomic_load_explicit(id, memory_order_acquire) == memory->id ? 0 : -EACCES;
}

/* A thread that is stopped before it asks may ask when its grant has ended: the helper looks once more. */
static int ask_helper(struct weft_pool *pool, struct weft_pool_ask *ask,
		      const struct weft_in_place *memory)
{
	int err = weft_reach_check(pool, memory);

	WEFT_TURN(reach_checked);
	ask->grant_off = (uint64_t)((const uint8_t *)memory->grant->word - pool->base);
	ask->grant_was = memory->grant->was;
	return err ? err
		   : ask_member(pool, ask, memory->grant->member, memory->id, WEFT_SIGNAL_ASK);
}

int weft_reach_call(struct weft_pool *pool, uint16_t member, enum weft_ask_kind kind, uint64_t id,
		    void *message, uint64_t len_bytes)
{
	const struct weft_caller *caller = weft_caller();
	uint64_t *off = &weft_process.bounce_off[caller->index];
	struct weft_pool_ask *ask = caller->ask;
	int err = *off ? 0 : weft_pool_alloc(pool, WEFT_BOUNCE_BYTES, off);

	err = err ? err : await_left(pool, ask);
	if (err)
		return err;
	ask->kind = kind;
	ask->len_bytes = len_bytes;
	ask->bounce_off = *off;
	memcpy(pool->base + *off, message, len_bytes);
	err = ask_member(pool, ask, member, id, WEFT_SIGNAL_CALL);
	if (!err)
		memcpy(message, pool->base + *off, len_bytes);
	return err;
}

int weft_reach_fill(const struct weft_pool *pool, const struct weft_in_place *memory,
		    uint8_t *bounce, uint8_t *here, uint64_t len_bytes, bool write)
{
	if (memory->here_id)
		return weft_device_copy(pool, memory->here_id, (uintptr_t)here, bounce, len_bytes,
					!write)
			       ? -ENXIO
			       : 0;
	memcpy(write ? bounce : here, write ? here : bounce, len_bytes);
	return 0;
}

static int ask_copy(struct weft_pool *pool, const struct weft_caller *caller,
		    const struct weft_in_place *memory, uint8_t *here, uint64_t len_bytes,
		    bool write)
{
	struct weft_pool_ask *ask = caller->ask;
	uint64_t *off = &weft_process.bounce_off[caller->index];
	int err;

	if (!*off && weft_pool_alloc(pool, WEFT_BOUNCE_BYTES, off))
		return -ENOMEM;
	err = await_left(pool, ask);
	if (err)
		return err;
	for (uint64_t done = 0; done < len_bytes; done += ask->len_bytes) {
		uint8_t *bounce = pool->base + *off;

		WEFT_STEP(reach_bounce_made);
		ask->kind = write ? WEFT_ASK_WRITE : WEFT_ASK_READ;
		ask->va = memory->va + done;
		ask->len_bytes =
			len_bytes - done < WEFT_BOUNCE_BYTES ? len_bytes - done : WEFT_BOUNCE_BYTES;
		ask->bounce_off = *off;
		err = write ? weft_reach_fill(pool, memory, bounce, here + done, ask->len_bytes,
					      true)
			    : 0;
		err = err ? err : ask_helper(pool, ask, memory);
		if (!err && !write)
			err = weft_reach_fill(pool, memory, bounce, here + done, ask->len_bytes,
					      false);
		if (err)
			return err;
	}
	return 0;
}

/* ---- By the kernel ---- */

/* Whether those bytes here can be read, or written. */
static bool is_mapped(const void *here, uint64_t len_bytes, int prot)
{
	uintptr_t at = (uintptr_t)here, end = at + len_bytes;
	struct weft_vma_walk walk;
	struct weft_vma vma;

	if (weft_vma_open(&walk))
		return true; /* cannot tell */
	while (at < end && !weft_vma_next(&walk, at, &vma) && vma.start <= at && vma.prot & prot)
		at = vma.end;
	weft_vma_close(&walk);
	return at >= end;
}

/* Of one that has that witness. -ESRCH: it has gone, or is another program now. */
static int by_kernel(pid_t pid, uint64_t witness, uint64_t va, void *here, uint64_t len_bytes,
		     bool write)
{
	while (len_bytes) {
		uint8_t seen = 0;
		struct iovec local[2] = {{&seen, 1}, {here, len_bytes}};
		/* programs poll on the last byte: the kernel copies in any order, but one element
		 * after the other, all of one program */
		struct iovec remote[3] = {{(void *)(uintptr_t)witness, 1},
					  {(void *)(uintptr_t)va, len_bytes - 1},
					  {(void *)(uintptr_t)(va + len_bytes - 1), 1}};
		ssize_t n = write ? process_vm_writev(pid, local, 2, remote, 3, 0)
				  : process_vm_readv(pid, local, 2, remote, 3, 0);

		if (n < 0)
			return errno == EFAULT ? -ESRCH : -errno;
		if (n-- <= 1)
			return is_mapped(here, len_bytes, write ? PROT_READ : PROT_WRITE) ? -EFAULT
											  : -ENXIO;
		here = (uint8_t *)here + n;
		va += (uint64_t)n;
		len_bytes -= (uint64_t)n;
	}
	return 0;
}

int weft_reach(void *context, const struct weft_caller *caller, const struct weft_in_place *memory,
	       void *here, uint64_t len_bytes, bool write)
{
	struct weft_pool *pool = ((struct weft_process *)context)->pool;
	struct weft_pool_member *m = weft_pool_member(pool, memory->grant->member);
	uint64_t incarnation;
	int err;

	if (!m)
		return -ESRCH;
	incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);
	/* its number may be somebody else's by now */
	if (!incarnation || !weft_pool_alive(pool, memory->grant->member, incarnation))
		return -ESRCH;
	err = weft_reach_check(pool, memory);
	if (err)
		return err;
	err = -EPERM;
	if (m->pid_ns == pool->self->pid_ns && m->witness && !memory->here_id)
		err = by_kernel((pid_t)m->pid, m->witness, memory->va, here, len_bytes, write);
	/* a process whose first thread has ended cannot be reached by its number, but lives */
	if (err != -EPERM && err != -ENOSYS && err != -ESRCH)
		return err;
	return weft_reach_by_helper(pool, caller, memory, here, len_bytes, write);
}

int weft_reach_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
			 const struct weft_in_place *memory, void *here, uint64_t len_bytes,
			 bool write)
{
	int err = weft_reach_check(pool, memory);

	if (err)
		return err;
	return memory->later ? weft_late_copy(pool, memory, here, len_bytes, write)
			     : ask_copy(pool, caller, memory, here, len_bytes, write);
}

int weft_reach_atomic(void *context, const struct weft_caller *caller,
		      const struct weft_in_place *memory, bool add, uint64_t compare_add,
		      uint64_t swap, uint64_t *value)
{
	return weft_reach_atomic_by_helper(((struct weft_process *)context)->pool, caller, memory,
					   add, compare_add, swap, value);
}

int weft_reach_atomic_by_helper(struct weft_pool *pool, const struct weft_caller *caller,
				const struct weft_in_place *memory, bool add, uint64_t compare_add,
				uint64_t swap, uint64_t *value)
{
	enum weft_ask_kind kind = add ? WEFT_ASK_FETCH_ADD : WEFT_ASK_CMP_SWAP;
	struct weft_pool_ask *ask = caller->ask;
	int err;

	if (memory->later) {
		err = weft_reach_check(pool, memory);
		return err ? err
			   : weft_late_atomic(pool, memory, kind, (uint64_t[]){compare_add, swap},
					      value);
	}
	err = await_left(pool, ask);
	if (err)
		return err;
	ask->kind = kind;
	ask->va = memory->va;
	ask->len_bytes = 8;
	ask->operand[0] = compare_add;
	ask->operand[1] = swap;
	err = ask_helper(pool, ask, memory);
	*value = ask->value;
	return err;
}

/* ---- Answering ---- */

static int by_file(uint64_t va, uint8_t *here, uint64_t len_bytes, bool write)
{
	int fd = open("/proc/thread-self/mem", O_RDWR | O_CLOEXEC), err = 0;

	if (fd < 0)
		return -errno;
	while (len_bytes) {
		/* the last byte last, as above */
		uint64_t part = len_bytes > 1 ? len_bytes - 1 : 1;
		ssize_t n = write ? pwrite(fd, here, part, (off_t)va)
				  : pread(fd, here, part, (off_t)va);

		if (n <= 0) {
			err = -EFAULT;
			break;
		}
		here += n;
		va += (uint64_t)n;
		len_bytes -= (uint64_t)n;
	}
	close(fd);
	return err;
}

/* Through the kernel even here: an address that is no longer mapped must not end us. The first thread may
 * have ended. */
static int own_memory(const struct weft_pool *pool, uint64_t va, void *here, uint64_t len_bytes,
		      bool write)
{
	int err = by_kernel(gettid(), pool->self->witness, va, here, len_bytes, write);

	return err && err != -EFAULT ? by_file(va, here, len_bytes, write) : err;
}

/* What is asked, read once. */
struct work {
	uint32_t kind;
	uint64_t id, va, len_bytes, operand[2], bounce_off, grant_off, grant_was;
};

/* The asking thread may have been stopped for long, or its page be damaged. */
static bool is_allowed(struct weft_pool *pool, const struct work *w)
{
	const _Atomic uint64_t *word =
		w->grant_off % sizeof(*word) ? NULL
					     : weft_pool_window(pool, w->grant_off, sizeof(*word));

	return word && atomic_load_explicit(word, memory_order_relaxed) == w->grant_was;
}

/* Whether the region is ours, still there, and has all those bytes. */
static bool is_registered(struct weft_pool *pool, const struct work *w)
{
	uint32_t index = (uint32_t)w->id >> WEFT_KEY_BITS;
	const struct weft_pool_mr *mr = &pool->mrs[index];
	uint64_t start;

	if (!index || weft_pool_see_mr(pool, index) ||
	    atomic_load_explicit(&mr->id, memory_order_acquire) != w->id || mr->owner != pool->me)
		return false;
	start = w->va - mr->va;
	return start <= mr->len_bytes && w->len_bytes <= mr->len_bytes - start;
}

/* The same for memory of a device. */
static int apply_on_device(struct weft_pool *pool, const struct work *w, void *bounce,
			   uint64_t *value)
{
	bool add = w->kind == WEFT_ASK_FETCH_ADD;

	if (w->kind == WEFT_ASK_READ || w->kind == WEFT_ASK_WRITE)
		return bounce ? weft_device_copy(pool, w->id, w->va, bounce, w->len_bytes,
						 w->kind == WEFT_ASK_WRITE)
			      : -EINVAL;
	if ((w->kind != WEFT_ASK_CMP_SWAP && !add) || w->va & 7 || w->len_bytes != sizeof(*value))
		return -EINVAL;
	return weft_device_change(pool, w->id, w->va, add, w->operand[0], w->operand[1], value);
}

static int apply(struct weft_pool *pool, const struct work *w, uint64_t *value)
{
	void *bounce = weft_pool_window(pool, w->bounce_off, w->len_bytes);
	_Atomic uint64_t *at = (_Atomic uint64_t *)(uintptr_t)w->va;
	uint64_t word;
	int err;

	if (!is_allowed(pool, w))
		return -ESRCH;
	if (!is_registered(pool, w))
		return -EACCES;
	if (weft_device_has(pool, w->id))
		return apply_on_device(pool, w, bounce, value);
	switch ((enum weft_ask_kind)w->kind) {
	case WEFT_ASK_READ:
		return bounce ? own_memory(pool, w->va, bounce, w->len_bytes, false) : -EINVAL;
	case WEFT_ASK_WRITE:
		return bounce ? own_memory(pool, w->va, bounce, w->len_bytes, true) : -EINVAL;
	case WEFT_ASK_CMP_SWAP:
	case WEFT_ASK_FETCH_ADD:
		err = own_memory(pool, w->va, &word, sizeof(word), false);
		if (err || w->va & 7 || w->len_bytes != sizeof(word))
			return err ? err : -EINVAL;
		*value = w->operand[0];
		if (w->kind == WEFT_ASK_FETCH_ADD)
			*value = atomic_fetch_add(at, w->operand[0]);
		else
			atomic_compare_exchange_strong(at, value, w->operand[1]);
		return 0;
	case WEFT_ASK_QP_OPEN:
	case WEFT_ASK_QP_MODIFY:
	case WEFT_ASK_QP_QUERY:
	case WEFT_ASK_QP_CLOSE:
		break;
	}
	return -EINVAL;
}

/* The number of what it asks us for; 0: nothing. */
static uint64_t asked(const struct weft_pool *pool, const struct weft_pool_ask *ask)
{
	/* acquire: pairs with the release in ask_member */
	uint64_t seq = atomic_load_explicit(&ask->seq, memory_order_acquire);

	return seq & 1 && ask->target == pool->me &&
			       atomic_load_explicit(&ask->answered, memory_order_relaxed) != seq
		       ? seq
		       : 0;
}

static void answer(struct weft_pool *pool, struct weft_pool_ask *ask)
{
	struct work work;
	uint64_t seq;

	/* pairs with the fence in ask_member: our visit is seen before we look whether we are still
	 * asked */
	atomic_thread_fence(memory_order_seq_cst);
	seq = asked(pool, ask);
	work = (struct work){ask->kind,
			     ask->id,
			     ask->va,
			     ask->len_bytes,
			     {ask->operand[0], ask->operand[1]},
			     ask->bounce_off,
			     ask->grant_off,
			     ask->grant_was};
	if (!seq)
		return;
	WEFT_STEP(reach_answering);
	WEFT_TURN(reach_answering);
	ask->error = apply(pool, &work, &ask->value);
	WEFT_STEP(reach_applied);
	WEFT_TURN(reach_applied);
	/* release: pairs with the acquire in wait_answer */
	atomic_store_explicit(&ask->answered, seq, memory_order_release);
}

static bool is_call(const struct weft_pool_ask *ask)
{
	return ask->kind >= WEFT_ASK_QP_OPEN;
}

/* Each of the asks that are for us, with its member and that one's incarnation. */
static void for_each(struct weft_pool *pool, bool calls, struct weft_caller *caller,
		     void (*act)(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
				 struct weft_pool_ask *ask, struct weft_caller *caller))
{
	struct weft_pool_member *m;

	for (uint16_t i = 0; i < WEFT_MEMBERS && (m = weft_pool_member(pool, i)); i++) {
		uint32_t lines = atomic_load_explicit(&m->lines, memory_order_acquire);
		uint64_t incarnation = atomic_load_explicit(&m->incarnation, memory_order_acquire);

		for (uint32_t k = 0; incarnation && k < lines && k < WEFT_MEMBER_LINES; k++)
			if (asked(pool, &m->ask[k]) && is_call(&m->ask[k]) == calls)
				act(pool, i, incarnation, &m->ask[k], caller);
	}
}

/* Those of requests that do not wait, whose process may be asleep. */
static void answer_late(struct weft_pool *pool, uint16_t member)
{
	struct weft_pool_member *m = weft_pool_member(pool, member);
	/* acquire: pairs with the release in count_asks (late.c) */
	uint32_t late = m ? atomic_load_explicit(&m->late, memory_order_acquire) : 0;
	bool any = false;

	if (!m || !atomic_load_explicit(&m->incarnation, memory_order_acquire))
		return;
	for (uint32_t k = 0; k < late && k < WEFT_MEMBER_LATE; k++)
		if (asked(pool, &m->ask[WEFT_MEMBER_LINES + k])) {
			weft_pool_visit(pool, member);
			answer(pool, &m->ask[WEFT_MEMBER_LINES + k]);
			weft_pool_depart(pool);
			any = true;
		}
	if (any)
		weft_pool_signal(pool, member, WEFT_SIGNAL_WORK);
}

static void answer_ask(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
		       struct weft_pool_ask *ask, struct weft_caller *caller)
{
	/* a member that dies now is not recovered before we have done with its memory; one that ends a region here waits
	 * for us */
	weft_pool_visit(pool, member);
	answer(pool, ask);
	weft_pool_depart(pool);
}

void weft_reach_answer(struct weft_pool *pool)
{
	for_each(pool, false, NULL, answer_ask);
	for (uint16_t i = 0; i < WEFT_MEMBERS && weft_pool_member(pool, i); i++)
		answer_late(pool, i);
}

/* The message, and in *seq whose; or it is not asked any more: 0. */
static void take_call(struct weft_pool *pool, struct weft_pool_ask *ask, uint64_t *seq,
		      struct work *work, void *message)
{
	const void *bounce;

	atomic_thread_fence(memory_order_seq_cst); /* as in answer() */
	*seq = asked(pool, ask);
	*work = (struct work){.kind = ask->kind, .id = ask->id, .bounce_off = ask->bounce_off};
	bounce = weft_pool_window(pool, work->bounce_off, WEFT_CALL_BYTES);
	if (*seq && bounce)
		memcpy(message, bounce, WEFT_CALL_BYTES);
}

static void give_back(struct weft_pool *pool, struct weft_pool_ask *ask, uint64_t seq,
		      const struct work *work, const void *message, int err)
{
	void *bounce = weft_pool_window(pool, work->bounce_off, WEFT_CALL_BYTES);

	atomic_thread_fence(memory_order_seq_cst);
	if (asked(pool, ask) != seq)
		return;
	if (bounce)
		memcpy(bounce, message, WEFT_CALL_BYTES);
	ask->error = err;
	/* release: pairs with the acquire in wait_answer */
	atomic_store_explicit(&ask->answered, seq, memory_order_release);
}

/* It may take long, and wait for others: in between we look at nothing of the member's. */
static void answer_call(struct weft_pool *pool, uint16_t member, uint64_t incarnation,
			struct weft_pool_ask *ask, struct weft_caller *caller)
{
	_Alignas(8) uint8_t message[WEFT_CALL_BYTES] = {0};
	struct work work;
	uint64_t seq;
	int err;

	weft_pool_visit(pool, member);
	take_call(pool, ask, &seq, &work, message);
	weft_pool_depart(pool);
	if (!seq)
		return;
	err = weft_process.api->answer(caller, member, incarnation, (enum weft_ask_kind)work.kind,
				       work.id, message);
	weft_pool_visit(pool, member);
	give_back(pool, ask, seq, &work, message, err);
	weft_pool_depart(pool);
}

void weft_reach_calls(struct weft_pool *pool, struct weft_caller *caller)
{
	for_each(pool, true, caller, answer_call);
}
