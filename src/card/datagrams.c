/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Datagrams between members and the wire: each is one packet. What one may do where it arrives is nic/datagram.h's to say. */
#include "card/wire.h"
#include "nic/datagram.h"
#include "nic/nic.h"
#include "pool/address.h"
#include "pool/outbox.h"

/* ---- To the wire ---- */

static bool send_bytes(struct weft_wire *wire, struct weft_out_way way,
		       struct weft_roce_packet *packet, const uint8_t *bytes)
{
	struct weft_roce_route route = {.src_port = WEFT_ROCE_PORT, .dst_port = WEFT_ROCE_PORT};
	uint16_t id;
	uint8_t *at;

	packet->migrated = true;
	packet->pkey = WEFT_WIRE_PKEY;
	packet->psn = wire->datagrams & WEFT_ROCE_PSN_MASK;
	at = weft_out_reserve(wire->out, way, weft_wire_bytes(packet), &id);
	if (!at)
		return false;
	wire->datagrams++;
	__builtin_memcpy(at + weft_roce_head_bytes(packet->opcode), bytes, packet->payload_bytes);
	__builtin_memcpy(route.src, wire->address, 16);
	__builtin_memcpy(route.dst, way.to, 16);
	weft_wire_seal(wire, &route, packet, at, id);
	return true;
}

/* As network cards do, a datagram to one host travels as far as the system has it; one to a group as far as it says. */
bool weft_wire_datagram(struct weft_card *card, const struct weft_pool_datagram *d)
{
	struct weft_wire *wire = (struct weft_wire *)card;
	uint32_t bytes = d->len_bytes;
	uint8_t to[16];
	struct weft_out_way way = {.to = to, .traffic_class = d->traffic_class};
	struct weft_roce_packet packet = {
		.opcode = d->has_imm ? WEFT_ROCE_OP_UD_SEND_ONLY_IMM : WEFT_ROCE_OP_UD_SEND_ONLY,
		.solicited = d->solicited,
		.dest_qpn = d->dest_qpn & WEFT_ROCE_PSN_MASK,
		.qkey = d->qkey,
		.src_qpn = d->src_qpn & WEFT_ROCE_PSN_MASK,
		.imm = d->imm,
		.payload_bytes = bytes,
	};

	if (bytes > WEFT_OUTBOX_BYTES)
		return true;
	__builtin_memcpy(to, d->dgid, 16);
	if (weft_address_is_group(to))
		way.hop_limit = d->hop_limit;
	return send_bytes(wire, way, &packet, d->bytes);
}

/* ---- Of queue pair 1 ---- */

static struct weft_wire *wire_with(struct weft_manager *manager)
{
	return (struct weft_wire *)((char *)manager - offsetof(struct weft_wire, manager));
}

static void send_mad(struct weft_manager *manager, const uint8_t to[16],
		     const uint8_t bytes[WEFT_MAD_BYTES])
{
	struct weft_roce_packet packet = {
		.opcode = WEFT_ROCE_OP_UD_SEND_ONLY,
		.dest_qpn = WEFT_MANAGER_QPN,
		.qkey = WEFT_MANAGER_QKEY,
		.src_qpn = WEFT_MANAGER_QPN,
		.payload_bytes = WEFT_MAD_BYTES,
	};

	send_bytes(wire_with(manager), (struct weft_out_way){.to = to}, &packet, bytes);
}

static void *alloc_entry(struct weft_manager *manager, size_t bytes)
{
	return weft_nic_alloc(wire_with(manager)->card.nic, bytes);
}

static void free_entry(struct weft_manager *manager, void *at)
{
	weft_nic_free(wire_with(manager)->card.nic, at);
}

const struct weft_manager_calls weft_wire_manager = {
	.send = send_mad, .alloc = alloc_entry, .free = free_entry};

/* ---- From the wire ---- */

static struct weft_datagram_target *target_of(struct weft_wire *wire, uint32_t qpn)
{
	return &wire->target[(qpn * 2654435761u >> 8) % WEFT_WIRE_TARGETS];
}

/* Whether a member has that address: its datagrams to a group have reached the pool's other members already. */
static bool is_a_members(struct weft_nic *nic, const uint8_t gid[16])
{
	for (uint16_t i = 0; (i = nic->pool->calls->next(nic->pool, i)) < WEFT_MEMBERS; i++)
		if (weft_responder_has_gid(nic->pool, i, gid))
			return true;
	return false;
}

static void bring(struct weft_wire *wire, const struct weft_datagram *d,
		  const struct weft_roce_arrival *arrival, uint32_t qpn)
{
	struct weft_nic *nic = wire->card.nic;
	const uint8_t *to = arrival->route.dst;

	if (qpn != WEFT_QPN_MULTICAST)
		weft_datagram_deliver(d, qpn, to, target_of(wire, qpn));
	else if (weft_address_is_group(to) && !is_a_members(nic, arrival->route.src))
		weft_datagram_deliver_all(d, to, wire->net_ns);
}

void weft_wire_arrived(struct weft_switch *sw, const struct weft_roce_arrival *arrival,
		       const struct weft_roce_packet *packet, uint64_t now_ns)
{
	/* the kind of the header that comes with the datagram, as mlx5 tells it: 1 for IPv6, 2 for IPv4 */
	const uint32_t kind = weft_roce_is_ipv4(&arrival->route) ? 2 : 1;
	struct weft_wire *wire = weft_wire_with(sw);
	uint8_t grh[WEFT_ROCE_GRH_BYTES];
	struct weft_datagram d = {
		.nic = wire->card.nic,
		.caller = wire->card.caller,
		.src_qpn = packet->src_qpn | kind << 24,
		.qkey = packet->qkey,
		.imm = packet->imm,
		.has_imm = packet->opcode == WEFT_ROCE_OP_UD_SEND_ONLY_IMM,
		.solicited = packet->solicited,
		.bytes = packet->payload_bytes,
	};

	if (!weft_roce_pkeys_match(packet->pkey, WEFT_WIRE_PKEY))
		return;
	if (packet->dest_qpn == WEFT_MANAGER_QPN) {
		if (packet->qkey == WEFT_MANAGER_QKEY && packet->payload_bytes == WEFT_MAD_BYTES)
			weft_manager_arrived(&wire->manager, arrival->route.src, arrival->route.dst,
					     packet->payload, now_ns);
		return;
	}
	weft_roce_grh(arrival, grh);
	weft_span_private(&d.span[0], grh, sizeof(grh));
	weft_span_private(&d.span[1], (void *)packet->payload, packet->payload_bytes);
	bring(wire, &d, arrival, packet->dest_qpn);
}
