/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Cases of objects: regions, completion queues and queue pairs are made, changed and destroyed. */
#include <errno.h>
#include <sys/mman.h>

#include "cases.h"

static const char *const access_names[] = {
	"LOCAL_WRITE", "REMOTE_WRITE", "REMOTE_READ", "REMOTE_ATOMIC",
	"MW_BIND",     "ZERO_BASED",   "ON_DEMAND",   "HUGETLB",
};

static unsigned int pick_access(struct world *world)
{
	/* mostly what programs use; sometimes a right that does not exist */
	unsigned int bits = pick(world, one_in(world, 3) ? 64 : 16);

	if (one_in(world, 4))
		bits |= IBV_ACCESS_LOCAL_WRITE;
	if (one_in(world, 16))
		bits |= IBV_ACCESS_HUGETLB;
	return one_in(world, 20) ? bits | 1U << 12 : bits;
}

enum place { WHOLE, ODD, READ_ONLY, NO_ACCESS, UNMAPPED, PLACES };
static const char *const place_names[] = {"whole", "odd", "read-only", "no-access", "unmapped"};
static const uint32_t lengths[] = {1, 64, 4096, 16384};

/* Maps four pages of that kind, which free_place unmaps. */
static uint8_t *make_place(enum place place)
{
	static const int rights[] = {PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE, PROT_READ,
				     PROT_NONE, PROT_NONE};
	uint8_t *memory =
		mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	need(memory != MAP_FAILED, "mmap");
	for (size_t i = 0; i < 32768; i += 4096)
		memory[i] = 1;
	need(mprotect(memory, 32768, rights[place]) == 0, "mprotect");
	if (place == UNMAPPED)
		munmap(memory, 32768);
	return memory;
}

static void free_place(enum place place, uint8_t *memory)
{
	if (place != UNMAPPED)
		munmap(memory, 32768);
}

static enum place pick_place(struct world *world)
{
	return one_in(world, 2) ? WHOLE : pick(world, PLACES);
}

void case_region(struct world *world)
{
	enum place place = pick_place(world);
	uint32_t length = one_in(world, 10) ? 0 : lengths[pick(world, COUNT(lengths))];
	unsigned int access = pick_access(world);
	uint8_t *memory = make_place(place);
	struct ibv_mr *mr;

	what("reg_mr memory=%s length=%u", place_names[place], length);
	what_bits("access", access, access_names, COUNT(access_names));
	mr = ibv_reg_mr(world->pd, memory + (place == ODD ? 13 : 0), length, (int)access);
	outcome_errno("reg", mr ? 0 : errno);
	if (mr) {
		outcome("length=%zu", mr->length);
		outcome_errno("dereg", ibv_dereg_mr(mr));
	}
	free_place(place, memory);
}

void case_change_region(struct world *world)
{
	static const char *const flag_names[] = {"TRANSLATION", "PD", "ACCESS"};
	enum place place = pick_place(world);
	int flags = one_in(world, 12) ? 8 : (int)pick(world, 8);
	unsigned int access = pick_access(world);
	uint32_t length = lengths[pick(world, COUNT(lengths))];
	uint8_t *old_memory = make_place(WHOLE);
	uint8_t *memory = make_place(place);
	struct ibv_mr *mr = ibv_reg_mr(world->pd, old_memory, 8192, ALL_RIGHTS);
	int result;

	need(mr, "ibv_reg_mr");
	what("rereg_mr memory=%s length=%u", place_names[place], length);
	what_bits("flags", flags, flag_names, COUNT(flag_names));
	what_bits("access", access, access_names, COUNT(access_names));
	errno = 0;
	result = ibv_rereg_mr(mr, flags, world->other_pd, memory + (place == ODD ? 13 : 0), length,
			      (int)access);
	outcome("rereg=%d", result);
	if (result)
		outcome_errno("errno", errno);
	else
		outcome("length=%zu pd=%s", mr->length, mr->pd == world->pd ? "same" : "other");
	outcome_errno("dereg", ibv_dereg_mr(mr));
	free_place(place, memory);
	free_place(WHOLE, old_memory);
}

void case_completion_queue(struct world *world)
{
	int vectors = world->context->num_comp_vectors;
	int vector = one_in(world, 4) ? vectors : 0;
	struct ibv_cq *cq;
	int cqe;

	what("create_cq");
	cqe = one_in(world, 10) ? -1 : pick_size(world, "cqe", world->device.max_cqe);
	what("%s vector=%s resize:", cqe == -1 ? " cqe=-1" : "", vector ? "count" : "0");
	cq = ibv_create_cq(world->context, cqe, NULL, NULL, vector);
	cqe = pick_size(world, "cqe", world->device.max_cqe);
	outcome_errno("create", cq ? 0 : errno);
	if (!cq)
		return;
	outcome_errno("resize", ibv_resize_cq(cq, cqe));
	outcome("enough=%d", cq->cqe >= cqe);
	outcome_errno("destroy", ibv_destroy_cq(cq));
}

static void tell_caps(const struct ibv_qp_cap *wanted, const struct ibv_qp_cap *got)
{
	outcome("enough=%d", got->max_send_wr >= wanted->max_send_wr &&
				     got->max_recv_wr >= wanted->max_recv_wr &&
				     got->max_send_sge >= wanted->max_send_sge &&
				     got->max_recv_sge >= wanted->max_recv_sge &&
				     got->max_inline_data >= wanted->max_inline_data);
}

void case_queue_pair(struct world *world)
{
	int max_wr = world->device.max_qp_wr, max_sge = world->device.max_sge;
	struct ibv_cq *cq = ibv_create_cq(world->context, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
	struct ibv_qp_cap wanted;
	struct ibv_qp *qp;

	need(cq, "ibv_create_cq");
	if (one_in(world, 8))
		init.qp_type = one_in(world, 2) ? 0 : 99;
	what("create_qp type=%d", init.qp_type);
	init.cap.max_send_wr = pick_size(world, "send_wr", max_wr);
	init.cap.max_recv_wr = one_in(world, 2) ? 4 : pick_size(world, "recv_wr", max_wr);
	init.cap.max_send_sge = one_in(world, 2) ? 2 : pick_size(world, "send_sge", max_sge);
	init.cap.max_recv_sge = one_in(world, 2) ? 2 : pick_size(world, "recv_sge", max_sge);
	init.cap.max_inline_data = one_in(world, 10) ? 1 << 20 : pick(world, 400);
	what(" inline=%u", init.cap.max_inline_data);
	wanted = init.cap;
	qp = ibv_create_qp(world->pd, &init);
	outcome_errno("create", qp ? 0 : errno);
	if (qp) {
		tell_caps(&wanted, &init.cap);
		outcome_errno("destroy_cq", ibv_destroy_cq(cq));
		outcome_errno("destroy", ibv_destroy_qp(qp));
	}
	need(ibv_destroy_cq(cq) == 0, "ibv_destroy_cq");
}

/* An object that is in use cannot be destroyed. */
void case_in_use(struct world *world)
{
	struct ibv_pd *pd = ibv_alloc_pd(world->context);
	struct ibv_mr *mr = ibv_reg_mr(pd, world->memory[LOCAL], 4096, ALL_RIGHTS);

	need(pd && mr, "ibv_reg_mr");
	what("dealloc_pd with a region");
	outcome_errno("dealloc", ibv_dealloc_pd(pd));
	outcome_errno("dereg", ibv_dereg_mr(mr));
	outcome_errno("dealloc", ibv_dealloc_pd(pd));
}
