/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Streams of datagrams to a port that is not ours: what a network interface receives for it is put by the kernel into a ring of
 * packets (TPACKET_V3), which we have mapped, block after block. Nothing is kept from the port's owner. A filter of the
 * kernel's lets only such frames through; frame.c looks at each once more.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/frame.h"
#include "link/stream.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

/* A block takes the largest packet; where few come each is one of a block, and the reader may be away for as many ms. */
#define BLOCK_BYTES (1u << 17)
#define BLOCKS	    128u
#define RETIRE_MS   1u /* a block that is not full is handed over after this */

struct packets {
	struct weft_stream_link link;
	uint8_t *blocks; /* BLOCKS × BLOCK_BYTES */
	uint32_t block;	 /* the next that the kernel hands over, or the one in hand */
	uint32_t left;	 /* packets of it */
	const struct tpacket3_hdr *next;
	bool ours; /* the block is in hand */
	uint16_t port;
};

/* ---- Opening ---- */

/* Over IPv4, unfragmented, and over IPv6: UDP to the port, received. On the loopback interface each frame passes twice. */
static int filter_port(int fd, uint16_t port)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (uint32_t)(SKF_AD_OFF + SKF_AD_PKTTYPE)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 15, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 12),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IPV6, 8, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ETH_P_IP, 0, 12),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 23),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 10),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 20),
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 8, 0),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 14),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 16),
		BPF_STMT(BPF_JMP | BPF_JA, 3),
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 20),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_UDP, 0, 3),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 56),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, port, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	const struct sock_fprog program = {sizeof(code) / sizeof(*code), code};

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

/* The ring; with each packet comes of how many bytes its datagrams are, if it is of several. */
static int make_packet_ring(struct packets *p)
{
	const struct tpacket_req3 ring = {.tp_block_size = BLOCK_BYTES,
					  .tp_block_nr = BLOCKS,
					  .tp_frame_size = 2048,
					  .tp_frame_nr = BLOCK_BYTES / 2048 * BLOCKS,
					  .tp_retire_blk_tov = RETIRE_MS};
	int version = TPACKET_V3, one = 1;

	if (setsockopt(p->link.fd, SOL_PACKET, PACKET_VERSION, &version, sizeof(version)) ||
	    setsockopt(p->link.fd, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(p->link.fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)))
		return -errno;
	p->blocks = mmap(NULL, (size_t)BLOCKS * BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			 p->link.fd, 0);
	return p->blocks == MAP_FAILED ? -errno : 0;
}

static int begin_packets(struct packets *p, unsigned int interface)
{
	const struct sockaddr_ll name = {.sll_family = AF_PACKET,
					 .sll_protocol = htons(ETH_P_ALL),
					 .sll_ifindex = (int)interface};
	int answer;

	/* of no protocol at first: nothing comes before the filter is there */
	p->link.fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->link.fd < 0)
		return -errno;
	answer = filter_port(p->link.fd, p->port);
	answer = answer ?: make_packet_ring(p);
	if (!answer && bind(p->link.fd, (const struct sockaddr *)&name, sizeof(name)))
		answer = -errno;
	return answer;
}

static void close_packets(struct weft_stream_link *link)
{
	struct packets *p = (struct packets *)link;

	if (p->blocks != MAP_FAILED)
		munmap(p->blocks, (size_t)BLOCKS * BLOCK_BYTES);
	if (link->fd >= 0)
		close(link->fd);
	free(p);
}

/* "INTERFACE:PORT" */
static bool parse_place(const char *where, unsigned int *interface, uint16_t *port)
{
	const char *colon = strrchr(where, ':');
	char name[IF_NAMESIZE] = "";
	uint8_t unused[16];

	if (!colon || colon == where || (size_t)(colon - where) >= sizeof(name) ||
	    !weft_stream_address(colon, unused, port))
		return false;
	memcpy(name, where, (size_t)(colon - where));
	*interface = if_nametoindex(name);
	return *interface && *port;
}

static int open_packets(const char *where, struct weft_stream_link_options *options,
			struct weft_stream_link **link)
{
	struct packets *p;
	unsigned int interface;
	uint16_t port;
	int answer;

	options->wrong = "packet: it is no INTERFACE:PORT, or there is no such interface";
	if (!parse_place(where, &interface, &port))
		return -EINVAL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	*p = (struct packets){.link = {.kind = &weft_stream_packet, .fd = -1},
			      .blocks = MAP_FAILED,
			      .port = port};
	answer = begin_packets(p, interface);
	if (answer)
		close_packets(&p->link);
	else
		*link = &p->link;
	return answer;
}

/* ---- Receiving ---- */

static struct tpacket_block_desc *block_of(const struct packets *p)
{
	return (struct tpacket_block_desc *)(p->blocks + (size_t)p->block * BLOCK_BYTES);
}

/* The block's status word, which the kernel and we hand each other. */
static _Atomic uint32_t *status_of(const struct packets *p)
{
	return (_Atomic uint32_t *)&block_of(p)->hdr.bh1.block_status;
}

/* Whether there is a packet: gives the block that is done with to the kernel, and takes the next, if it is handed over. */
static bool find_packet(struct packets *p)
{
	while (!p->left) {
		if (p->ours) {
			/* the kernel fills it anew when it sees this: what was read of it was read before */
			atomic_store_explicit(status_of(p), TP_STATUS_KERNEL, memory_order_release);
			p->block = (p->block + 1) % BLOCKS;
			p->ours = false;
		}
		/* the kernel hands over what it has filled before */
		if (!(atomic_load_explicit(status_of(p), memory_order_acquire) & TP_STATUS_USER))
			return false;
		p->ours = true;
		p->left = block_of(p)->hdr.bh1.num_pkts;
		p->next = (const void *)((const uint8_t *)block_of(p) +
					 block_of(p)->hdr.bh1.offset_to_first_pkt);
	}
	return true;
}

/* The datagrams of the next packet; false: it has none for the port, though the filter let it through. */
static bool take_received(struct packets *p, struct weft_stream_run *run)
{
	const struct tpacket3_hdr *h = p->next;
	const uint8_t *data = (const uint8_t *)h + h->tp_mac;
	const struct virtio_net_hdr *vnet = (const void *)(data - sizeof(*vnet));
	struct weft_frame frame;

	p->left--;
	p->next = (const void *)((const uint8_t *)h + h->tp_next_offset);
	if (weft_frame_parse(WEFT_FRAME_ETHERNET, data, h->tp_snaplen, &frame) != WEFT_FRAME_UDP ||
	    frame.to_port != p->port)
		return false;
	*run = (struct weft_stream_run){
		.at = (uint8_t *)frame.payload,
		.bytes = frame.bytes,
		.segment = vnet->gso_type == VIRTIO_NET_HDR_GSO_UDP_L4 && vnet->gso_size
				   ? vnet->gso_size
				   : (frame.bytes ? frame.bytes : 1u),
		.place = WEFT_STREAM_NOWHERE,
	};
	return true;
}

/* Runs lie in one block, which is ours until the next call. */
static int receive_packets(struct weft_stream_link *link, const struct weft_stream_places *places,
			   struct weft_stream_run run[])
{
	struct packets *p = (struct packets *)link;
	int runs = 0;

	if (!find_packet(p))
		return 0;
	while (p->left && runs < (int)WEFT_STREAM_RUN)
		runs += take_received(p, &run[runs]);
	return runs;
}

/* The count begins anew each time that it is asked for. */
static void ask_packets(struct weft_stream_link *link)
{
	struct tpacket_stats_v3 stats;
	socklen_t bytes = sizeof(stats);

	if (!getsockopt(link->fd, SOL_PACKET, PACKET_STATISTICS, &stats, &bytes))
		link->dropped += stats.tp_drops;
}

const struct weft_stream_link_kind weft_stream_packet = {
	.name = "packet",
	.open = open_packets,
	.receive = receive_packets,
	.ask = ask_packets,
	.close = close_packets,
};
