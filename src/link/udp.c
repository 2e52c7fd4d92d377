/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "link/udp.h"

#include <errno.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/name.h"

/* Messages a system call, each way. One that comes may be many datagrams that the kernel has
 * joined. */
#define BATCH	     16u
#define JOINED_BYTES 65536u
#define CONTROL	     160u

union control {
	uint8_t bytes[CONTROL];
	struct cmsghdr align;
};

struct weft_udp {
	int fd; /* -1: could not be opened anew */
	struct weft_udp_config config;
	bool six;
	uint16_t port;
	uint32_t came, at;	      /* messages that have come; the one that is looked at */
	struct weft_udp_datagram now; /* of that, and what is left of it */
	size_t rest, segment_bytes;
	struct mmsghdr heads[BATCH];
	struct iovec pieces[BATCH];
	union weft_link_name names[BATCH];
	union control controls[BATCH];
	uint8_t bytes[BATCH][JOINED_BYTES];
};

static void map_address(uint8_t address[16], const void *four)
{
	memset(address, 0, 16);
	address[10] = address[11] = 0xff;
	memcpy(address + 12, four, 4);
}

/* ---- Opening ---- */

struct option {
	int level, name, value;
};

static int set_all(int fd, const struct option *options, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			       sizeof(int)))
			return -errno;
	return 0;
}

/* Sets the socket's options; a UDP checksum of 0 is accepted, over IPv6 too. */
static int set_up(int fd, const struct weft_udp_config *config, bool six)
{
	static const struct option of_four[] = {
		{IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE},
		{IPPROTO_IP, IP_PKTINFO, 1},
		{IPPROTO_IP, IP_RECVTOS, 1},
		{IPPROTO_IP, IP_RECVTTL, 1},
		{IPPROTO_UDP, UDP_GRO, 1},
		{IPPROTO_IP, IP_MULTICAST_ALL, 0},
	};
	static const struct option of_six[] = {
		{IPPROTO_IPV6, IPV6_V6ONLY, 1},
		{IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE},
		{IPPROTO_IPV6, IPV6_RECVPKTINFO, 1},
		{IPPROTO_IPV6, IPV6_RECVTCLASS, 1},
		{IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1},
		{IPPROTO_UDP, UDP_GRO, 1},
		{IPPROTO_UDP, UDP_NO_CHECK6_RX, 1},
	};
	const int bytes = (int)config->buffer_bytes;
	const struct option buffers[] = {{SOL_SOCKET, SO_RCVBUF, bytes},
					 {SOL_SOCKET, SO_SNDBUF, bytes}};
	const struct option unheard = {six ? IPPROTO_IPV6 : IPPROTO_IP,
				       six ? IPV6_MULTICAST_LOOP : IP_MULTICAST_LOOP, 0};
	int answer = six ? set_all(fd, of_six, sizeof(of_six) / sizeof(*of_six))
			 : set_all(fd, of_four, sizeof(of_four) / sizeof(*of_four));

	if (!answer && config->unheard)
		answer = set_all(fd, &unheard, 1);
	return answer || !bytes ? answer : set_all(fd, buffers, 2);
}

/* Several programs may hear one group. */
static int hear_group(int fd, const struct weft_udp_config *config,
		      const union weft_link_name *name)
{
	struct group_req request = {.gr_interface = config->interface};
	const struct option shared = {SOL_SOCKET, SO_REUSEADDR, 1};

	memcpy(&request.gr_group, name, sizeof(*name));
	if (setsockopt(fd, name->any.sa_family == AF_INET ? IPPROTO_IP : IPPROTO_IPV6,
		       MCAST_JOIN_GROUP, &request, sizeof(request)))
		return -errno;
	return set_all(fd, &shared, 1);
}

static int bind_it(struct weft_udp *udp, const struct weft_udp_config *config)
{
	union weft_link_name name;
	socklen_t bytes = weft_link_name(config->address, config->port, config->interface, &name);
	int answer = set_up(udp->fd, config, udp->six);

	if (!answer && weft_address_is_group(config->address))
		answer = hear_group(udp->fd, config, &name);
	if (answer)
		return answer;
	if (bind(udp->fd, &name.any, bytes) || getsockname(udp->fd, &name.any, &bytes))
		return -errno;
	udp->port = ntohs(udp->six ? name.six.sin6_port : name.four.sin_port);
	return 0;
}

static int open_it(struct weft_udp *udp)
{
	int answer;

	udp->came = udp->at = 0;
	udp->rest = 0;
	udp->fd =
		socket(udp->six ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (udp->fd < 0)
		return -errno;
	answer = bind_it(udp, &udp->config);
	if (answer) {
		close(udp->fd);
		udp->fd = -1;
	}
	return answer;
}

int weft_udp_open(const struct weft_udp_config *config, struct weft_udp **udp)
{
	struct weft_udp *u = malloc(sizeof(*u));
	int answer;

	if (!u)
		return -ENOMEM;
	u->config = *config;
	u->six = !weft_address_is_ipv4(config->address);
	answer = open_it(u);
	if (answer)
		free(u);
	else
		*udp = u;
	return answer;
}

int weft_udp_move(struct weft_udp *udp, uint32_t interface)
{
	if (udp->fd >= 0)
		close(udp->fd);
	udp->config.interface = interface;
	return open_it(udp);
}

void weft_udp_close(struct weft_udp *udp)
{
	if (udp->fd >= 0)
		close(udp->fd);
	free(udp);
}

int weft_udp_fd(const struct weft_udp *udp)
{
	return udp->fd;
}

uint16_t weft_udp_port(const struct weft_udp *udp)
{
	return udp->port;
}

/* ---- Sending ---- */

static void add_control(struct msghdr *head, int level, int type, const void *value, size_t bytes)
{
	struct cmsghdr *c = (struct cmsghdr *)((uint8_t *)head->msg_control + head->msg_controllen);

	c->cmsg_level = level;
	c->cmsg_type = type;
	c->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(c), value, bytes);
	head->msg_controllen += CMSG_SPACE(bytes);
}

static void add_int(struct msghdr *head, int level, int type, int value)
{
	add_control(head, level, type, &value, sizeof(value));
}

static void describe_message(const struct weft_udp *udp, const struct weft_udp_message *m,
			     struct msghdr *head)
{
	const struct in_pktinfo through = {.ipi_ifindex = (int)m->interface};
	const uint16_t segment = (uint16_t)m->segment_bytes;

	if (udp->six) {
		add_int(head, IPPROTO_IPV6, IPV6_TCLASS, m->traffic_class);
		if (m->hop_limit)
			add_int(head, IPPROTO_IPV6, IPV6_HOPLIMIT, m->hop_limit);
	} else {
		add_int(head, IPPROTO_IP, IP_TOS, m->traffic_class);
		if (m->hop_limit)
			add_int(head, IPPROTO_IP, IP_TTL, m->hop_limit);
		if (m->interface)
			add_control(head, IPPROTO_IP, IP_PKTINFO, &through, sizeof(through));
	}
	if (segment)
		add_control(head, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
}

static int send_batch(struct weft_udp *udp, const struct weft_udp_message *messages, uint32_t count)
{
	struct mmsghdr heads[BATCH];
	union control controls[BATCH];
	union weft_link_name names[BATCH];
	int sent;

	memset(heads, 0, sizeof(heads));
	memset(controls, 0, sizeof(controls));
	for (uint32_t i = 0; i < count; i++) {
		const struct weft_udp_message *m = &messages[i];
		struct msghdr *head = &heads[i].msg_hdr;

		head->msg_name = &names[i];
		head->msg_namelen = weft_link_name(m->to, m->port, m->interface, &names[i]);
		if (udp->six != (names[i].any.sa_family == AF_INET6))
			return i ? send_batch(udp, messages, i) : -EINVAL;
		head->msg_control = controls[i].bytes;
		describe_message(udp, m, head);
		head->msg_iov = (struct iovec *)m->pieces;
		head->msg_iovlen = m->count;
	}
	sent = sendmmsg(udp->fd, heads, count, 0);
	/* EINVAL is the kernel's answer to too many segments */
	return sent >= 0 ? sent : errno == EINVAL && messages->segment_bytes ? -EMSGSIZE : -errno;
}

int weft_udp_send(struct weft_udp *udp, const struct weft_udp_message *messages, uint32_t count)
{
	uint32_t sent = 0;

	while (sent < count) {
		uint32_t most = count - sent < BATCH ? count - sent : BATCH;
		int answer = send_batch(udp, messages + sent, most);

		if (answer == -EINTR)
			continue;
		if (answer <= 0)
			return sent ? (int)sent : answer;
		sent += (uint32_t)answer;
	}
	return (int)sent;
}

/* ---- Receiving ---- */

int weft_udp_receive(struct weft_udp *udp)
{
	int came;

	udp->came = udp->at = 0;
	udp->rest = 0;
	for (uint32_t i = 0; i < BATCH; i++) {
		udp->pieces[i] = (struct iovec){udp->bytes[i], JOINED_BYTES};
		udp->heads[i].msg_hdr = (struct msghdr){
			.msg_name = &udp->names[i],
			.msg_namelen = sizeof(udp->names[i]),
			.msg_iov = &udp->pieces[i],
			.msg_iovlen = 1,
			.msg_control = udp->controls[i].bytes,
			.msg_controllen = CONTROL,
		};
	}
	do
		came = recvmmsg(udp->fd, udp->heads, BATCH, 0, NULL);
	while (came < 0 && errno == EINTR);
	if (came < 0)
		return errno == EAGAIN ? 0 : -errno;
	udp->came = (uint32_t)came;
	return 1;
}

bool weft_udp_is_empty(const struct weft_udp *udp)
{
	return udp->came < BATCH;
}

static int control_number(const struct cmsghdr *c)
{
	int value = 0;

	/* IP_TOS comes as one byte, all others as an int */
	if (c->cmsg_len < CMSG_LEN(sizeof(value)))
		return *(const uint8_t *)CMSG_DATA(c);
	memcpy(&value, CMSG_DATA(c), sizeof(value));
	return value;
}

static void learn(struct weft_udp *udp, const struct cmsghdr *c)
{
	struct weft_udp_datagram *d = &udp->now;
	struct in_pktinfo four;
	struct in6_pktinfo six;

	if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
		memcpy(&four, CMSG_DATA(c), sizeof(four));
		map_address(d->to, &four.ipi_addr);
		d->interface = (uint32_t)four.ipi_ifindex;
	} else if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
		memcpy(&six, CMSG_DATA(c), sizeof(six));
		memcpy(d->to, &six.ipi6_addr, 16);
		d->interface = six.ipi6_ifindex;
	} else if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO) {
		udp->segment_bytes = (size_t)control_number(c);
	} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TOS) ||
		   (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_TCLASS)) {
		d->traffic_class = (uint8_t)control_number(c);
	} else if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_TTL) ||
		   (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_HOPLIMIT)) {
		d->hop_limit = (uint8_t)control_number(c);
	}
}

/* Begins with the next message that is whole. */
static bool open_message(struct weft_udp *udp)
{
	struct msghdr *head;

	do {
		if (udp->at == udp->came)
			return false;
		head = &udp->heads[udp->at].msg_hdr;
		udp->rest = udp->heads[udp->at].msg_len;
		udp->now =
			(struct weft_udp_datagram){.to_port = udp->port, .at = udp->bytes[udp->at]};
		udp->at++;
	} while (!udp->rest || head->msg_flags & (MSG_TRUNC | MSG_CTRUNC));
	if (udp->six) {
		const struct sockaddr_in6 *from = head->msg_name;

		memcpy(udp->now.from, &from->sin6_addr, 16);
		udp->now.from_port = ntohs(from->sin6_port);
	} else {
		const struct sockaddr_in *from = head->msg_name;

		map_address(udp->now.from, &from->sin_addr);
		udp->now.from_port = ntohs(from->sin_port);
	}
	udp->segment_bytes = udp->rest;
	for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c))
		learn(udp, c);
	return true;
}

bool weft_udp_next(struct weft_udp *udp, struct weft_udp_datagram *datagram)
{
	if (udp->rest) {
		udp->now.at += udp->now.bytes;
		udp->now.segment++;
	} else if (!open_message(udp)) {
		return false;
	}
	udp->now.bytes = udp->rest < udp->segment_bytes ? udp->rest : udp->segment_bytes;
	udp->rest -= udp->now.bytes;
	*datagram = udp->now;
	return true;
}
