/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../random.h"
#include "world.h"

/* The two parts of the line, which a case adds to in any order. */
static struct text {
	size_t length;
	char bytes[8192];
} said, came;

void need(bool ok, const char *call)
{
	if (ok)
		return;
	fprintf(stderr, "differential: %s: %s\n", call, strerror(errno));
	exit(1);
}

uint32_t pick(struct world *world, uint32_t n)
{
	return splitmix64(&world->chance) % n;
}

int pick_size(struct world *world, const char *label, int limit)
{
	static const int small[] = {0, 1, 2, 100};
	int which = (int)pick(world, 6);
	int over = which - 4; /* at the limit, or one above */

	if (which < 4) {
		what(" %s=%d", label, small[which]);
		return small[which];
	}
	what(" %s=max%s", label, over ? "+1" : "");
	return limit + over;
}

bool one_in(struct world *world, uint32_t n)
{
	return pick(world, n) == 0;
}

static void append(struct text *text, const char *format, va_list args)
{
	int length = vsnprintf(text->bytes + text->length, sizeof(text->bytes) - text->length,
			       format, args);

	text->length += length;
	need(length >= 0 && text->length < sizeof(text->bytes), "a line's length");
}

void what(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	append(&said, format, args);
	va_end(args);
}

void outcome(const char *format, ...)
{
	va_list args;

	came.bytes[came.length++] = ' ';
	va_start(args, format);
	append(&came, format, args);
	va_end(args);
}

void line_end(void)
{
	printf("%s =>%s\n", said.bytes, came.bytes);
	fflush(stdout);
	said.length = came.length = 0;
}

void outcome_errno(const char *call, int error)
{
	outcome("%s=%s", call, error ? strerrorname_np(error) : "0");
}

void what_bits(const char *label, uint32_t bits, const char *const *names, size_t count)
{
	const char *join = "";

	what(" %s=%s", label, bits ? "" : "0");
	for (size_t i = 0; i < count; i++) {
		if (bits & (1U << i)) {
			what("%s%s", join, names[i]);
			join = "|";
		}
	}
	if (bits >> count)
		what("%s%#x", join, bits >> count << count);
}

const char *state_name(enum ibv_qp_state state)
{
	static const char *const names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

	return state < COUNT(names) ? names[state] : "?";
}

static uint8_t *map_buffer(void)
{
	void *memory = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			    -1, 0);

	need(memory != MAP_FAILED, "mmap");
	return memory;
}

static struct ibv_mr *reg(struct ibv_pd *pd, uint8_t *memory, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BUFFER_BYTES, access);

	need(mr, "ibv_reg_mr");
	return mr;
}

static void choose_gid(struct world *world)
{
	static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

	for (uint32_t index = 0; index < 16; index++) {
		struct ibv_gid_entry entry;

		if (ibv_query_gid_ex(world->context, 1, index, &entry, 0) ||
		    entry.gid_type != IBV_GID_TYPE_ROCE_V2 || memcmp(&entry.gid, mapped, 12) != 0)
			continue;
		world->gid = entry.gid;
		world->gid_index = index;
		return;
	}
	errno = ENOENT;
	need(false, "an IPv4 GID of RoCE v2");
}

void world_open(struct world *world)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_port_attr port;
	struct ibv_mr *dead;
	int flags;

	need(devices && devices[0], "a device");
	world->context = ibv_open_device(devices[0]);
	need(world->context, "ibv_open_device");
	ibv_free_device_list(devices);
	flags = fcntl(world->context->async_fd, F_GETFL);
	need(fcntl(world->context->async_fd, F_SETFL, flags | O_NONBLOCK) == 0, "fcntl");
	need(ibv_query_device(world->context, &world->device) == 0, "ibv_query_device");
	need(ibv_query_port(world->context, 1, &port) == 0, "ibv_query_port");
	world->mtu = 128U << port.active_mtu;
	choose_gid(world);
	world->pd = ibv_alloc_pd(world->context);
	world->other_pd = ibv_alloc_pd(world->context);
	need(world->pd && world->other_pd, "ibv_alloc_pd");
	for (int i = 0; i < BUFFERS; i++) {
		world->memory[i] = map_buffer();
		world->all[i] = reg(world->pd, world->memory[i], ALL_RIGHTS);
		world->none[i] = reg(world->pd, world->memory[i], 0);
		world->foreign[i] = reg(world->other_pd, world->memory[i], ALL_RIGHTS);
	}
	dead = reg(world->pd, world->memory[0], ALL_RIGHTS);
	world->dead_key = dead->rkey;
	need(ibv_dereg_mr(dead) == 0, "ibv_dereg_mr");
}

void world_close(struct world *world)
{
	for (int i = 0; i < BUFFERS; i++) {
		need(ibv_dereg_mr(world->all[i]) == 0, "ibv_dereg_mr");
		need(ibv_dereg_mr(world->none[i]) == 0, "ibv_dereg_mr");
		need(ibv_dereg_mr(world->foreign[i]) == 0, "ibv_dereg_mr");
		munmap(world->memory[i], BUFFER_BYTES);
	}
	need(ibv_dealloc_pd(world->pd) == 0, "ibv_dealloc_pd");
	need(ibv_dealloc_pd(world->other_pd) == 0, "ibv_dealloc_pd");
	need(ibv_close_device(world->context) == 0, "ibv_close_device");
}

void world_fill(struct world *world)
{
	for (int i = 0; i < BUFFERS; i++) {
		for (uint32_t at = 0; at < BUFFER_BYTES; at++)
			world->memory[i][at] = (at * 7 + (at >> 8) * 3 + i * 85) & 0xff;
	}
}

uint32_t world_digest(const struct world *world)
{
	uint32_t digest = 2166136261; /* FNV-1a */

	for (int i = 0; i < BUFFERS; i++) {
		for (uint32_t at = 0; at < BUFFER_BYTES; at++)
			digest = (digest ^ world->memory[i][at]) * 16777619;
	}
	return digest;
}
