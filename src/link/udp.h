/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * UDP sockets for packets whose checksum covers the header of IP: many datagrams a system call,
 * each way, with the addresses, traffic class and hop limit that they travel with. Their content
 * is not known here.
 *
 * Over IPv4 the identification of a datagram that is sent is 0, or i for the i-th datagram of a message that
 * the kernel cuts: the socket is never connected, and does not let the path fragment packets. Of datagrams that come
 * the identification is not known, only the place in a batch that the kernel has joined.
 *
 * A socket that is bound to an address hears no multicast: each group is a socket of its own, which
 * only receives. So is each further source port, which only sends.
 *
 * Context: one thread at a time for each socket. Nothing blocks.
 */
#ifndef WEFT_LINK_UDP_H
#define WEFT_LINK_UDP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* Datagrams that one message may be cut into, and bytes of all of them. */
#define WEFT_UDP_SEGMENTS 64u
#define WEFT_UDP_BYTES	  65000u

struct weft_udp;

struct weft_udp_config {
	uint8_t address[16]; /* as in GIDs, of IPv4 mapped: an own one, or a group, which is joined
			      */
	uint16_t port;	     /* 0: any */
	uint32_t interface;  /* of a link-local address, or of a group: its index */
	bool unheard;	     /* no socket of this host hears what it sends to groups */
	uint32_t buffer_bytes; /* asked for each way; the system may give less. 0: its default */
};

/* What goes to one destination: a datagram, or several. */
struct weft_udp_message {
	uint8_t to[16];
	uint16_t port;
	uint32_t interface; /* of a link-local address, or of a group */
	uint8_t traffic_class;
	uint8_t hop_limit;	/* 0: the system's */
	uint32_t segment_bytes; /* what it is cut into; the last may be shorter. 0: it is one */
	const struct iovec *pieces;
	uint32_t count;
};

/* A datagram that has come. */
struct weft_udp_datagram {
	uint8_t from[16], to[16];
	uint16_t from_port, to_port;
	uint32_t interface;
	uint8_t traffic_class, hop_limit;
	uint16_t segment;  /* its place among those that came as one */
	const uint8_t *at; /* until the next weft_udp_receive */
	size_t bytes;
};

/* -EADDRINUSE: the port is taken; -EADDRNOTAVAIL: no address of this host; others by errno. */
int weft_udp_open(const struct weft_udp_config *config, struct weft_udp **udp);
/* Opens it anew, as its address is now another interface's. What has come on it is lost, and if it fails, all that is to go, until it is
 * tried again with success. */
int weft_udp_move(struct weft_udp *udp, uint32_t interface);
void weft_udp_close(struct weft_udp *udp);

/* For waiting; readable when there is something to receive. */
int weft_udp_fd(const struct weft_udp *udp);
uint16_t weft_udp_port(const struct weft_udp *udp);

/*
 * Sends; returns how many messages of `count` have gone, or why the first has not: -EAGAIN, the socket is
 * full; -EMSGSIZE, longer than the interface carries, or more than WEFT_UDP_SEGMENTS; -EINVAL, of
 * the other version of IP; others by errno, of that message alone.
 */
int weft_udp_send(struct weft_udp *udp, const struct weft_udp_message *messages, uint32_t count);

/* Takes what has come, in place of all that was taken before: 1 if there is something, 0, or
 * -errno. */
int weft_udp_receive(struct weft_udp *udp);
/* Whether that has left nothing behind. */
bool weft_udp_is_empty(const struct weft_udp *udp);
/* The next datagram of those taken; false: there is none left. */
bool weft_udp_next(struct weft_udp *udp, struct weft_udp_datagram *datagram);

#endif
