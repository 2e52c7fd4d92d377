/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "other.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mailbox/port.h"
#include "pool/clock.h"
#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_region.h"
#include "pool/slice.h"

#define BYTES (1ull << 30)
#define TRIES 5 /* of a verb that needs the other host, as in test_quiesce.c */

static char path[64];

void other_have_gid(struct weft_pool *pool, const uint8_t gid[16])
{
	uint64_t half[2];

	memcpy(half, gid, sizeof(half));
	atomic_store(&pool->self->gid[0].half[0], half[0]);
	atomic_store(&pool->self->gid[0].half[1], half[1]);
	atomic_store(&pool->self->gid[0].guard, 1);
	atomic_store(&pool->self->ngids, 1);
}

/* ---- In the other process ---- */

static _Atomic bool stops;

static void *help(void *pool)
{
	while (!atomic_load(&stops))
		weft_pool_sleep(pool, -1);
	return NULL;
}

static void end_rights(struct weft_pool *pool, struct other_page *page)
{
	uint64_t begun_ns = 0, took_ns;
	int err = -ETIMEDOUT;

	for (int i = 0; err && i < TRIES; i++) {
		begun_ns = weft_clock_now_ns();
		err = weft_pool_quiesce(pool, 0, weft_pool_age(pool));
	}
	if (err)
		atomic_store(&page->failed, true);
	took_ns = weft_clock_now_ns() - begun_ns;
	if (took_ns > atomic_load(&page->longest_ns))
		atomic_store(&page->longest_ns, took_ns);
	atomic_fetch_add(&page->revoked, 1);
	usleep(1000);
}

/* Entries as others see them. */
static void open_entries(struct weft_pool *pool, struct other_page *page)
{
	if (weft_pool_take_qp(pool, &page->qp) || weft_pool_take_mr(pool, &page->mr)) {
		atomic_store(&page->failed, true);
		return;
	}
	atomic_store(&pool->qps[page->qp].conn, 5ull << 32);
	atomic_store(&pool->qps[page->qp].qpn, page->qp);
	atomic_store(&pool->mrs[page->mr].id, 5ull << 32 | (page->mr + 1));
}

static void listen_at(struct weft_pool *pool, struct other_page *page)
{
	uint32_t index;

	other_have_gid(pool, page->gid);
	page->err = weft_port_bind(pool, &page->port, &index);
	if (!page->err)
		page->err = weft_port_listen(pool, index);
}

static void act(struct weft_pool *pool, struct other_page *page, struct weft_caller *caller)
{
	enum other_does does = atomic_load(&page->does), did = atomic_load(&page->doing);

	if (does == did) {
		if (does == OTHER_REVOKES)
			end_rights(pool, page);
		if (does == OTHER_BURIES)
			weft_pool_watch(pool);
		atomic_store(&page->displaced, weft_pool_is_displaced(pool));
		usleep(500);
		return;
	}
	atomic_store(&caller->line->busy, 1ull << WEFT_BUSY_BITS);
	if (does == OTHER_USES || does == OTHER_EXECUTES)
		weft_pool_use(pool, page->at);
	if (does == OTHER_EXECUTES)
		atomic_store(&caller->line->busy,
			     (2ull << WEFT_BUSY_BITS) + weft_busy_at(page->at, 7));
	if (does == OTHER_LISTENS)
		listen_at(pool, page);
	if (does == OTHER_OPENS)
		open_entries(pool, page);
	if (does == OTHER_LEASES && weft_pool_extent_alloc(pool, WEFT_PAGE, &page->off))
		atomic_store(&page->failed, true);
	atomic_store(&page->doing, does);
}

static _Noreturn void run(struct other_page *page)
{
	struct weft_caller caller;
	struct weft_pool *pool;
	char where[PATH_MAX], number[16];
	pthread_t helper;
	const char *why;

	snprintf(number, sizeof(number), "%u", page->host);
	setenv("WEFT_HOST", number, 1);
	weft_pool_forget(); /* what the parent had joined */
	if (weft_pool_get(path, &pool, where, &why)) {
		fprintf(stderr, "%s: %s\n", where, why);
		_exit(1);
	}
	page->member = pool->me;
	page->incarnation = pool->incarnation;
	weft_pool_caller_get(pool, &caller);
	pthread_create(&helper, NULL, help, pool);
	atomic_store(&page->doing, OTHER_IDLES);
	while (getppid() != 1)
		act(pool, page, &caller);
	_exit(0);
}

/* ---- In the test ---- */

struct weft_pool *other_pool(uint32_t hosts, uint32_t silence_ms)
{
	struct weft_pool *pool;
	char where[PATH_MAX];
	const char *why;

	snprintf(path, sizeof(path), "shm:/dev/shm/weft-test-hosts-%d", getpid());
	assert_int_equal(weft_pool_create(path, hosts, BYTES, silence_ms, WEFT_POOL_ATOMICS, &why),
			 0);
	setenv("WEFT_HOST", "0", 1);
	if (weft_pool_get(path, &pool, where, &why))
		fail_msg("%s: %s", where, why);
	assert_int_equal(pool->me, 0);
	return pool;
}

void other_end(struct weft_pool *pool)
{
	const char *why;

	weft_pool_put(pool);
	assert_int_equal(weft_pool_remove(path, &why), 0);
}

struct other other_start(uint32_t host)
{
	struct other o = {.page = mmap(NULL, WEFT_PAGE, PROT_READ | PROT_WRITE,
				       MAP_SHARED | MAP_ANONYMOUS, -1, 0)};

	assert_ptr_not_equal(o.page, MAP_FAILED);
	o.page->host = host;
	atomic_store(&o.page->doing, OTHER_LEASES); /* as long as it has not begun */
	o.pid = fork();
	if (!o.pid)
		run(o.page);
	other_tell(&o, OTHER_IDLES);
	return o;
}

void other_tell(struct other *o, enum other_does does)
{
	uint64_t begun_ns = weft_clock_now_ns();

	atomic_store(&o->page->does, does);
	while (atomic_load(&o->page->doing) != does) {
		assert_in_range(weft_clock_now_ns() - begun_ns, 0, 10000000000ull);
		assert_int_equal(waitpid(o->pid, NULL, WNOHANG), 0);
		usleep(200);
	}
}

void other_stop(struct other *o)
{
	int status;

	assert_int_equal(kill(o->pid, SIGSTOP), 0);
	assert_int_equal(waitpid(o->pid, &status, WUNTRACED), o->pid);
	assert_true(WIFSTOPPED(status));
}

void other_kill(struct other *o)
{
	kill(o->pid, SIGKILL);
	waitpid(o->pid, NULL, 0);
	munmap(o->page, WEFT_PAGE);
}

void other_delete_home(uint32_t host)
{
	struct weft_pool_header header;
	char home[PATH_MAX];
	FILE *f = fopen(path + 4, "re");

	assert_int_equal(fread(&header, sizeof(header), 1, f), 1);
	fclose(f);
	snprintf(home, sizeof(home), "/dev/shm/weft-%016jx-%u", (uintmax_t)header.pool_id, host);
	assert_int_equal(unlink(home), 0);
}

void other_tick(struct weft_pool *pool)
{
	weft_pool_sleep(pool, 1000000);
	weft_pool_watch(pool);
}

uint64_t other_leased_bytes(struct weft_pool *pool, uint32_t host)
{
	uint32_t first = weft_segment_first(pool);
	uint32_t each = (pool->segments - first) >> pool->host_bits;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < each; i++)
		bytes += atomic_load(&pool->leases->segment[first + host * each + i])
				 ? weft_segment_bytes(pool)
				 : 0;
	return bytes;
}
