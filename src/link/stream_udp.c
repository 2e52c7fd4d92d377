/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Streams out of a UDP socket. Datagrams that the kernel has joined come as one message, others many
 * messages a call: each message has room for the longest that can come, so that nothing is ever cut,
 * and how many are asked for at once follows what came last.
 *
 * Where places are offered, a message's first bytes go there. Of joined ones the kernel fills a place
 * with each, once it is known how long they are, or what is left of a packed buffer with as many as fit.
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/name.h"
#include "link/stream.h"

/* Messages a call: one by one, and joined ones. */
#define SINGLES WEFT_STREAM_RUN
#define JOINED	4u
/* From one message's own bytes to the next: not a multiple of what caches are divided by. */
#define STRIDE	(WEFT_STREAM_LONGEST + 2112u)
#define CONTROL 64u
#define PAGE	4096u

struct udp {
	struct weft_stream_link link;
	bool joined;	       /* the last datagrams came joined */
	uint32_t segment;      /* and had so many bytes each */
	uint32_t pieces;       /* of a message that is to be scattered, before its own bytes */
	uint32_t dropped_seen; /* as the system counts, in 32 bits */
	uint8_t *bytes;	       /* SINGLES × STRIDE */
	struct mmsghdr head[SINGLES];
	struct iovec piece[SINGLES][2], scattered[WEFT_STREAM_RUN + 1];
	union {
		uint8_t bytes[CONTROL];
		struct cmsghdr align;
	} control[SINGLES];
};

/* ---- Opening ---- */

static int set_option(int fd, int level, int name, int value)
{
	return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* The size of the socket's buffer is forced where the process may; else the system's limit bounds it. */
static int set_options(int fd, bool six, uint32_t socket_bytes)
{
	int answer = set_option(fd, IPPROTO_UDP, UDP_GRO, 1);

	answer = answer ?: set_option(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
	if (!answer && six)
		answer = set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
	if (!answer && socket_bytes &&
	    set_option(fd, SOL_SOCKET, SO_RCVBUFFORCE, (int)socket_bytes) == -EPERM)
		answer = set_option(fd, SOL_SOCKET, SO_RCVBUF, (int)socket_bytes);
	return answer;
}

static int bind_to(int fd, const uint8_t address[16], uint16_t port)
{
	union weft_link_name name;
	socklen_t bytes = weft_link_name(address, port, 0, &name);

	return bind(fd, &name.any, bytes) ? -errno : 0;
}

static void close_socket(struct weft_stream_link *link)
{
	struct udp *u = (struct udp *)link;

	if (u->link.fd >= 0)
		close(u->link.fd);
	if (u->bytes != MAP_FAILED)
		munmap(u->bytes, (size_t)SINGLES * STRIDE);
	free(u);
}

static uint8_t *own_bytes(const struct udp *u, uint32_t message)
{
	return u->bytes + (size_t)message * STRIDE;
}

/* Has the pages made that datagrams of usual lengths lie in, so that none is made when they come. */
static void touch_pages(struct udp *u)
{
	for (uint32_t i = 0; i < SINGLES; i++)
		for (uint32_t at = 0; at < (i < JOINED ? STRIDE : PAGE); at += PAGE)
			own_bytes(u, i)[at] = 0;
}

static int open_socket(const char *where, struct weft_stream_link_options *options,
		       struct weft_stream_link **link)
{
	uint8_t address[16];
	uint16_t port;
	struct udp *u;
	int answer;

	options->wrong = "udp: it is no ADDRESS:PORT";
	if (!weft_stream_address(where, address, &port))
		return -EINVAL;
	u = calloc(1, sizeof(*u));
	if (!u)
		return -ENOMEM;
	u->link.kind = &weft_stream_udp;
	u->bytes = mmap(NULL, (size_t)SINGLES * STRIDE, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	u->link.fd = socket(weft_address_is_ipv4(address) ? AF_INET : AF_INET6,
			    SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	answer = u->link.fd < 0 ? -errno : u->bytes == MAP_FAILED ? -ENOMEM : 0;
	if (!answer)
		answer = set_options(u->link.fd, !weft_address_is_ipv4(address),
				     options->socket_bytes);
	if (!answer)
		answer = bind_to(u->link.fd, address, port);
	if (answer) {
		close_socket(&u->link);
		return answer;
	}
	touch_pages(u);
	*link = &u->link;
	return 0;
}

/* ---- Receiving ---- */

/* A message for each place, whose rest would lie in the message's own bytes, behind where the place's
 * bytes are put when it has one. */
static uint32_t offer_each(struct udp *u, const struct weft_stream_places *places)
{
	uint32_t count = places && places->count ? places->count : u->joined ? JOINED : SINGLES;

	/* the first message says how those after it are to be taken */
	if (!u->segment)
		count = 1;
	for (uint32_t i = 0; i < count; i++) {
		struct iovec *piece = u->piece[i];
		uint32_t first = 0;

		if (places && places->count) {
			first = places->bytes;
			piece[0] = (struct iovec){places->at[i], first};
		}
		if (first >= WEFT_STREAM_LONGEST)
			first = WEFT_STREAM_LONGEST;
		piece[first != 0] =
			(struct iovec){own_bytes(u, i) + first, WEFT_STREAM_LONGEST - first};
		u->head[i].msg_hdr =
			(struct msghdr){.msg_iov = piece, .msg_iovlen = 1 + (first != 0)};
	}
	return count;
}

static uint32_t add_piece(struct udp *u, uint8_t *at, uint32_t bytes, uint32_t covered)
{
	u->scattered[u->pieces++] = (struct iovec){at, bytes};
	return covered + bytes;
}

/* One message, each segment of which has a place, or which lies in the rests; what is behind that in its own bytes. */
static uint32_t offer_scattered(struct udp *u, const struct weft_stream_places *places)
{
	uint32_t covered = 0;

	u->pieces = 0;
	for (uint32_t i = 0; i < places->count && u->pieces < WEFT_STREAM_RUN - 1 &&
			     covered + u->segment <= WEFT_STREAM_LONGEST;
	     i++)
		covered = add_piece(u, places->at[i], u->segment, covered);
	for (uint32_t i = 0; i < places->rests; i++) {
		uint32_t bytes = places->rest[i].bytes;

		if (bytes > WEFT_STREAM_LONGEST - covered)
			bytes = WEFT_STREAM_LONGEST - covered;
		covered =
			add_piece(u, places->rest[i].at, bytes / u->segment * u->segment, covered);
	}
	u->scattered[u->pieces] =
		(struct iovec){own_bytes(u, 0) + covered, WEFT_STREAM_LONGEST - covered};
	u->head[0].msg_hdr = (struct msghdr){.msg_iov = u->scattered, .msg_iovlen = u->pieces + 1};
	return 1;
}

static void count_dropped(struct udp *u, uint32_t now)
{
	/* the count that comes with a datagram is of the time when that came, and may be behind */
	if ((int32_t)(now - u->dropped_seen) <= 0)
		return;
	u->link.dropped += now - u->dropped_seen;
	u->dropped_seen = now;
}

/* The length of each datagram that is joined in the message, or of the message if it is one. */
static uint32_t learn_segment(struct udp *u, struct msghdr *head, uint32_t bytes)
{
	uint32_t segment = bytes, value;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
		memcpy(&value, CMSG_DATA(c), sizeof(value));
		if (c->cmsg_level == IPPROTO_UDP && c->cmsg_type == UDP_GRO)
			segment = value;
		else if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL)
			count_dropped(u, value);
	}
	return segment ? segment : 1;
}

/* The message's bytes behind each other, in its own: what lies in places is fetched. */
static void gather_pieces(struct udp *u, uint32_t message, const struct iovec *piece,
			  uint32_t bytes)
{
	uint8_t *to = own_bytes(u, message);

	for (uint32_t done = 0; done < bytes && piece->iov_base != to + done; piece++) {
		uint32_t some = (uint32_t)piece->iov_len < bytes - done ? (uint32_t)piece->iov_len
									: bytes - done;

		memcpy(to + done, piece->iov_base, some);
		u->link.copied += some;
		done += some;
	}
}

/* Of a message that was to be scattered: a run for each piece; or one for all, if its datagrams are of another length. */
static uint32_t take_scattered(struct udp *u, const struct weft_stream_places *places,
			       uint32_t bytes, uint32_t segment, struct weft_stream_run run[])
{
	uint32_t runs = 0, done = 0;

	if (segment != u->segment) {
		gather_pieces(u, 0, u->scattered, bytes);
		run[0] = (struct weft_stream_run){own_bytes(u, 0), bytes, segment,
						  WEFT_STREAM_NOWHERE};
		return 1;
	}
	for (uint32_t i = 0; i <= u->pieces && done < bytes; i++) {
		uint32_t some = (uint32_t)u->scattered[i].iov_len;

		if (some > bytes - done)
			some = bytes - done;
		if (some)
			run[runs++] = (struct weft_stream_run){
				.at = u->scattered[i].iov_base,
				.bytes = some,
				.segment = segment,
				.place = i == u->pieces	 ? WEFT_STREAM_NOWHERE
					 : places->count ? i
							 : WEFT_STREAM_BEHIND,
			};
		done += some;
	}
	return runs;
}

static void take_one(struct udp *u, const struct weft_stream_places *places, uint32_t message,
		     uint32_t segment, struct weft_stream_run *run)
{
	uint32_t bytes = u->head[message].msg_len;

	*run = (struct weft_stream_run){own_bytes(u, message), bytes, segment, WEFT_STREAM_NOWHERE};
	if (!places || !places->count)
		return;
	if (bytes <= places->bytes && segment >= bytes) {
		run->at = places->at[message];
		run->place = message;
	} else {
		gather_pieces(u, message, u->piece[message], bytes);
	}
}

static int receive_udp(struct weft_stream_link *link, const struct weft_stream_places *places,
		       struct weft_stream_run run[])
{
	struct udp *u = (struct udp *)link;
	bool scattered = u->joined && places && (places->rests || u->segment <= places->bytes);
	uint32_t most = scattered ? offer_scattered(u, places) : offer_each(u, places), runs = 0;
	int came;

	for (uint32_t i = 0; i < most; i++) {
		u->head[i].msg_hdr.msg_control = u->control[i].bytes;
		u->head[i].msg_hdr.msg_controllen = CONTROL;
	}
	do
		came = recvmmsg(u->link.fd, u->head, most, 0, NULL);
	while (came < 0 && errno == EINTR);
	if (came < 0)
		return errno == EAGAIN || errno == ECONNREFUSED ? 0 : -errno;
	for (uint32_t i = 0; i < (uint32_t)came; i++) {
		uint32_t bytes = u->head[i].msg_len;
		uint32_t segment = learn_segment(u, &u->head[i].msg_hdr, bytes);

		if (scattered)
			runs = take_scattered(u, places, bytes, segment, run);
		else
			take_one(u, places, i, segment, &run[runs++]);
		u->joined = segment < bytes;
		u->segment = segment;
	}
	return (int)runs;
}

/* Asks for the count of drops apart from datagrams, which tell it, but of which none may come any more. */
static void ask_drops(struct weft_stream_link *link)
{
	struct udp *u = (struct udp *)link;
	uint32_t memory[SK_MEMINFO_VARS];
	socklen_t bytes = sizeof(memory);

	if (!getsockopt(link->fd, SOL_SOCKET, SO_MEMINFO, memory, &bytes) &&
	    bytes > SK_MEMINFO_DROPS * sizeof(*memory))
		count_dropped(u, memory[SK_MEMINFO_DROPS]);
}

const struct weft_stream_link_kind weft_stream_udp = {
	.name = "udp",
	.open = open_socket,
	.receive = receive_udp,
	.ask = ask_drops,
	.close = close_socket,
};
