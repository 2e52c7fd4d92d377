/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Lists in memory of a GPU, on the stand-in here, and unchanged on a real one: each holds what a list of the host
 * holds that had the same datagrams.
 *
 *	test-nanet-gpu KERNELS [TEST] [DATAGRAMS]
 *
 * WEFT_PULL_KERNEL names the module of the kernel that stays; without it tests of it are skipped. "faulted" runs alone.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "../gpu/gpu.h"
#include "../random.h"
#include "link/stream_ring.h"
#include "stream/ferry.h"
#include "weft/stream.h"

#define SOON_MS 20000
#define HOST	0
#define ON_GPU	1
#define AHEAD	1024u /* events of one list, before that of the other comes */

static const char *image;
static uint32_t datagrams = 60000;
static struct weft_stream *stream;
static struct weft_stream_layout layout;
static struct weft_stream_list wanted; /* both lists */
static uint8_t *host;		       /* the first's memory */
static weft_cu_ptr gpu;		       /* the second's */
static struct weft_ring_writer *writer[2];
static uint64_t chance;
static uint32_t filled_by; /* WEFT_STREAM_PULL: a kernel that stays; 0: the copy engine */

/* ---- Two lists alike ---- */

static void bind_ring(uint32_t list)
{
	char from[64];
	struct weft_stream_source source = {
		.from = from, .list = list, .protocol = WEFT_STREAM_SEQUENCED, .bits = 32};

	snprintf(from, sizeof(from), "ring:/dev/shm/weft-nanet-gpu-%d-%u", getpid(), list);
	assert_return_code(weft_stream_bind(stream, &source, NULL), 0);
	assert_return_code(weft_ring_writer_open(strchr(from, ':') + 1, &writer[list]), 0);
}

static void begin(const struct weft_stream_list *list)
{
	void *at;

	wanted = *list;
	weft_stream_lay_out(list, &layout);
	gpu = gpu_alloc(layout.bytes);
	GPU_OK(cu.cuMemsetD8_v2(gpu, 0xa5, layout.bytes));
	GPU_OK(cu.cuCtxSynchronize());
	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_return_code(weft_stream_register(stream, &wanted, NULL, &at), 0);
	host = at;
	wanted.flags |= WEFT_STREAM_GPU | filled_by;
	wanted.memory = (void *)(uintptr_t)gpu; /* NOLINT(performance-no-int-to-ptr) */
	assert_return_code(weft_stream_register(stream, &wanted, NULL, &at), 0);
	assert_ptr_equal(at, wanted.memory);
	bind_ring(HOST);
	bind_ring(ON_GPU);
	assert_return_code(weft_stream_start(stream), 0);
}

static void end(void)
{
	weft_ring_writer_close(writer[HOST]);
	weft_ring_writer_close(writer[ON_GPU]);
	weft_stream_close(stream);
	GPU_OK(cu.cuMemFree_v2(gpu));
}

/* What a test that failed has left. */
static int forget_rings(void **state)
{
	char path[80];

	for (int i = 0; i < 4; i++) {
		snprintf(path, sizeof(path), "/dev/shm/weft-nanet-gpu-%d-%d%s", getpid(), i / 2,
			 i % 2 ? ".wake" : "");
		unlink(path);
	}
	return 0;
}

/* The same datagram to both. All its bytes follow from its number. */
static void send_number(uint32_t number, uint32_t most)
{
	uint32_t bytes = 8 + number * 37 % (most - 7);
	uint8_t data[1500];

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = (uint8_t)(number * 7 + i);
	memcpy(data, &number, 4);
	for (uint32_t list = HOST; list <= ON_GPU; list++)
		while (weft_ring_writer_put(writer[list], data, bytes))
			usleep(100);
}

static struct weft_stream_counters counters_of(uint32_t source)
{
	struct weft_stream_counters c;

	assert_return_code(weft_stream_counters(stream, source, &c), 0);
	assert_int_equal(c.arrived, c.placed + c.duplicate + c.late + c.bad + c.no_buffer);
	assert_int_equal(c.sent, c.arrived - c.duplicate + c.lost);
	return c;
}

static void wait_arrived(uint32_t source, uint64_t arrived)
{
	int ms = 0;

	for (; ms < SOON_MS && counters_of(source).arrived < arrived; ms++)
		usleep(1000);
	assert_int_equal(counters_of(source).arrived, arrived);
}

/* ---- What is in them ---- */

static void read_gpu(void *to, uint64_t at, uint64_t bytes)
{
	if (bytes)
		GPU_OK(cu.cuMemcpyDtoH_v2(to, gpu + at, bytes));
}

/* What the GPU has of the buffer's datagrams, and where each lies there and on the host. Returns up to where. */
static uint64_t compare_places(const struct weft_stream_event *e, const struct weft_stream_event *g)
{
	const struct weft_stream_datagram *ours = weft_stream_datagrams(stream, HOST, e->buffer);
	size_t bytes = wanted.slots * sizeof(*ours);
	struct weft_stream_datagram *theirs = malloc(bytes);
	uint64_t used = 0;

	assert_non_null(theirs);
	read_gpu(theirs, layout.datagrams + g->buffer * bytes, bytes);
	assert_memory_equal(theirs, weft_stream_datagrams(stream, ON_GPU, g->buffer), bytes);
	for (uint32_t i = 0; i < wanted.slots; i++) {
		if (ours[i].generation != e->generation)
			continue;
		assert_int_equal(theirs[i].generation, e->generation);
		assert_int_equal(theirs[i].number, ours[i].number);
		assert_int_equal(theirs[i].offset, ours[i].offset);
		assert_int_equal(theirs[i].bytes, ours[i].bytes);
		if (ours[i].offset + ours[i].bytes > used)
			used = ours[i].offset + ours[i].bytes;
	}
	free(theirs);
	return used;
}

/* The event of the host's list and that of the GPU's tell of the same bytes, which are there. */
static void compare_buffers(const struct weft_stream_event *e, const struct weft_stream_event *g)
{
	static uint8_t bytes[1 << 20];
	uint64_t word, used = e->bytes;

	assert_int_equal(g->buffer, e->buffer);
	assert_int_equal(g->generation, e->generation);
	assert_int_equal(g->why, e->why);
	assert_int_equal(g->bytes, e->bytes);
	assert_int_equal(g->datagrams, e->datagrams);
	assert_int_equal(g->first_sequence, e->first_sequence);
	assert_int_equal(g->last_sequence, e->last_sequence);
	assert_int_equal(g->missing, e->missing);
	if (wanted.slots)
		used = compare_places(e, g);
	read_gpu(bytes, (uint64_t)g->buffer * wanted.bytes, used);
	assert_memory_equal(bytes, host + (size_t)e->buffer * wanted.bytes, used);
	read_gpu(&word, layout.words + 8ull * g->buffer, 8);
	assert_int_equal(word, (uint64_t)g->generation << 32 | g->bytes);
	assert_int_equal(word, weft_stream_words(stream, ON_GPU)[g->buffer]);
}

/* Takes what both lists tell of so many datagrams, buffer after buffer. */
static void compare_all(uint64_t want)
{
	static struct weft_stream_event event[2][AHEAD];
	uint64_t had[2] = {0, 0}, compared = 0, told[2] = {0, 0};

	while (had[HOST] < want || had[ON_GPU] < want || compared < told[HOST]) {
		struct weft_stream_event e;
		int answer = weft_stream_wait(stream, &e, SOON_MS);

		assert_return_code(answer, -answer);
		assert_true(told[e.list] - compared < AHEAD);
		event[e.list][told[e.list]++ % AHEAD] = e;
		had[e.list] += e.datagrams;
		while (compared < told[HOST] && compared < told[ON_GPU]) {
			const struct weft_stream_event *h = &event[HOST][compared % AHEAD],
						       *g = &event[ON_GPU][compared % AHEAD];

			compare_buffers(h, g);
			for (uint32_t list = HOST; list <= ON_GPU; list++)
				assert_return_code(weft_stream_give_back(stream, list, h->buffer,
									 h->generation),
						   0);
			compared++;
		}
	}
	assert_int_equal(had[HOST], want);
	assert_int_equal(had[ON_GPU], want);
}

static void flush_both(void)
{
	assert_return_code(weft_stream_flush(stream, HOST), 0);
	assert_return_code(weft_stream_flush(stream, ON_GPU), 0);
}

/* Datagrams that come twice, late and in another order, in batches that both lists have room for. */
static void play(const struct weft_stream_list *list, uint32_t count, uint32_t most, uint32_t batch)
{
	uint64_t sent = 0, placed = 0;

	begin(list);
	for (uint32_t number = 0; number < count;) {
		uint32_t until = number + batch / 2 + (uint32_t)(splitmix64(&chance) % (batch / 2));

		for (; number < until; number += 2, sent += 2) {
			bool turned = splitmix64(&chance) % 8 == 0;

			send_number(number + turned, most);
			send_number(number + !turned, most);
			if (splitmix64(&chance) % 16 == 0) {
				send_number(number, most);
				sent++;
			}
		}
		wait_arrived(HOST, sent);
		wait_arrived(ON_GPU, sent);
		flush_both();
		compare_all(counters_of(HOST).placed - placed);
		placed = counters_of(HOST).placed;
	}
	assert_int_equal(counters_of(HOST).no_buffer, 0);
	assert_int_equal(counters_of(ON_GPU).placed, placed);
	assert_int_equal(counters_of(ON_GPU).duplicate, counters_of(HOST).duplicate);
	assert_true(counters_of(HOST).duplicate > 0);
	end();
}

static void bytes_packed(void **state)
{
	const struct weft_stream_list list = {.buffers = 32, .bytes = 65536 + 3};

	play(&list, datagrams, 200, 8000);
}

static void bytes_slots(void **state)
{
	const struct weft_stream_list list = {
		.buffers = 32, .bytes = 64 * 1500, .slots = 64, .slot_bytes = 1500};

	play(&list, datagrams / 4, 1400, 1200);
}

static void bytes_ordered(void **state)
{
	const struct weft_stream_list list = {.buffers = 32,
					      .bytes = 64 * 1504,
					      .slots = 64,
					      .slot_bytes = 1504,
					      .flags = WEFT_STREAM_ORDERED};

	play(&list, datagrams / 4, 1400, 1200);
}

/* While no buffer is free both lists drop the same, and go on afterwards. */
static void full(void **state)
{
	const struct weft_stream_list list = {.buffers = 2, .bytes = 65536, .datagrams = 10};

	begin(&list);
	for (uint32_t i = 0; i < 50; i++)
		send_number(i, 1400);
	wait_arrived(HOST, 50);
	wait_arrived(ON_GPU, 50);
	assert_int_equal(counters_of(HOST).no_buffer, 30);
	assert_int_equal(counters_of(ON_GPU).no_buffer, 30);
	compare_all(20);
	for (uint32_t i = 50; i < 60; i++)
		send_number(i, 1400);
	compare_all(10);
	end();
}

/* ---- By UDP ---- */

static uint16_t open_port(int fd)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof(to);

	assert_return_code(bind(fd, (struct sockaddr *)&to, sizeof(to)), errno);
	assert_return_code(getsockname(fd, (struct sockaddr *)&to, &bytes), errno);
	return to.sin_port;
}

/* The kernel puts datagrams where the copy engine takes them: the processor copies none of their bytes. */
static void udp_to_slots(void **state)
{
	const struct weft_stream_list list = {.buffers = 8,
					      .bytes = 16 * 1024,
					      .slots = 16,
					      .slot_bytes = 1024,
					      .flags = WEFT_STREAM_GPU};
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	struct weft_stream_source source = {.protocol = WEFT_STREAM_SEQUENCED, .bits = 32};
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	struct weft_stream_event event;
	uint32_t data[200], had[200];
	char from[64];

	wanted = list;
	weft_stream_lay_out(&list, &layout);
	gpu = gpu_alloc(layout.bytes);
	wanted.memory = (void *)(uintptr_t)gpu; /* NOLINT(performance-no-int-to-ptr) */
	to.sin_port = open_port(fd);
	close(fd);
	snprintf(from, sizeof(from), "udp:127.0.0.1:%u", ntohs(to.sin_port));
	source.from = from;
	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_return_code(weft_stream_register(stream, &wanted, NULL, NULL), 0);
	assert_return_code(weft_stream_bind(stream, &source, NULL), 0);
	assert_return_code(weft_stream_start(stream), 0);
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	for (uint32_t number = 0, checked = 0; checked < 3200;) {
		for (; number < checked + 32; number++) {
			for (uint32_t i = 0; i < 200; i++)
				data[i] = number + i * (i > 0);
			assert_int_equal(sendto(fd, data, sizeof(data), 0, (struct sockaddr *)&to,
						sizeof(to)),
					 sizeof(data));
		}
		assert_int_equal(weft_stream_wait(stream, &event, SOON_MS), 0);
		assert_int_equal(event.datagrams, 16);
		for (uint32_t i = 0; i < 16; i++, checked++) {
			struct weft_stream_datagram d;

			read_gpu(&d, layout.datagrams + (event.buffer * 16ull + i) * sizeof(d),
				 sizeof(d));
			assert_int_equal(d.number, checked);
			read_gpu(had, (uint64_t)event.buffer * list.bytes + d.offset, sizeof(had));
			for (uint32_t k = 0; k < 200; k++)
				assert_int_equal(had[k], checked + k * (k > 0));
		}
		assert_int_equal(weft_stream_give_back(stream, 0, event.buffer, event.generation),
				 0);
	}
	assert_int_equal(counters_of(0).copied, 0);
	close(fd);
	weft_stream_close(stream);
	GPU_OK(cu.cuMemFree_v2(gpu));
}

/* ---- A kernel that runs ---- */

#define FOLLOW_DATAGRAMS 16u
#define FOLLOW_WORDS	 32u
#define FOLLOW_ROUNDS	 40u

/* A datagram all of whose words are its number. */
static void send_word(uint64_t number)
{
	uint64_t data[FOLLOW_WORDS];

	for (uint32_t i = 0; i < FOLLOW_WORDS; i++)
		data[i] = number;
	while (weft_ring_writer_put(writer[ON_GPU], (uint8_t *)data, sizeof(data)))
		usleep(100);
}

/* A kernel sees by the words alone which buffers are told of, and behind each word all bytes. */
static void followed(void **state)
{
	const struct weft_stream_list list = {.buffers = 4,
					      .bytes = 8 * FOLLOW_DATAGRAMS * FOLLOW_WORDS,
					      .datagrams = FOLLOW_DATAGRAMS};
	struct {
		uint64_t memory, words, buffers, buffer_words, datagram_words, answer, rounds;
	} args = {.buffers = 4,
		  .buffer_words = FOLLOW_DATAGRAMS * FOLLOW_WORDS,
		  .datagram_words = FOLLOW_WORDS,
		  .rounds = FOLLOW_ROUNDS};
	weft_cu_module module = gpu_module(image);
	void *params[] = {&args};
	struct weft_stream_event event;
	weft_cu_function kernel;
	uint64_t *answer;

	GPU_OK(cu.cuModuleGetFunction(&kernel, module, "follow"));
	answer = gpu_pinned(16);
	begin(&list);
	args.memory = gpu;
	args.words = gpu + layout.words;
	args.answer = (uintptr_t)answer;
	GPU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	for (uint64_t round = 0; round < FOLLOW_ROUNDS; round++) {
		for (uint64_t i = 0; i < FOLLOW_DATAGRAMS; i++)
			send_word(round * FOLLOW_DATAGRAMS + i);
		assert_int_equal(weft_stream_wait(stream, &event, SOON_MS), 0);
		assert_int_equal(event.buffer, round % 4);
		for (int ms = 0; ms < SOON_MS; ms++) {
			if (__atomic_load_n(&answer[0], __ATOMIC_ACQUIRE) > round)
				break;
			usleep(1000);
		}
		assert_int_equal(__atomic_load_n(&answer[0], __ATOMIC_ACQUIRE), round + 1);
		assert_int_equal(
			weft_stream_give_back(stream, ON_GPU, event.buffer, event.generation), 0);
	}
	GPU_OK(cu.cuStreamSynchronize(NULL)); /* the context has a kernel that stays */
	assert_int_equal(answer[1], 0);
	end();
	GPU_OK(cu.cuMemFreeHost(answer));
	GPU_OK(cu.cuModuleUnload(module));
}

/* ---- The same by a kernel that stays ---- */

static int by_kernel(void **state)
{
	filled_by = WEFT_STREAM_PULL;
	return 0;
}

static int by_engine(void **state)
{
	filled_by = 0;
	return forget_rings(state);
}

#define SKIP_WITHOUT_KERNEL()                                                                      \
	do                                                                                         \
		if (!getenv("WEFT_PULL_KERNEL"))                                                   \
			skip();                                                                    \
	while (0)

static void pulled_packed(void **state)
{
	SKIP_WITHOUT_KERNEL();
	bytes_packed(state);
}

static void pulled_slots(void **state)
{
	SKIP_WITHOUT_KERNEL();
	bytes_slots(state);
}

/* A buffer for each datagram, more in all than the kernel's ring has entries; the copy engine is given many at one go. */
static void singly(void **state)
{
	const struct weft_stream_list list = {.buffers = 700, .bytes = 128, .datagrams = 1};

	begin(&list);
	for (uint32_t i = 0; i < 600; i++)
		send_number(i, 100);
	compare_all(600);
	end();
}

static void pulled_singly(void **state)
{
	SKIP_WITHOUT_KERNEL();
	singly(state);
}

/* By the kernel, to memory of its own. */
static struct weft_ferry *begin_ferry(uint64_t len_bytes, weft_cu_ptr *at)
{
	struct weft_ferry *ferry;

	*at = gpu_alloc(len_bytes);
	assert_return_code(weft_ferry_begin((void *)(uintptr_t)*at, len_bytes, true,
					    &ferry), /* NOLINT(performance-no-int-to-ptr) */
			   0);
	assert_return_code(weft_ferry_start(ferry), 0);
	return ferry;
}

static void end_ferry(struct weft_ferry *ferry, weft_cu_ptr at)
{
	weft_ferry_stop(ferry);
	weft_ferry_end(ferry);
	GPU_OK(cu.cuMemFree_v2(at));
}

/* More entries than the kernel's ring has, of which none is asked for before the last is given. */
static void pulled_unasked(void **state)
{
	const struct weft_plugin_part part[2] = {{0, 8}};
	const uint64_t len_bytes = 16;
	struct weft_ferry *ferry;
	weft_cu_ptr at;

	SKIP_WITHOUT_KERNEL();
	ferry = begin_ferry(len_bytes, &at);
	for (uint64_t i = 1; i <= 1000; i++) {
		memcpy(weft_ferry_host(ferry) + 8, &i, 8);
		assert_return_code(weft_ferry_carry(ferry, part, 8), 0);
		assert_int_equal(weft_ferry_carried(ferry), i);
	}
	assert_true(weft_ferry_done(ferry) <= 1000);
	assert_return_code(weft_ferry_wait(ferry), 0);
	assert_int_equal(weft_ferry_done(ferry), 1000);
	end_ferry(ferry, at);
}

/* One warp copies what is small, the others what is large, at the same time; whether a part begins and ends at a quad or not. */
static void pulled_together(void **state)
{
	enum { LARGE = 40000, SMALL = 100, BYTES = LARGE + SMALL + 4, ROUNDS = 700 };
	const uint64_t len_bytes = BYTES + 16;
	struct weft_ferry *ferry;
	uint8_t *back = malloc(len_bytes);
	weft_cu_ptr at;

	SKIP_WITHOUT_KERNEL();
	assert_non_null(back);
	ferry = begin_ferry(len_bytes, &at);
	for (uint64_t i = 1; i <= ROUNDS; i++) {
		const uint64_t begin = i % 17, word[2] = {i, i << 32 | 1};
		const struct weft_plugin_part large[2] = {{0, LARGE}},
					      small[2] = {{LARGE + begin, SMALL / 2 - begin},
							  {LARGE + SMALL / 2, i % 49 + 1}};
		const uint64_t end = small[1].offset + small[1].len_bytes;

		memset(weft_ferry_host(ferry), (int)i, BYTES);
		memcpy(weft_ferry_host(ferry) + BYTES, word, sizeof(word));
		assert_return_code(weft_ferry_carry(ferry, large, BYTES), 0);
		assert_return_code(weft_ferry_carry(ferry, small, BYTES + 8), 0);
		assert_return_code(weft_ferry_wait(ferry), 0);
		GPU_OK(cu.cuMemcpyDtoH_v2(back, at, len_bytes));
		assert_memory_equal(back + BYTES, word, sizeof(word));
		for (uint32_t k = 0; k < LARGE; k++)
			assert_int_equal(back[k], (uint8_t)i);
		for (uint32_t k = LARGE + begin; k < end; k++)
			assert_int_equal(back[k], (uint8_t)i);
		if (end < BYTES && i > 1)
			assert_int_not_equal(back[end], (uint8_t)i);
	}
	end_ferry(ferry, at);
	free(back);
}

static void pulled_full(void **state)
{
	SKIP_WITHOUT_KERNEL();
	full(state);
}

static void pulled_followed(void **state)
{
	SKIP_WITHOUT_KERNEL();
	followed(state);
}

/* ---- What goes wrong ---- */

static void wait_failed(void)
{
	for (int ms = 0; ms < SOON_MS && !counters_of(ON_GPU).failed; ms++)
		usleep(1000);
	assert_int_equal(counters_of(ON_GPU).failed, EFAULT);
	assert_int_equal(counters_of(ON_GPU).placed, 20);
	assert_int_equal(counters_of(HOST).failed, 0);
}

static void send_ten(uint32_t first)
{
	for (uint32_t i = first; i < first + 10; i++)
		send_number(i, 1400);
}

/* A stream of which ten datagrams have come into the GPU. */
static void begin_with_ten(void)
{
	begin(&(struct weft_stream_list){.buffers = 4, .bytes = 65536, .datagrams = 10});
	send_ten(0);
	compare_all(10);
}

/* Ten more reach the other list alone. */
static void ten_more_fail(void)
{
	struct weft_stream_event event;

	send_ten(10);
	assert_int_equal(weft_stream_wait(stream, &event, SOON_MS), 0);
	assert_int_equal(event.list, HOST);
	wait_failed();
}

/* Freed memory ends its list's sources; nothing of it is told, the accounts hold, and the other list goes on. */
static void freed(void **state)
{
	struct weft_stream_event event;

	begin_with_ten();
	GPU_OK(cu.cuMemFree_v2(gpu));
	ten_more_fail();
	weft_stream_stop(stream);
	assert_int_equal(weft_stream_wait(stream, &event, SOON_MS), -ESHUTDOWN);
	gpu = gpu_alloc(1); /* for end */
	end();
}

/* So does memory whose context has been destroyed. */
static void destroyed(void **state)
{
	weft_cu_context other = gpu_context();

	begin_with_ten();
	GPU_OK(cu.cuCtxDestroy_v2(other));
	ten_more_fail();
	gpu = gpu_alloc(1); /* for end */
	end();
}

/* A kernel's fault ends the pull kernel, too: the sources end with an error, and nothing of the last buffers is told. It is the last
 * test of its process, whose context is of no use afterwards. */
static void faulted(void **state)
{
	struct {
		uint64_t at, count, value;
	} args = {.at = 4096, .count = 1};
	void *params[] = {&args};
	weft_cu_module module;
	weft_cu_function kernel;

	SKIP_WITHOUT_KERNEL();
	module = gpu_module(image);
	GPU_OK(cu.cuModuleGetFunction(&kernel, module, "fill"));
	begin_with_ten();
	GPU_OK(cu.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
	while (cu.cuStreamQuery(NULL) == WEFT_CUDA_ERROR_NOT_READY)
		usleep(1000);
	ten_more_fail();
	weft_ring_writer_close(writer[HOST]);
	weft_ring_writer_close(writer[ON_GPU]);
	weft_stream_close(stream);
}

static int register_at(weft_cu_ptr at, uint32_t flags)
{
	const struct weft_stream_list list = {
		.buffers = 4,
		.bytes = 65536,
		.slots = 32,
		.slot_bytes = 2048,
		.flags = WEFT_STREAM_GPU | flags,
		.memory = (void *)(uintptr_t)at, /* NOLINT(performance-no-int-to-ptr) */
	};

	weft_stream_lay_out(&list, &layout);
	return weft_stream_register(stream, &list, NULL, NULL);
}

static void refused(void **state)
{
	weft_cu_ptr small = gpu_alloc(4096);
	void *pages = malloc(1 << 20);

	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_int_equal(register_at(0, 0), -EINVAL);
	assert_non_null(strstr(weft_stream_wrong(stream), "no memory"));
	assert_int_equal(register_at(small, WEFT_STREAM_STAMPS), -EINVAL);
	assert_non_null(strstr(weft_stream_wrong(stream), "stamps"));
	assert_int_equal(register_at(small, WEFT_STREAM_PULL | WEFT_STREAM_GPU), -EINVAL);
	assert_int_equal(register_at((uintptr_t)pages, 0), -EINVAL);
	assert_non_null(strstr(weft_stream_wrong(stream), "one GPU"));
	assert_int_equal(register_at(small, 0), -EINVAL);
	assert_int_equal(layout.words, 4 * 65536);
	assert_int_equal(layout.datagrams, layout.words + 8 * 4);
	assert_int_equal(layout.bytes,
			 layout.datagrams + 4 * 32 * sizeof(struct weft_stream_datagram));
	weft_stream_close(stream);
	free(pages);
	GPU_OK(cu.cuMemFree_v2(small));
}

/* Before there is a libcuda. */
static void refused_without(void)
{
	assert_return_code(weft_stream_open(0, &stream), 0);
	assert_int_equal(register_at(4096, 0), -ENOTSUP);
	weft_stream_close(stream);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused),
		cmocka_unit_test_teardown(bytes_packed, forget_rings),
		cmocka_unit_test_teardown(bytes_slots, forget_rings),
		cmocka_unit_test_teardown(bytes_ordered, forget_rings),
		cmocka_unit_test_teardown(full, forget_rings),
		cmocka_unit_test(udp_to_slots),
		cmocka_unit_test_teardown(followed, forget_rings),
		cmocka_unit_test_teardown(freed, forget_rings),
		cmocka_unit_test_teardown(singly, forget_rings),
		cmocka_unit_test_teardown(destroyed, forget_rings),
		cmocka_unit_test_setup_teardown(pulled_packed, by_kernel, by_engine),
		cmocka_unit_test_setup_teardown(pulled_slots, by_kernel, by_engine),
		cmocka_unit_test_setup_teardown(pulled_singly, by_kernel, by_engine),
		cmocka_unit_test_setup_teardown(pulled_unasked, by_kernel, by_engine),
		cmocka_unit_test_setup_teardown(pulled_together, by_kernel, by_engine),
		cmocka_unit_test_setup_teardown(pulled_full, by_kernel, by_engine),
		cmocka_unit_test_setup_teardown(pulled_followed, by_kernel, by_engine),
	};
	const struct CMUnitTest last[] = {
		cmocka_unit_test_setup_teardown(faulted, by_kernel, by_engine),
	};
	weft_cu_context context;
	int failed;

	image = argc > 1 ? argv[1] : "";
	if (argc > 2)
		cmocka_set_test_filter(argv[2]);
	if (argc > 3)
		datagrams = (uint32_t)atoi(argv[3]);
	chance = getenv("SEED") ? strtoull(getenv("SEED"), NULL, 10) : (uint64_t)getpid();
	print_message("SEED=%llu\n", (unsigned long long)chance);
	refused_without();
	if (!gpu_load()) {
		print_message("there is no libcuda.so.1\n");
		return 77;
	}
	context = gpu_context();
	if (argc > 2 && !strcmp(argv[2], "faulted"))
		return cmocka_run_group_tests(last, NULL, NULL);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	GPU_OK(cu.cuCtxDestroy_v2(context));
	return failed;
}
