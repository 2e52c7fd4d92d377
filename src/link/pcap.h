/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Captures: files of frames with their times, as tcpdump (pcap) and Wireshark (pcapng) write them.
 * Read in either byte order and any resolution; written in this machine's, in ns.
 *
 * Context: one thread for each reader or writer. Functions return 0 or -errno and say in *why, which
 * is a constant text, what is wrong.
 */
#ifndef WEFT_LINK_PCAP_H
#define WEFT_LINK_PCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum weft_pcap_format {
	WEFT_PCAP,
	WEFT_PCAPNG,
};

struct weft_pcap_packet {
	uint64_t time_ns;	     /* since 1970; 0 where the capture has none */
	uint32_t bytes, whole_bytes; /* captured, on the wire */
	uint32_t linktype;	     /* LINKTYPE_… */
	const uint8_t *data;	     /* until the next is read */
};

struct weft_pcap_reader;
struct weft_pcap_writer;

/* path "-" is the standard input. -EPROTO: it is no capture; others by errno. */
int weft_pcap_open(const char *path, struct weft_pcap_reader **reader, const char **why);
/* 1: there is a packet, 0: there is none left. -EPROTO: the file is damaged or cut here. */
int weft_pcap_next(struct weft_pcap_reader *reader, struct weft_pcap_packet *packet,
		   const char **why);
void weft_pcap_close(struct weft_pcap_reader *reader);

/* A file of frames of Ethernet; path "-" is the standard output. */
int weft_pcap_create(const char *path, enum weft_pcap_format format,
		     struct weft_pcap_writer **writer);
/* Writes one frame, given in two parts. weft_pcap_finish says whether that failed. */
void weft_pcap_write(struct weft_pcap_writer *writer, uint64_t time_ns, const uint8_t *head,
		     uint32_t head_bytes, const uint8_t *body, uint32_t body_bytes);
/* 0, or why not all could be written. The writer ends in either case. */
int weft_pcap_finish(struct weft_pcap_writer *writer);

#endif
