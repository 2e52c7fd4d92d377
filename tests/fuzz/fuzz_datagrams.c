/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * libFuzzer's target for librdmacm's handling of datagrams: a list of delays, datagrams, deaths of peers, and
 * calls of the program meanwhile. Whatever came, all connections must end, and leave nothing behind.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define PORT	7471
#define IDS	12u
#define MSECOND 1000000ull

struct input {
	const uint8_t *at, *end;
};

static struct input in;
static struct rdma_event_channel *channel;
static struct rdma_cm_id *ids[IDS];
static struct weft_mad last; /* the last datagram that this process has sent */
static uint32_t seen;	     /* made of the events' contents, so that these are read */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static uint8_t next(void)
{
	return in.at < in.end ? *in.at++ : 0;
}

static void require(bool ok)
{
	if (!ok)
		abort();
}

/* ---- The program ---- */

static struct rdma_cm_id **free_place(void)
{
	for (uint32_t i = 0; i < IDS; i++)
		if (!ids[i])
			return &ids[i];
	return NULL;
}

static void destroy(struct rdma_cm_id *id)
{
	for (uint32_t i = 0; i < IDS; i++)
		if (ids[i] == id)
			ids[i] = NULL;
	require(!rdma_destroy_id(id));
}

static const struct sockaddr *address(uint16_t port)
{
	static struct sockaddr_in addr;

	addr = (struct sockaddr_in){.sin_family = AF_INET,
				    .sin_port = htobe16(port),
				    .sin_addr.s_addr = htobe32(INADDR_LOOPBACK)};
	return (const struct sockaddr *)&addr;
}

static void listen_at(enum rdma_port_space ps)
{
	struct rdma_cm_id **id = free_place();

	require(!rdma_create_id(channel, id, NULL, ps));
	require(!rdma_bind_addr(*id, (struct sockaddr *)address(PORT)));
	require(!rdma_listen(*id, 3));
}

static void begin_active(void)
{
	struct rdma_cm_id **id = free_place();

	if (!id)
		return;
	require(!rdma_create_id(channel, id, NULL, next() & 1 ? RDMA_PS_UDP : RDMA_PS_TCP));
	require(!rdma_resolve_addr(*id, NULL, (struct sockaddr *)address(PORT), 1000));
	require(!rdma_resolve_route(*id, 1000));
}

static void call(struct rdma_cm_id *id, uint8_t what)
{
	static uint8_t data[256];
	struct rdma_conn_param param = {.private_data = data,
					.private_data_len = what,
					.qp_num = 0x99,
					.retry_count = what,
					.rnr_retry_count = 7};

	switch (what % 8) {
	case 0:
		rdma_accept(id, &param);
		break;
	case 1:
		rdma_reject(id, data, what);
		break;
	case 2:
		rdma_establish(id);
		break;
	case 3:
		rdma_disconnect(id);
		break;
	case 4:
		rdma_notify(id, IBV_EVENT_COMM_EST);
		break;
	case 5:
		destroy(id);
		break;
	default:
		rdma_connect(id, &param);
		break;
	}
}

static void read_event(void)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;
	const uint8_t *data;

	if (rdma_get_cm_event(channel, &event))
		return;
	id = event->id;
	data = weft_id_is_ud(weft_cm_id(id)) ? event->param.ud.private_data
					     : event->param.conn.private_data;
	for (uint32_t i = 0; data && i < event->param.conn.private_data_len; i++)
		seen += data[i];
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct rdma_cm_id **place = free_place();

		require(event->listen_id && !rdma_ack_cm_event(event));
		if (place)
			*place = id;
		else
			destroy(id);
	} else {
		require(!rdma_ack_cm_event(event));
	}
}

/* ---- The peers ---- */

static void watch(void)
{
	uint8_t wire[WEFT_MAD_BYTES];
	uint16_t to;

	while (world_posted(&to, wire))
		/* what this process sends can be decoded */
		require(!weft_mad_decode(wire, sizeof(wire), &last));
}

static void send_raw(void)
{
	uint8_t wire[WEFT_MAD_BYTES] = {0};
	uint16_t from = next() % WORLD_PEERS;

	for (size_t i = 0; i < sizeof(wire) && in.at < in.end; i++)
		wire[i] = next();
	world_arrive(from, wire);
}

/* Makes a valid datagram of any kind, about the last one sent or with numbers near to its, and then damages
 * some bytes. */
static void send_sound(void)
{
	struct weft_mad mad = {.kind = (enum weft_mad_kind)(WEFT_MAD_REQ + next() % 11)};
	struct weft_mad_ip ip = {.port = next(),
				 .src = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1},
				 .dst = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
	uint8_t wire[WEFT_MAD_BYTES], how = next();

	mad.tid = last.tid;
	mad.local_id = mad.kind == WEFT_MAD_SIDR_REP ? last.local_id : 0x70u + how % 4;
	mad.remote_id = last.local_id - (how >> 2) % 4;
	if (mad.kind == WEFT_MAD_REQ) {
		mad.req = (struct weft_mad_req){.service_id = (uint64_t)RDMA_PS_TCP << 16 | PORT,
						.qpn = 1,
						.remote_timeout = 20,
						.local_timeout = 20,
						.cm_retries = 15,
						.mtu = 5,
						.path.ack_timeout = 17};
		weft_mad_put_ip(mad.private_data, &ip);
	} else if (mad.kind == WEFT_MAD_SIDR_REQ) {
		mad.sidr_req.service_id = (uint64_t)RDMA_PS_UDP << 16 | PORT;
		weft_mad_put_ip(mad.private_data, &ip);
	} else if (mad.kind == WEFT_MAD_DREQ) {
		mad.dreq_qpn = 0x99;
	}
	weft_mad_encode(&mad, wire);
	for (uint8_t n = how >> 4 & 3; n; n--) {
		uint8_t at = next();

		wire[at] = next();
	}
	world_arrive(how & 0x80 ? WORLD_PEER + 1 : WORLD_PEER, wire);
}

static void change_world(uint8_t how)
{
	static const int found[] = {0, -EMFILE, -EAGAIN, -ECONNREFUSED};

	world.found = found[how % 4];
	world.full = how & 4;
	world.dead[WORLD_PEER] = how & 8;
}

/* Lets time pass. Mostly it is short: peers are looked after ten times in each second. */
static void pass(uint8_t how)
{
	static const uint32_t delay_ms[] = {0, 0, 1, 1, 1, 5, 20, 100, 100, 200, 550, 9200};

	world_pass(delay_ms[how % (sizeof(delay_ms) / sizeof(*delay_ms))] * MSECOND);
}

/* ---- One input ---- */

static void step(void)
{
	uint8_t what = next(), which;

	switch (what % 8) {
	case 0:
		pass(next());
		break;
	case 1:
		send_raw();
		break;
	case 2:
	case 3:
		send_sound();
		break;
	case 4:
		read_event();
		break;
	case 5:
		which = next();
		if (ids[which % IDS])
			call(ids[which % IDS], next());
		break;
	case 6:
		begin_active();
		break;
	default:
		change_world(next());
		break;
	}
	watch();
}

static void end(void)
{
	struct rdma_cm_event *event;

	for (uint32_t i = 0; i < IDS; i++)
		if (ids[i])
			destroy(ids[i]);
	require(rdma_get_cm_event(channel, &event) && errno == EAGAIN);
	change_world(0);
	for (int i = 0; weft_agent_run(world.now_ns) != UINT64_MAX; i++) {
		require(i < 100);
		watch();
		world_pass(MSECOND);
	}
	require(!world.ports);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	world_reset();
	if (!channel) {
		channel = rdma_create_event_channel();
		require(channel && !fcntl(channel->fd, F_SETFL, O_NONBLOCK));
	}
	in = (struct input){data, data + bytes};
	last = (struct weft_mad){.local_id = 0};
	listen_at(RDMA_PS_TCP);
	listen_at(RDMA_PS_UDP);
	while (in.at < in.end)
		step();
	end();
	return 0;
}
