/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The objects behind libibverbs' pointers: the public struct first, then the nic's. A pointer that
 * a program hands to a slow verb is looked up (handle.c) before it is followed, so that a null,
 * foreign or destroyed one gets its errno.
 */
#ifndef WEFT_VERBS_OBJECTS_H
#define WEFT_VERBS_OBJECTS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "nic/nic.h"
#include "nic/srq.h"
#include "migrate/region.h"
#include "process/object.h"
#include "process/process.h"
#include "verbs/verbs.h"

enum weft_handle_kind {
	WEFT_HANDLE_PD,
	WEFT_HANDLE_MR,
	WEFT_HANDLE_CQ,
	WEFT_HANDLE_CHANNEL,
	WEFT_HANDLE_QP,
	WEFT_HANDLE_MW,
	WEFT_HANDLE_AH,
	WEFT_HANDLE_TD,
	WEFT_HANDLE_DM,
	WEFT_HANDLE_BUF,
	WEFT_HANDLE_SRQ,
	WEFT_HANDLE_XRCD,
};

/* 0 or -ENOMEM. */
int weft_handle_add(const void *object, enum weft_handle_kind kind);
bool weft_handle_is(const void *object, enum weft_handle_kind kind);
void weft_handle_remove(const void *object);
/* In a fork's child: they are its parent's. Async-signal-safe. */
void weft_handle_forget(void);
/* Whether it is one of those. The child may end it, as finalizers do, which does nothing: in this process there
 * is nothing of it but its memory, and that stays. */
bool weft_handle_inherited(const void *object);
/* Any one of a kind that fits, or NULL; called back under a lock: it asks nothing of handles. */
void *weft_handle_find(enum weft_handle_kind kind,
		       bool (*fits)(const void *object, const void *arg), const void *arg);
/* Those of a kind that belong to a context (NULL: to any), in an array to be freed; none when memory is
 * out. */
size_t weft_handle_list(const struct ibv_context *context, enum weft_handle_kind kind,
			void ***list);

struct weft_verbs_pd {
	struct ibv_pd pd;
	uint32_t number; /* in all of the pool */
	/* regions, queue pairs, windows, and those below it; of an import, where others see it */
	_Atomic uint32_t *users, own_users;
	struct weft_object object; /* of its own, or as an import; a parent domain has none */
	bool imported;
	struct weft_pool_object domain; /* the entry of what is imported */
	/* of a parent domain: what stands behind it */
	struct weft_verbs_pd *behind;
	struct weft_verbs_td *td;
};

struct weft_verbs_mr {
	struct ibv_mr mr;
	struct weft_mr nic;
	struct weft_region region;  /* unless it is memory of a device: */
	struct weft_device *device; /* or NULL */
	uint64_t iova;
	unsigned int access;
	bool special;  /* not of the program's own memory: it cannot be registered anew */
	bool loose;    /* its domain may go first */
	bool imported; /* only the handle is ours */
	/* called when it has ended, with whether nobody can reach it any more */
	void (*leave)(struct weft_verbs_mr *mr, bool quiet);
	void *of;
};

/* A region of something else than the program's own memory (mr.c). */
struct weft_mr_source {
	const char *verb;
	void *told; /* the address in struct ibv_mr */
	uint64_t iova, va;
	size_t len_bytes;
	unsigned int access;
	const struct weft_mr_piece *pieces;
	unsigned int npieces;
	bool loose; /* its domain may go first: nothing of it is read then */
	void (*leave)(struct weft_verbs_mr *mr, bool quiet); /* or NULL */
	void *of;
};

/* Rights as ibv_reg_mr has them? If not, the verb was told so. */
bool weft_verbs_good_access(const char *verb, unsigned int access);
/* Bits that are defined, as a queue pair takes them, whether they go together or can be had at all, or not?
 * Likewise. Cards look at no others than the rights of peers there; Soft-RoCE refuses undefined ones. */
bool weft_verbs_known_access(const char *verb, unsigned int access);
/* NULL and errno. pd is one of ours. */
struct ibv_mr *weft_verbs_special_mr(struct ibv_pd *pd, const struct weft_mr_source *source);
/* odp.c: over all of memory, present and future. */
struct ibv_mr *weft_verbs_implicit_mr(struct ibv_pd *pd, unsigned int access);
/* pd.c: a domain with the rights of another. NULL and errno. */
struct ibv_pd *weft_verbs_pd_behind(struct ibv_context *context, struct weft_verbs_pd *behind);
/* A handle of the domain of that number and entry. NULL and errno. */
struct ibv_pd *weft_verbs_pd_import(struct ibv_context *context,
				    const struct weft_pool_object *domain, uint32_t number);
/* One object more is in that domain, from before it is made; or one less. 0; EINVAL, told: it has ended. */
int weft_verbs_pd_use(const char *verb, struct ibv_pd *pd);
void weft_verbs_pd_leave(struct ibv_pd *pd);
/* Whether it is an import, and what that stands for has ended. */
bool weft_verbs_pd_ended(const struct weft_verbs_pd *pd);
/* Its context ends: as ibv_dealloc_pd, even if other processes use it. */
void weft_verbs_end_pd(struct ibv_pd *pd);

struct weft_verbs_td {
	struct ibv_td td;
	_Atomic uint32_t users; /* parent domains */
};

struct weft_verbs_dm {
	struct ibv_dm dm;
	struct weft_object object;	  /* for others */
	struct weft_pool_object original; /* that of another process, imported: its id; else 0 */
	uint64_t off, len_bytes;
	uint8_t *at;
	_Atomic uint32_t users;	      /* regions, and imports */
	atomic_bool reached;	      /* by somebody that stood still when its region ended */
	struct weft_verbs_dm *behind; /* of an imported one */
};

struct weft_verbs_mw {
	struct ibv_mw mw;
	struct weft_mw nic;
};

/* mw.c: a request that binds a window. An errno. */
int weft_verbs_bind(const char *verb, struct ibv_mw *mw, uint32_t rkey,
		    const struct ibv_mw_bind_info *info, struct weft_wqe *wqe);
/* post.c: says why that request cannot be posted. An errno. */
int weft_verbs_refuse_send(const char *verb, const struct weft_qp *qp, uint32_t opcode,
			   uint32_t num_sge);

/* Events that wait to be read: a pipe that says that there are some, and a list of whose they are. */
struct weft_channel {
	struct ibv_comp_channel channel; /* its descriptor is the pipe's end */
	struct weft_pool_bell *bell;	 /* whose inode is 0 where it is an eventfd instead */
	uint64_t bell_off, made;	 /* made: the pool's age */
	_Atomic uint32_t
		late; /* words that a producer may still write for which we did not wait; as below */
	pthread_mutex_t mutex; /* guards all below, the counts in its queues, and refcnt */
	int both;	       /* of the pipe, for reading and writing, without waiting */
	struct weft_verbs_cq *queues, *first, **last;
	uint32_t looked; /* the helper's look at which `heard` was so: it could be read */
	bool heard;
};

struct weft_verbs_cq {
	union {
		struct ibv_cq cq;
		struct ibv_cq_ex ex;
	};
	struct weft_cq nic;
	_Atomic uint32_t users; /* queue pairs */
	/* guarded by the channel's mutex */
	uint32_t events_waiting, events_read;
	bool unheard;
	struct weft_verbs_cq *next, *next_on_channel;
	uint32_t async_read; /* guarded by the context's list of events; final once forgotten */

	/* of extended queues (cq_ex.c): the completion that is being read, by the thread that has the lock */
	bool single_threaded, polling_own;
	struct weft_lock polling;
	struct ibv_wc wc;
};

struct weft_verbs_xrcd {
	struct ibv_xrcd xrcd;
	uint32_t number;
	_Atomic uint32_t users; /* queue pairs and receive queues */
	struct weft_verbs_xrcd *next;
};

static inline struct weft_verbs_xrcd *weft_xrcd(struct ibv_xrcd *xrcd)
{
	return (struct weft_verbs_xrcd *)xrcd;
}

struct weft_verbs_srq {
	struct ibv_srq srq;
	/* of XRC; else NULL */
	struct weft_verbs_xrcd *xrcd;
	struct weft_verbs_cq *cq;
	uint32_t number;
	struct weft_srq nic;
	_Atomic uint32_t users; /* queue pairs */
	uint32_t async_read;	/* guarded by the context's list of events; final once forgotten */
};

struct weft_verbs_ah {
	struct ibv_ah ah;
	struct weft_ah nic;
};

struct weft_verbs_qp {
	union {
		struct ibv_qp qp;
		struct ibv_qp_ex ex;
		uint8_t room
			[384]; /* later headers have a longer one: what we do not know reads as NULL */
	};
	struct weft_qp nic;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr init;
	_Atomic uint32_t groups;      /* that it listens to */
	struct weft_verbs_xrcd *xrcd; /* XRC_RECV; and in place of its completion queue: */
	struct weft_cq no_cq;
	/* handles of one queue pair of XRC_RECV (receiver.c, whose mutex guards them): its maker, which all
	 * point to and which stays as long as they do, and in its lists those that are open */
	struct weft_verbs_qp *real, *handles, *next_handle, *next_receiver;
	struct weft_receiver_opener *openers; /* other processes */
	struct {
		bool is; /* another process has made it: nothing stands in `nic` */
		uint16_t member;
		uint32_t events_seen;
	} opened;
	uint32_t async_read; /* guarded by the context's list of events; final once forgotten */

	/* of extended ones (qp_ex.c): requests that are built but not posted; guarded by nic.lock */
	bool extended, built_own;
	int built_error;
	uint32_t built;
	struct weft_wqe *wqe; /* the last one */
};

static inline struct weft_verbs_pd *weft_pd(struct ibv_pd *pd)
{
	return (struct weft_verbs_pd *)pd;
}

static inline struct weft_verbs_mr *weft_mr(struct ibv_mr *mr)
{
	return (struct weft_verbs_mr *)mr;
}

static inline struct weft_verbs_mw *weft_mw(struct ibv_mw *mw)
{
	return (struct weft_verbs_mw *)mw;
}

static inline struct weft_channel *weft_channel(struct ibv_comp_channel *channel)
{
	return (struct weft_channel *)channel;
}

static inline struct weft_verbs_cq *weft_cq(struct ibv_cq *cq)
{
	return (struct weft_verbs_cq *)cq;
}

static inline struct weft_verbs_srq *weft_srq(struct ibv_srq *srq)
{
	return (struct weft_verbs_srq *)srq;
}

static inline struct weft_verbs_ah *weft_ah(struct ibv_ah *ah)
{
	return (struct weft_verbs_ah *)ah;
}

static inline struct weft_verbs_qp *weft_qp(struct ibv_qp *qp)
{
	return (struct weft_verbs_qp *)qp;
}

/* The one behind a handle. */
static inline struct weft_verbs_qp *weft_qp_real(struct ibv_qp *qp)
{
	return weft_qp(qp)->real ? weft_qp(qp)->real : weft_qp(qp);
}

/* Where an object counts its asynchronous events: those that the program has read, and has
 * acknowledged. `read` is guarded by the context's list of events, `completed` by the mutex. */
struct weft_acks {
	pthread_mutex_t *mutex; /* NULL: of a port or the device, which need none to go */
	pthread_cond_t *cond;
	uint32_t *completed, *read;
};

static inline struct weft_acks weft_cq_acks(struct ibv_cq *cq)
{
	return (struct weft_acks){&cq->mutex, &cq->cond, &cq->async_events_completed,
				  &weft_cq(cq)->async_read};
}

static inline struct weft_acks weft_srq_acks(struct ibv_srq *srq)
{
	return (struct weft_acks){&srq->mutex, &srq->cond, &srq->events_completed,
				  &weft_srq(srq)->async_read};
}

static inline struct weft_acks weft_qp_acks(struct ibv_qp *qp)
{
	return (struct weft_acks){&qp->mutex, &qp->cond, &qp->events_completed,
				  &weft_qp(qp)->async_read};
}

/* qp.c: an errno. Its mutex is held. */
int weft_verbs_modify(struct weft_verbs_qp *qp, const struct ibv_qp_attr *attr, int mask,
		      struct weft_caller *caller);

/* Programs read the state from the handle, and UCX counts on it: it changes only where the mask of a verb that
 * succeeds has IBV_QP_STATE, to what stands in attr, not when the queue pair fails by itself. */
static inline void weft_verbs_tell_state(struct ibv_qp *handle, const struct ibv_qp_attr *attr,
					 int mask)
{
	if (mask & IBV_QP_STATE)
		handle->state = attr->qp_state;
}

/* mcast.c: it listens to no group any more. */
void weft_mcast_leave(struct weft_verbs_qp *qp);

/* qp.c: of one whose handle is gone. */
void weft_verbs_end_queues(struct weft_verbs_qp *qp);

/* mr.c: see struct weft_process_api. */
void weft_verbs_rehome(void);

/* event.c. The context's list of asynchronous events is made and ended with it. */
void weft_async_init(struct weft_async *async, int fd);
void weft_async_end(struct weft_async *async);
void weft_async_raise(struct ibv_context *context, const struct ibv_async_event *event);
/* The object is being destroyed: forgets its unread events, and waits until those that were read
 * are acknowledged. */
void weft_async_finish(struct ibv_context *context, const void *object, struct weft_acks acks);

/* Takes one back from an eventfd that counts events. Never blocks: a reader that has already taken
 * its count finds its list short and reads again; what stays too much does the same to the next. */
void weft_uncount(int fd);

/* channel.c: an event of a queue; late: nobody has told the channel in time; the producer may yet, if it lives. The
 * queue's lock may be held, and the nic's. */
void weft_channel_notify(struct weft_verbs_cq *cq);
void weft_channel_overdue(struct weft_verbs_cq *cq, bool lives);
/* Called each half second. The producer that says in the bell that the channel is told may die, or stand still, before it
 * writes; what is listed afterwards is told to nobody. The second look in a row that finds it so tells. */
bool weft_channel_unheard(struct weft_verbs_cq *cq);
/* A queue on a channel, or on none: is made; is about to be destroyed; has been. The last drops its unread events
 * and waits until all that were read are acknowledged. */
void weft_channel_join(struct weft_verbs_cq *cq);
void weft_channel_part(struct weft_verbs_cq *cq);
void weft_channel_leave(struct weft_verbs_cq *cq);

#endif
