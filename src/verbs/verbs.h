/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libibverbs.so.1: what its files share.
 *
 * A verb is defined under its public name in any file of this folder; that replaces its generated
 * stub (abi/README.md). What programs reach through the tables of a context is named
 * weft_verbs_<operation>. Both answer in the form of their manual page; all else here returns 0 or
 * -errno.
 */
#ifndef WEFT_VERBS_VERBS_H
#define WEFT_VERBS_VERBS_H

/* All is built hidden; what the reference implementation's header declares is what we export. */
#include <pthread.h>
#include <stdbool.h>

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>

enum ibv_gid_type_sysfs {
	IBV_GID_TYPE_SYSFS_IB_ROCE_V1,
	IBV_GID_TYPE_SYSFS_ROCE_V2,
};

/* Exported for rdma-core's own programs; no public header declares them. */
int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
		       enum ibv_gid_type_sysfs *type);
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

/* "/sys", or what SYSFS_PATH says. */
const char *ibv_get_sysfs_path(void);
/* The length read into buf, without a newline at the end and followed by a NUL; or -1. */
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
/* For vendor libraries: both do nothing and return 0. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
#pragma GCC visibility pop

/* The header turns these into inline functions for callers; we define what stands behind. */
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* What a program has not read yet of asynchronous events (event.c). */
struct weft_async {
	int fd; /* an eventfd that counts what is on the list; the context's async_fd */
	pthread_mutex_t mutex;
	struct weft_async_event *first, **last;
};

struct weft_context {
	struct weft_context *next;
	_Atomic int state;
	struct weft_async async;
	uint64_t
		family; /* the number, in all of the pool, of the context that it was opened as, or imported from */
	struct verbs_context vctx;
};

/*
 * The open context behind a program's pointer, or NULL if it is not one of ours or closed. Never
 * touches what it is given. Any thread, no lock.
 */
struct weft_context *weft_context_find(const struct ibv_context *context);
/* Another open context of a family, without a descriptor yet. NULL and errno. */
struct ibv_context *weft_context_import(uint64_t family);
/* import.c: what the descriptor says to the importer. 0 or -errno. */
int weft_context_export(int fd, uint64_t family);
/* Whether its descriptor has ever been imported, as far as can be told. */
bool weft_context_was_imported(const struct ibv_context *context);
bool weft_same_family(const struct ibv_context *a, const struct ibv_context *b);
/* In a fork's child: none is open. Async-signal-safe. */
void weft_context_forget(void);
/* An event of the device, for each open context. */
void weft_contexts_raise(const struct ibv_async_event *event);

/* device.c: the only one. */
struct ibv_device *weft_device(void);

/*
 * The nic's side of a context (attach.c). Attach is called by ibv_open_device with vctx complete: 0
 * or -errno, which ibv_open_device reports. Detach is called once for each attach that returned 0,
 * when weft_context_find() finds the context no more, and cannot fail.
 */
int weft_nic_attach(struct weft_context *ctx);
void weft_nic_detach(struct weft_context *ctx);

/* struct ibv_context_ops */
struct ibv_mw *weft_verbs_alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int weft_verbs_bind_mw(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *mw_bind);
int weft_verbs_dealloc_mw(struct ibv_mw *mw);
int weft_verbs_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int weft_verbs_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int weft_verbs_post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr,
			     struct ibv_recv_wr **bad_wr);
int weft_verbs_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int weft_verbs_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/* struct verbs_context */
int weft_verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
			  size_t attr_len);
int weft_verbs_query_device_ex(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size);
int weft_verbs_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values);
int weft_verbs_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
			 struct ibv_sge *sg_list, uint32_t num_sges);
struct ibv_mr *weft_verbs_alloc_null_mr(struct ibv_pd *pd);
struct ibv_cq_ex *weft_verbs_create_cq_ex(struct ibv_context *context,
					  struct ibv_cq_init_attr_ex *init_attr);
int weft_verbs_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
struct ibv_qp *weft_verbs_create_qp_ex(struct ibv_context *context,
				       struct ibv_qp_init_attr_ex *init_attr);
struct ibv_qp *weft_verbs_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);
struct ibv_srq *weft_verbs_create_srq_ex(struct ibv_context *context,
					 struct ibv_srq_init_attr_ex *init_attr);
int weft_verbs_get_srq_num(struct ibv_srq *srq, uint32_t *srq_num);
struct ibv_xrcd *weft_verbs_open_xrcd(struct ibv_context *context,
				      struct ibv_xrcd_init_attr *init_attr);
int weft_verbs_close_xrcd(struct ibv_xrcd *xrcd);
struct ibv_dm *weft_verbs_alloc_dm(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int weft_verbs_free_dm(struct ibv_dm *dm);
struct ibv_mr *weft_verbs_reg_dm_mr(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
				    size_t length, unsigned int access);
struct ibv_td *weft_verbs_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *init_attr);
int weft_verbs_dealloc_td(struct ibv_td *td);
struct ibv_pd *weft_verbs_alloc_parent_domain(struct ibv_context *context,
					      struct ibv_parent_domain_init_attr *attr);

#endif
