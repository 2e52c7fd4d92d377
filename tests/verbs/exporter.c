/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "exporter.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

#define PATIENCE_NS 20000000000ull
#define GUARD_NS    100000000ull
#define DM_BYTES    4096u

void pass_fd(int sock, int fd)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	char byte = 0;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};

	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	if (sendmsg(sock, &msg, 0) != 1)
		_exit(1);
}

int take_fd(int sock)
{
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	char byte;
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd;

	assert_int_equal(recvmsg(sock, &msg, 0), 1);
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	return fd;
}

/* ---- The exporter ---- */

struct own {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	struct exported *shared;
};

static uint64_t others(const uint8_t *at, uint8_t byte)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < EXPORTED_BYTES; i++)
		n += at[i] != byte;
	return n;
}

static uint64_t guard(uint8_t *at)
{
	uint64_t end_ns = rig_now_ns() + GUARD_NS, changed;

	memset(at, 0x5a, EXPORTED_BYTES);
	do
		changed = others(at, 0x5a);
	while (!changed && rig_now_ns() < end_ns);
	return changed;
}

static uint64_t reg(struct own *o, unsigned int access)
{
	o->mr = ibv_reg_mr(o->pd, o->shared->at, EXPORTED_BYTES, (int)access);
	if (!o->mr)
		return 1;
	o->shared->mr = o->mr->handle;
	o->shared->key = o->mr->lkey;
	return 0;
}

static uint64_t fill_dm(struct own *o, uint8_t byte)
{
	uint8_t bytes[DM_BYTES];

	memset(bytes, byte, sizeof(bytes));
	return (uint64_t)ibv_memcpy_to_dm(o->dm, 0, bytes, sizeof(bytes));
}

static uint64_t arm(struct own *o)
{
	struct ibv_comp_channel *channel = ibv_create_comp_channel(o->context);
	struct ibv_cq *cq = channel ? ibv_create_cq(o->context, 1, NULL, channel, 0) : NULL;

	return cq ? (uint64_t)ibv_req_notify_cq(cq, 0) : 1;
}

static uint64_t obey(struct own *o, uint64_t argument)
{
	struct exported *s = o->shared;

	switch ((enum export_order)s->order) {
	case EXPORT_NOTHING:
		break;
	case EXPORT_REGISTER:
		return reg(o, (unsigned int)argument);
	case EXPORT_DEREGISTER:
		return (uint64_t)ibv_dereg_mr(o->mr);
	case EXPORT_RIGHTS:
		return (uint64_t)ibv_rereg_mr(o->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					      (int)argument);
	case EXPORT_FILL:
		memset(s->at, (int)argument, EXPORTED_BYTES);
		break;
	case EXPORT_CHECK:
		return others(s->at, (uint8_t)argument);
	case EXPORT_UNMAP:
		return (uint64_t)munmap(s->at, EXPORTED_BYTES);
	case EXPORT_GUARD:
		return guard(s->at);
	case EXPORT_DEALLOC:
		return (uint64_t)ibv_dealloc_pd(o->pd);
	case EXPORT_CLOSE:
		return (uint64_t)ibv_close_device(o->context);
	case EXPORT_FREE_DM:
		return (uint64_t)ibv_free_dm(o->dm);
	case EXPORT_FILL_DM:
		return fill_dm(o, (uint8_t)argument);
	case EXPORT_ARM:
		return arm(o);
	}
	return 0;
}

static void run(struct exported *shared, int sock, bool in_place)
{
	int how = in_place ? MAP_SHARED : MAP_PRIVATE;
	struct ibv_alloc_dm_attr attr = {.length = DM_BYTES};
	struct own o = {.shared = shared};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	o.context = rig_context();
	o.pd = ibv_alloc_pd(o.context);
	o.dm = ibv_alloc_dm(o.context, &attr);
	shared->at = mmap(NULL, EXPORTED_BYTES, PROT_READ | PROT_WRITE, how | MAP_ANONYMOUS, -1, 0);
	if (!o.pd || !o.dm || shared->at == MAP_FAILED)
		_exit(1);
	shared->pd = o.pd->handle;
	shared->dm = o.dm->handle;
	pass_fd(sock, o.context->cmd_fd);
	for (;;) {
		while (!shared->order)
			usleep(20);
		shared->result = obey(&o, shared->argument);
		shared->order = EXPORT_NOTHING;
		shared->done = 1;
	}
}

/* ---- The test's side ---- */

void exporter_start(struct exporter *e, bool in_place)
{
	int sock[2];

	e->shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(e->shared, MAP_FAILED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sock), 0);
	e->pid = fork();
	assert_true(e->pid >= 0);
	if (!e->pid)
		run(e->shared, sock[1], in_place);
	close(sock[1]);
	e->fd = take_fd(sock[0]);
	close(sock[0]);
}

uint64_t exporter_do(struct exporter *e, enum export_order order, uint64_t argument)
{
	uint64_t deadline_ns = rig_now_ns() + PATIENCE_NS;

	e->shared->done = 0;
	e->shared->argument = argument;
	e->shared->order = order;
	while (!e->shared->done) {
		assert_int_equal(waitpid(e->pid, NULL, WNOHANG), 0);
		assert_true(rig_now_ns() < deadline_ns);
		usleep(20);
	}
	return e->shared->result;
}

void exporter_kill(struct exporter *e)
{
	assert_int_equal(kill(e->pid, SIGKILL), 0);
	assert_int_equal(waitpid(e->pid, NULL, 0), e->pid);
}
