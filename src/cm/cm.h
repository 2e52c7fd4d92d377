/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * librdmacm.so.1: what its files share. A function defined under its public name replaces its
 * generated stub, which answers ENOSYS (abi/README.md).
 *
 * One mutex guards all identifiers, channels and connections of the process. Programs call in from
 * any thread; the helper thread of libibverbs runs what arrives and what times out (agent.c). No
 * verb is called with the mutex held.
 *
 * Public calls return 0 or a pointer, or -1 or NULL and errno; all else here 0 or -errno.
 */
#ifndef WEFT_CM_CM_H
#define WEFT_CM_CM_H

/* All is built hidden; what the reference implementation's header declares is what we export. */
#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

/* Of later headers than the one we may be built with. */
int rdma_resolve_addrinfo(struct rdma_cm_id *id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints);
int rdma_query_addrinfo(struct rdma_cm_id *id, struct rdma_addrinfo **info);
int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status,
			uint64_t arg);
#pragma GCC visibility pop

#define WEFT_EVENT_ADDRINFO_RESOLVED ((enum rdma_cm_event_type)16)
#define WEFT_EVENT_ADDRINFO_ERROR    ((enum rdma_cm_event_type)17)
#define WEFT_EVENT_USER		     ((enum rdma_cm_event_type)18)
#define WEFT_EVENT_INTERNAL	     ((enum rdma_cm_event_type)19)
#define WEFT_RAI_SA		     0x10

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pool/address.h"
#include "wire/cm/conn.h"
#include "verbs/service.h"

#define WEFT_CM_MAX_ATOMIC  16u /* READs and atomics outstanding, as the device reports */
#define WEFT_CM_MAX_BACKLOG 1024
#define WEFT_CM_ACK_TIMEOUT 17 /* code: 0.5 s, as Linux's RoCE path of 16 makes it */

enum weft_id_state {
	WEFT_ID_IDLE,
	WEFT_ID_BOUND,
	WEFT_ID_ADDR_RESOLVED,
	WEFT_ID_ROUTE_RESOLVED,
	WEFT_ID_LISTENING,
	WEFT_ID_CONNECTED, /* it has, or had, one end of a connection: see conn */
};

/* An event on its way to the program, and until it is acknowledged. */
struct weft_cm_event {
	struct rdma_cm_event event;
	struct weft_cm_id *
		counts; /* the identifier that waits for its acknowledgement: of a request the listener */
	struct weft_cm_event *next;
	uint8_t private_data[WEFT_MAD_PRIVATE_MAX];
};

/* fd is an eventfd that counts what is on the list; -1: destroyed. */
struct weft_cm_channel {
	struct rdma_event_channel channel;
	struct weft_cm_event *first, **last;
	struct weft_cm_channel *next_destroyed;
};

/* A multicast group that an identifier has joined. */
struct weft_cm_group {
	struct weft_cm_group *next;
	union ibv_gid gid;
	bool send_only;
};

struct weft_cm_id {
	struct rdma_cm_id id;
	enum weft_id_state state;
	bool sync; /* the channel is its own; calls wait for their events */
	bool reuse_addr, one_family, has_port, has_ack_timeout; /* has_…: the program's */
	uint32_t
		forks; /* weft_cm.forks when it was made: another number now, and it is the parent's */
	uint32_t port_index;
	uint8_t ack_timeout, tos;
	struct ibv_sa_path_rec path;
	struct ibv_ece local_ece, remote_ece;
	struct weft_cm_group *groups;
	struct rdma_addrinfo *info; /* of rdma_resolve_addrinfo, until the program takes it */

	/* listening */
	int backlog, pending; /* pending: requests that the program has not read */
	struct weft_cm_id *next_listener;

	/* connected */
	struct weft_conn conn;
	struct weft_address peer;
	bool registered;
	uint16_t knocks; /* requests that found the port held, but no listener */
	struct weft_cm_id *next_local, *next_remote; /* in the agent's tables */
	uint32_t timer;				     /* place in the heap, + 1; 0: none */

	uint32_t events_read, events_acked;
	pthread_cond_t acked;

	/* rdma_create_ep: what requests get, and what is put in front of private data */
	struct ibv_pd *ep_pd;
	struct ibv_qp_init_attr *ep_attr;
	void *ep_connect;
	size_t ep_connect_bytes;
};

/* The process's part in the fabric: set once, by weft_cm_start. */
struct weft_cm {
	pthread_mutex_t mutex;
	const struct weft_service *service;
	struct weft_pool *pool;
	struct ibv_context *verbs;
	struct ibv_pd *pd;     /* for identifiers whose program brings none */
	struct ibv_xrcd *xrcd; /* likewise; NULL: no identifier has wanted it yet */
	uint64_t ca_guid;
	uint32_t forks; /* that have made this process since the library was loaded */
};

extern struct weft_cm weft_cm;

static inline struct weft_cm_id *weft_cm_id(struct rdma_cm_id *id)
{
	return (struct weft_cm_id *)id;
}

static inline struct weft_cm_channel *weft_cm_channel(struct rdma_event_channel *channel)
{
	return (struct weft_cm_channel *)channel;
}

static inline void weft_cm_lock(void)
{
	pthread_mutex_lock(&weft_cm.mutex);
}

static inline void weft_cm_unlock(void)
{
	pthread_mutex_unlock(&weft_cm.mutex);
}

/* What a public call returns for 0 or -errno; with $WEFT_EXPLAIN it is said (explain.c), as are
 * events that tell of errors. */
#define weft_cm_result(err) weft_cm_explain_result(__func__, err)
int weft_cm_explain_result(const char *call, int err);
/* What is wrong, with the value that offends: said instead of the errno's meaning, if the call that
 * this thread is in fails with err. Returns err. */
#define weft_cm_broken(err, ...)                                                                   \
	(snprintf(weft_cm_explain_why(err), WEFT_CM_WHY_BYTES, __VA_ARGS__), (err))
#define WEFT_CM_WHY_BYTES 192
char *weft_cm_explain_why(int err);
static inline int weft_cm_no_id(void)
{
	return weft_cm_broken(-EINVAL, "no identifier is given");
}
/* The same of the state that an identifier is in: -EINVAL. */
int weft_cm_wrong_state(const struct weft_cm_id *id, const char *wanted);
#define WEFT_CM_ADDR_TEXT 46
const char *weft_cm_addr_str(const uint8_t addr[16], char text[WEFT_CM_ADDR_TEXT]);
void weft_cm_explain_event(const struct rdma_cm_event *event);
uint64_t weft_cm_now_ns(void);
#define WEFT_CM_PSN_MASK 0xffffffu
uint32_t weft_cm_random(void);

/* device.c: opens the device and joins the helper, once. 0, -ENODEV, or ibv_open_device's. */
int weft_cm_start(void);

/* id.c */
/* NULL when memory is out. */
struct weft_cm_id *weft_id_new(struct rdma_event_channel *channel, void *context,
			       enum rdma_port_space ps, enum ibv_qp_type type);
/* The mutex is held, and the program has not seen it: no event of it was read. */
void weft_id_free(struct weft_cm_id *id);
/* As rdma_create_id without a channel, for any type of queue pair. */
int weft_id_create(struct rdma_cm_id **id, enum rdma_port_space ps, enum ibv_qp_type type);
/* The identifier is bound to the device from now on. */
void weft_id_bind_device(struct weft_cm_id *id);
static inline bool weft_id_is_ud(const struct weft_cm_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* event.c */
/* The mutex is held. NULL when memory is out: the event is lost, as on a full queue. */
struct weft_cm_event *weft_event_new(struct weft_cm_id *id, enum rdma_cm_event_type type,
				     int status);
/* The mutex is held: appends it to the channel of the identifier that it counts for. */
void weft_event_post(struct weft_cm_event *e);
/* The mutex is held: new and post. */
void weft_event_raise(struct weft_cm_id *id, enum rdma_cm_event_type type, int status);
/* The mutex is held: takes the unread events that count for the identifier off its channel. */
struct weft_cm_event *weft_event_detach(struct weft_cm_id *id);
/* Of a call on an identifier that succeeded so far: synchronous ones wait for its event. */
int weft_event_complete(struct weft_cm_id *id);

/* addr.c: IP addresses as 16 bytes, IPv4 mapped */
/* 0, -EINVAL (NULL), -EAFNOSUPPORT. port in host order. */
int weft_addr_get(const struct sockaddr *from, uint8_t addr[16], uint16_t *port);
void weft_addr_put(struct sockaddr *to, const uint8_t addr[16], uint16_t port);
/* The RoCE v2 entry of our GID table that has this GID, or that of the loopback: -EADDRNOTAVAIL. */
int weft_addr_gid_index(const uint8_t gid[16]);
/* The GID by which an address is reached; out of our own table for the loopback's. */
void weft_addr_gid(const uint8_t addr[16], uint8_t gid[16]);
/* The mutex is held. Binds the source address and port of an idle identifier. */
int weft_addr_bind(struct weft_cm_id *id, const uint8_t addr[16], uint16_t port);

/* route.c: fills the path between the identifier's two GIDs */
void weft_route_fill(struct weft_cm_id *id);
/* How datagrams of the identifier reach a GID. */
void weft_route_ah(const struct weft_cm_id *id, const union ibv_gid *to, struct ibv_ah_attr *attr);

/* listen.c; the mutex is held */
struct weft_cm_id *weft_listener_find(enum rdma_port_space ps, const uint8_t addr[16],
				      uint16_t port);
void weft_listener_remove(struct weft_cm_id *id);
void weft_listener_forget(void); /* in a fork's child */

/* multicast.c */
/* The mutex is not held: id->qp listens to a group that was joined. 0 or -errno. */
int weft_multicast_attach(struct weft_cm_id *id, const union ibv_gid *gid);
void weft_multicast_free(struct weft_cm_id *id);

/* qp.c: transitions of id->qp, if there is one. The mutex is not held. 0 or -errno. */
int weft_qp_to_rtr(struct weft_cm_id *id, uint8_t responder_resources);
int weft_qp_to_rts(struct weft_cm_id *id, uint8_t initiator_depth);
int weft_qp_to_error(struct weft_cm_id *id);
/* A completion queue of the identifier's own, armed for rdma_get_send_comp and its sister; nothing if there
 * is one, or size is 0. 0 or -errno; what was made then stays until weft_qp_destroy_queues. */
int weft_qp_make_queue(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
		       struct ibv_comp_channel **channel);
/* Once neither the queue pair nor a shared receive queue of XRC is left that completes there. */
void weft_qp_destroy_queues(struct rdma_cm_id *id);
/* Where the bit of *comp_mask or *xrcd says that a program brings no domain of XRC: sets both, to
 * that of this library. The mutex is not held. 0 or -errno. */
int weft_qp_complete_xrcd(uint32_t *comp_mask, uint32_t bit, struct ibv_xrcd **xrcd);

#endif
