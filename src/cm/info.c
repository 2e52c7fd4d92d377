/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rdma_getaddrinfo: names of hosts and services to addresses of identifiers. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

static void set_kind(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
	rai->ai_port_space = hints ? hints->ai_port_space : 0;
	rai->ai_qp_type = hints ? hints->ai_qp_type : 0;
	if (!rai->ai_port_space)
		rai->ai_port_space = rai->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
	if (!rai->ai_qp_type)
		rai->ai_qp_type =
			rai->ai_port_space == RDMA_PS_UDP || rai->ai_port_space == RDMA_PS_IPOIB
				? IBV_QPT_UD
				: IBV_QPT_RC;
}

static int copy_addr(struct sockaddr **to, socklen_t *to_len, const struct sockaddr *from,
		     socklen_t len)
{
	*to = malloc(len);
	if (!*to)
		return -ENOMEM;
	memcpy(*to, from, len);
	*to_len = len;
	return 0;
}

static int copy_name(char **to, const char *from)
{
	*to = from ? strdup(from) : NULL;
	return from && !*to ? -ENOMEM : 0;
}

static int fill_addrinfo(struct rdma_addrinfo *rai, const struct addrinfo *ai,
			 const struct rdma_addrinfo *hints)
{
	int err;

	rai->ai_flags = hints ? hints->ai_flags : 0;
	rai->ai_family = ai->ai_family;
	set_kind(rai, hints);
	if (rai->ai_flags & RAI_PASSIVE) {
		err = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, ai->ai_addr, ai->ai_addrlen);
		return err ? err : copy_name(&rai->ai_src_canonname, ai->ai_canonname);
	}
	err = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, ai->ai_addr, ai->ai_addrlen);
	if (!err)
		err = copy_name(&rai->ai_dst_canonname, ai->ai_canonname);
	if (!err && hints && hints->ai_src_len)
		err = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
				hints->ai_src_len);
	return err;
}

static struct addrinfo plain_hints(const struct rdma_addrinfo *hints)
{
	struct addrinfo plain = {.ai_socktype = SOCK_STREAM};

	if (!hints)
		return plain;
	if (hints->ai_flags & RAI_PASSIVE)
		plain.ai_flags |= AI_PASSIVE;
	if (hints->ai_flags & RAI_NUMERICHOST)
		plain.ai_flags |= AI_NUMERICHOST;
	if (hints->ai_flags & RAI_FAMILY || hints->ai_family)
		plain.ai_family = hints->ai_family;
	if (hints->ai_port_space == RDMA_PS_UDP || hints->ai_qp_type == IBV_QPT_UD)
		plain.ai_socktype = SOCK_DGRAM;
	return plain;
}

/* No name to look up: what addresses the hints have. */
static int from_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo *rai)
{
	int err = 0;

	rai->ai_flags = hints->ai_flags;
	rai->ai_family = hints->ai_family;
	set_kind(rai, hints);
	if (hints->ai_src_addr && hints->ai_src_len)
		err = copy_addr(&rai->ai_src_addr, &rai->ai_src_len, hints->ai_src_addr,
				hints->ai_src_len);
	if (!err && hints->ai_dst_addr && hints->ai_dst_len)
		err = copy_addr(&rai->ai_dst_addr, &rai->ai_dst_len, hints->ai_dst_addr,
				hints->ai_dst_len);
	return err;
}

/* 0, -errno, or getaddrinfo(3)'s, which are positive or small. */
static int look_up_name(const char *node, const char *service, const struct rdma_addrinfo *hints,
			struct rdma_addrinfo *rai)
{
	struct addrinfo plain = plain_hints(hints), *list;
	int err = getaddrinfo(node, service, &plain, &list);

	if (err == EAI_SYSTEM)
		return -errno;
	if (err)
		return err == EAI_MEMORY ? -ENOMEM : -ENODATA;
	err = fill_addrinfo(rai, list, hints);
	freeaddrinfo(list);
	return err;
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
		     struct rdma_addrinfo **res)
{
	struct rdma_addrinfo *rai;
	int err;

	if (!res || (!node && !service && !hints))
		return weft_cm_result(-EINVAL);
	rai = calloc(1, sizeof(*rai));
	if (!rai)
		return -1;
	err = node || service ? look_up_name(node, service, hints, rai) : from_hints(hints, rai);
	if (err) {
		rdma_freeaddrinfo(rai);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): that freed it */
		return weft_cm_result(err);
	}
	*res = rai;
	return 0;
}

/* Names are looked up before it returns; that it is done is told by the event. */
int rdma_resolve_addrinfo(struct rdma_cm_id *rdma_id, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	struct rdma_addrinfo *info = NULL, *before;
	int err;

	if (!rdma_id)
		return weft_cm_result(-EINVAL);
	if (hints && hints->ai_flags & WEFT_RAI_SA)
		return weft_cm_result(-EOPNOTSUPP); /* Ethernet has no subnet administration */
	err = rdma_getaddrinfo(node, service, hints, &info) ? -errno : 0;
	weft_cm_lock();
	before = id->info;
	id->info = info;
	weft_event_raise(id, err ? WEFT_EVENT_ADDRINFO_ERROR : WEFT_EVENT_ADDRINFO_RESOLVED, err);
	weft_cm_unlock();
	rdma_freeaddrinfo(before);
	return weft_cm_result(weft_event_complete(id));
}

int rdma_query_addrinfo(struct rdma_cm_id *rdma_id, struct rdma_addrinfo **info)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);

	if (!rdma_id || !info)
		return weft_cm_result(-EINVAL);
	weft_cm_lock();
	*info = id->info;
	id->info = NULL;
	weft_cm_unlock();
	return weft_cm_result(*info ? 0 : -ENODATA);
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	struct rdma_addrinfo *next;

	for (; res; res = next) {
		next = res->ai_next;
		free(res->ai_connect);
		free(res->ai_route);
		free(res->ai_src_canonname);
		free(res->ai_dst_canonname);
		free(res->ai_src_addr);
		free(res->ai_dst_addr);
		free(res);
	}
}
