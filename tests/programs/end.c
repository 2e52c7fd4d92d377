/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "end.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

#define PORT	  1
#define GID_INDEX 0
#define RIGHTS                                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

void end_fail(const char *what)
{
	fprintf(stderr, "failed: %s (%s)\n", what, strerror(errno));
	exit(1);
}

struct ibv_qp *end_add_qp(struct end *end, uint32_t depth, bool signal_all)
{
	struct ibv_qp *qp;
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = signal_all,
		.cap = {.max_send_wr = depth,
			.max_recv_wr = depth,
			.max_inline_data = 16,
			.max_send_sge = 1,
			.max_recv_sge = 1},
	};
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = RIGHTS,
	};

	qp = ibv_create_qp(end->pd, &init);
	end_require(qp, "ibv_create_qp");
	end_require(!ibv_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS),
		    "ibv_modify_qp to INIT");
	return qp;
}

void end_open(struct end *end, size_t memory_bytes, bool signal_all)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	end_require(devices && devices[0], "ibv_get_device_list");
	end->context = ibv_open_device(devices[0]);
	end_require(end->context, "ibv_open_device");
	ibv_free_device_list(devices);
	end->pd = ibv_alloc_pd(end->context);
	end_require(end->pd, "ibv_alloc_pd");
	end->cq = ibv_create_cq(end->context, 2 * END_DEPTH, NULL, NULL, 0);
	end_require(end->cq, "ibv_create_cq");
	end->memory = mmap(NULL, memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);
	end_require(end->memory != MAP_FAILED, "mmap");
	end->mr = ibv_reg_mr(end->pd, end->memory, memory_bytes, RIGHTS);
	end_require(end->mr, "ibv_reg_mr");
	end->qp = end_add_qp(end, END_DEPTH, signal_all);
}

struct end_address end_address(const struct end *end)
{
	struct end_address address = {
		.memory = (uintptr_t)end->memory,
		.rkey = end->mr->rkey,
		.qpn = end->qp->qp_num,
	};

	end_require(!ibv_query_gid(end->context, PORT, GID_INDEX, &address.gid), "ibv_query_gid");
	return address;
}

void end_connect(struct end *end, const struct end_address *peer)
{
	end_connect_qp(end->qp, peer);
}

void end_connect_qp(struct ibv_qp *qp, const struct end_address *peer)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = PORT,
			    .grh = {.dgid = peer->gid, .sgid_index = GID_INDEX, .hop_limit = 1}},
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	end_require(!ibv_modify_qp(qp, &rtr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					   IBV_QP_MIN_RNR_TIMER),
		    "ibv_modify_qp to RTR");
	end_require(!ibv_modify_qp(qp, &rts,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					   IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC),
		    "ibv_modify_qp to RTS");
}

void end_complete(struct end *end)
{
	struct ibv_wc wc;
	int n;

	do
		n = ibv_poll_cq(end->cq, 1, &wc);
	while (n == 0);
	end_require(n == 1, "ibv_poll_cq");
	if (wc.status != IBV_WC_SUCCESS)
		end_require(false, ibv_wc_status_str(wc.status));
}

void end_close(struct end *end)
{
	end_require(!ibv_destroy_qp(end->qp), "ibv_destroy_qp");
	end_require(!ibv_destroy_cq(end->cq), "ibv_destroy_cq");
	end_require(!ibv_dereg_mr(end->mr), "ibv_dereg_mr");
	end_require(!ibv_dealloc_pd(end->pd), "ibv_dealloc_pd");
	end_require(!ibv_close_device(end->context), "ibv_close_device");
}

void end_refuse_pidfd_getfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	end_require(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
			    !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program),
		    "seccomp");
}
