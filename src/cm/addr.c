/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Addresses of the two ends: binding a source, resolving a destination. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cm/cm.h"
#include "pool/format_mailbox.h"
#include "pool/format_member.h"
#include "pool/sizes.h"

#define PRIVILEGED "/proc/sys/net/ipv4/ip_unprivileged_port_start"

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

int weft_addr_get(const struct sockaddr *from, uint8_t addr[16], uint16_t *port)
{
	const struct sockaddr_in6 *in6 = (const void *)from;
	const struct sockaddr_in *in = (const void *)from;

	if (!from)
		return weft_cm_broken(-EINVAL, "no address is given");
	/* NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): callers name one */
	if (from->sa_family == AF_INET) {
		memcpy(addr, mapped, sizeof(mapped));
		memcpy(addr + 12, &in->sin_addr, 4);
		*port = be16toh(in->sin_port);
		return 0;
	}
	if (from->sa_family != AF_INET6)
		return weft_cm_broken(-EAFNOSUPPORT, "address family %u is neither IPv4 nor IPv6",
				      from->sa_family);
	memcpy(addr, &in6->sin6_addr, 16);
	*port = be16toh(in6->sin6_port);
	return 0;
}

void weft_addr_put(struct sockaddr *to, const uint8_t addr[16], uint16_t port)
{
	struct sockaddr_in6 *in6 = (void *)to;
	struct sockaddr_in *in = (void *)to;

	if (weft_address_is_ipv4(addr)) {
		*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htobe16(port)};
		memcpy(&in->sin_addr, addr + 12, 4);
	} else {
		*in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htobe16(port)};
		memcpy(&in6->sin6_addr, addr, 16);
	}
}

/* ---- GIDs: as this process has published them in the pool ---- */

/* RoCE v1 and v2 of each stand side by side (process/gid.h). */
int weft_addr_gid_index(const uint8_t gid[16])
{
	const struct weft_pool_member *self = weft_cm.pool->self;
	int found = -EADDRNOTAVAIL;

	for (uint32_t i = 0; i < WEFT_MEMBER_GIDS; i++)
		if (weft_gid_is(&self->gid[i], gid))
			found = (int)i;
	return found;
}

void weft_addr_gid(const uint8_t addr[16], uint8_t gid[16])
{
	const struct weft_pool_member *self = weft_cm.pool->self;
	uint8_t own[16];
	bool any = false;

	memcpy(gid, addr, 16);
	if (!weft_address_is_loopback(addr) || weft_addr_gid_index(addr) >= 0)
		return;
	/* the loopback has no GID of its own beside other interfaces: the first of IPv4 stands for it,
	 * or else the first */
	for (uint32_t i = 0; i < WEFT_MEMBER_GIDS && !(any && weft_address_is_ipv4(gid)); i++) {
		if (!weft_gid_read(&self->gid[i], own) || (any && !weft_address_is_ipv4(own)))
			continue;
		memcpy(gid, own, 16);
		any = true;
	}
}

/* ---- Binding ---- */

static bool may_bind_port(uint16_t port)
{
	unsigned int first = 1024;
	FILE *f;

	if (!port || geteuid() == 0)
		return true;
	f = fopen(PRIVILEGED, "re");
	if (f) {
		if (fscanf(f, "%u", &first) != 1)
			first = 1024;
		fclose(f);
	}
	return port >= first;
}

int weft_addr_bind(struct weft_cm_id *id, const uint8_t addr[16], uint16_t port)
{
	bool any = weft_address_is_any(addr);
	struct weft_pool_port want = {
		.port = port,
		.space = (uint16_t)id->id.ps,
		.flags =
			(id->reuse_addr ? WEFT_PORT_SHARED : 0u) |
			(id->one_family || weft_address_is_ipv4(addr) ? WEFT_PORT_ONE_FAMILY : 0u)};
	char text[WEFT_CM_ADDR_TEXT];
	int err;

	if (!any && !weft_address_is_loopback(addr) && weft_addr_gid_index(addr) < 0)
		return weft_cm_broken(-EADDRNOTAVAIL, "%s is no address of this device",
				      weft_cm_addr_str(addr, text));
	if (!may_bind_port(port))
		return weft_cm_broken(
			-EACCES, "port %u is for programs with the right to bind low ports", port);
	memcpy(want.addr, addr, 16);
	err = weft_cm.service->port_bind(weft_cm.pool, &want, &id->port_index);
	if (err == -EADDRINUSE)
		return weft_cm_broken(err, "port %u of %s is another identifier's", port,
				      weft_cm_addr_str(addr, text));
	if (err)
		return err;
	id->has_port = true;
	weft_addr_put(&id->id.route.addr.src_addr, addr, want.port);
	/* the loopback's is no address of a device, as Linux has it, unless there is no other: libfabric takes the device of
	 * such an identifier for one that is reached by it, and tells its peers on other hosts 127.0.0.1 */
	if (!any && weft_addr_gid_index(addr) >= 0) {
		weft_addr_gid(addr, id->path.sgid.raw);
		weft_id_bind_device(id);
	}
	id->state = WEFT_ID_BOUND;
	return 0;
}

int rdma_bind_addr(struct rdma_cm_id *rdma_id, struct sockaddr *sockaddr)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	uint8_t addr[16];
	uint16_t port;
	int err;

	if (!rdma_id)
		return weft_cm_result(weft_cm_no_id());
	err = weft_addr_get(sockaddr, addr, &port);
	if (err)
		return weft_cm_result(err);
	weft_cm_lock();
	weft_cm.service->follow();
	err = id->state == WEFT_ID_IDLE ? weft_addr_bind(id, addr, port)
					: weft_cm_wrong_state(id, "new");
	weft_cm_unlock();
	return weft_cm_result(err);
}

/* ---- Resolving ---- */

/* The address from which a card, or else the kernel, would send there. -ENETUNREACH and such. */
static int choose_source(const struct sockaddr *dst, const uint8_t dst_addr[16], uint8_t addr[16])
{
	socklen_t len = dst->sa_family == AF_INET ? sizeof(struct sockaddr_in)
						  : sizeof(struct sockaddr_in6);
	struct sockaddr_storage name, to = {0};
	char text[WEFT_CM_ADDR_TEXT];
	uint16_t port;
	int fd, err = 0;

	if (weft_address_is_loopback(dst_addr) || weft_addr_gid_index(dst_addr) >= 0) {
		memcpy(addr, dst_addr, 16);
		return 0;
	}
	if (weft_cm.service->source(dst_addr, addr))
		return 0;
	fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	memcpy(&to, dst, len);
	if (dst->sa_family == AF_INET && !((struct sockaddr_in *)&to)->sin_port)
		((struct sockaddr_in *)&to)->sin_port = htobe16(9);
	len = sizeof(name);
	if (connect(fd, (struct sockaddr *)&to, sizeof(to)) ||
	    getsockname(fd, (struct sockaddr *)&name, &len))
		err = -errno;
	close(fd);
	if (err)
		return weft_cm_broken(err, "this host has no way to %s (%s)",
				      weft_cm_addr_str(dst_addr, text), strerror(-err));
	return weft_addr_get((struct sockaddr *)&name, addr, &port);
}

/* A destination of all zeros means this host. */
static void replace_any(uint8_t addr[16])
{
	if (!weft_address_is_any(addr))
		return;
	addr[15] = 1;
	if (weft_address_is_ipv4(addr))
		addr[12] = 127;
}

static int bind_source(struct weft_cm_id *id, const struct sockaddr *src, sa_family_t family)
{
	uint8_t addr[16] = {0};
	uint16_t port = 0;
	int err;

	if (id->state == WEFT_ID_BOUND)
		src = &id->id.route.addr.src_addr;
	err = src ? weft_addr_get(src, addr, &port) : 0;
	if (err)
		return err;
	if (src && src->sa_family != family)
		return weft_cm_broken(-EINVAL,
				      "from address family %u there is no way to family %u",
				      src->sa_family, family);
	if (id->state == WEFT_ID_BOUND)
		return 0;
	if (!src && family == AF_INET)
		memcpy(addr, mapped, sizeof(mapped));
	return weft_addr_bind(id, addr, port);
}

/* In the pool, or by a card. */
static bool is_reachable(const struct weft_cm_id *id, const uint8_t to[16])
{
	struct weft_address card;

	return weft_cm.service->reachable(weft_cm.pool, to) ||
	       weft_cm.service->beyond(id->path.sgid.raw, id->path.dgid.raw, &card);
}

/* 0; *event is 0 or the error of an answer that could not be had. */
static int resolve_address(struct weft_cm_id *id, const struct sockaddr *src,
			   const struct sockaddr *dst, int *event)
{
	uint8_t to[16], from[16] = {0};
	char text[WEFT_CM_ADDR_TEXT];
	uint16_t port, own = 0;
	int err = weft_addr_get(dst, to, &port);

	if (err)
		return err;
	if (id->state != WEFT_ID_IDLE && id->state != WEFT_ID_BOUND)
		return weft_cm_wrong_state(id, "new or bound");
	err = bind_source(id, src, dst->sa_family);
	if (err)
		return err;
	replace_any(to);
	weft_addr_get(&id->id.route.addr.src_addr, from, &own);
	if (weft_address_is_any(from))
		err = choose_source(dst, to, from);
	if (err)
		return err;
	weft_addr_put(&id->id.route.addr.src_addr, from, own);
	weft_addr_put(&id->id.route.addr.dst_addr, to, port);
	weft_addr_gid(from, id->path.sgid.raw);
	weft_addr_gid(to, id->path.dgid.raw);
	if (weft_addr_gid_index(id->path.sgid.raw) < 0)
		return weft_cm_broken(-ENODEV,
				      "%s, from where it would be sent, is no address of this "
				      "device",
				      weft_cm_addr_str(from, text));
	*event = weft_address_is_group(to) || is_reachable(id, to) ? 0 : -EHOSTUNREACH;
	if (*event)
		return 0;
	weft_id_bind_device(id);
	id->id.route.addr.addr.ibaddr.sgid = id->path.sgid;
	id->id.route.addr.addr.ibaddr.dgid = id->path.dgid;
	id->id.route.addr.addr.ibaddr.pkey = htobe16(0xffff);
	id->state = WEFT_ID_ADDR_RESOLVED;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *rdma_id, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	struct weft_cm_id *id = weft_cm_id(rdma_id);
	int err, event = 0;

	if (!rdma_id)
		return weft_cm_result(weft_cm_no_id());
	weft_cm_lock();
	weft_cm.service->follow();
	err = resolve_address(id, src, dst, &event);
	if (!err)
		weft_event_raise(id, event ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED,
				 event);
	weft_cm_unlock();
	return weft_cm_result(err ? err : weft_event_complete(id));
}
