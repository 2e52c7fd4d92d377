/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wire/ape/regs.h"

enum {
	REVISION = 5,
	COORDINATES = 6,
	LATTICE = 8,
	FIFOS = 28,
	CHECKS = 68,
	THRESHOLDS = 69,
	CREDITS = 70,
	ERRORS = 71,
	LINKS = 80,	  /* two, ten registers each */
	MORE_LINKS = 160, /* the others */
	EXCEPTIONS = 150,
	CHANNEL_UP = 152,
	DROPPED = 200,
	PATIENCE = 204,
	GIVE_UP = 205,
};

#define LINK_REGISTERS 10u
#define CHECK_HEADERS  (15u << 28)
#define CHECK_CREDITS  (15u << 24)
#define HALF	       0xffffu
#define NS_IN_MS       1000000u

static uint32_t sizes(const struct weft_ape_lattice *l)
{
	return l->size[0] | (uint32_t)l->size[1] << 8 | (uint32_t)l->size[2] << 16;
}

static uint32_t link_register(const struct weft_ape_ni *c, unsigned int link, unsigned int which)
{
	const struct weft_ape_tx *tx = &c->node.tx[link];
	const struct weft_ape_rx *rx = &c->node.rx[link];
	const uint64_t *sent = tx->beats, *received = rx->beats;
	const uint64_t values[LINK_REGISTERS] = {
		sent[WEFT_APE_K_MAGIC],
		sent[WEFT_APE_K_START],
		sent[WEFT_APE_K_HEADER],
		sent[WEFT_APE_K_FOOTER],
		rx->headers_corrected + rx->credits_corrected,
		received[WEFT_APE_K_MAGIC],
		received[WEFT_APE_K_START],
		received[WEFT_APE_K_HEADER],
		received[WEFT_APE_K_FOOTER],
		rx->headers_dropped + rx->credits_dropped,
	};

	return values[which];
}

static uint32_t checks(const struct weft_ape_ni *c)
{
	const struct weft_ape_link_config *link = &c->node.config.link;

	return (link->check_headers ? CHECK_HEADERS : 0) |
	       (link->check_credits ? CHECK_CREDITS : 0) | c->node.config.loopback |
	       (uint32_t)link->no_lead << 8;
}

static uint32_t errors(const struct weft_ape_error_generator *e)
{
	return e->bit[0] | (uint32_t)e->bit[1] << 7 | (uint32_t)e->bit[2] << 14 |
	       (uint32_t)e->flips << 21 | (uint32_t)e->headers << 23 | (uint32_t)e->credits << 24;
}

static uint32_t exceptions(const struct weft_ape_ni *c)
{
	uint64_t sum = 0;

	for (unsigned int link = 0; link < WEFT_APE_CABLES; link++)
		sum += c->node.rx[link].no_room;
	return sum;
}

static uint32_t fifo_register(const struct weft_ape_ni *c, unsigned int which)
{
	const struct weft_ape_queue *q = &c->node.router.source[which / 2].queue;

	return which % 2 ? q->data.count : q->headers.count;
}

uint32_t weft_ape_reg_read(const struct weft_ape_ni *c, unsigned int number)
{
	const struct weft_ape_link_config *link = &c->node.config.link;

	if (number >= FIFOS && number < FIFOS + 2 * WEFT_APE_SOURCES)
		return fifo_register(c, number - FIFOS);
	if (number >= LINKS && number < LINKS + 2 * LINK_REGISTERS)
		return link_register(c, (number - LINKS) / LINK_REGISTERS,
				     (number - LINKS) % LINK_REGISTERS);
	if (number >= MORE_LINKS && number < DROPPED)
		return link_register(c, 2 + (number - MORE_LINKS) / LINK_REGISTERS,
				     (number - MORE_LINKS) % LINK_REGISTERS);
	if (number >= DROPPED && number < DROPPED + WEFT_APE_DROPS)
		return c->node.router.dropped[number - DROPPED];
	switch (number) {
	case REVISION:
		return 1;
	case COORDINATES:
		return weft_ape_coord_pack(c->node.config.me);
	case LATTICE:
		return sizes(&c->node.config.lattice);
	case CHECKS:
		return checks(c);
	case THRESHOLDS:
		return link->threshold.headers | link->threshold.data << 16;
	case CREDITS:
		return (uint32_t)link->cycle << 8 | link->margin;
	case ERRORS:
		return errors(&c->node.tx[0].errors);
	case EXCEPTIONS:
		return exceptions(c);
	case CHANNEL_UP:
		return c->node.router.up;
	case PATIENCE:
		return c->config.patience_ns / NS_IN_MS;
	case GIVE_UP:
		return c->config.times.give_up_ns / NS_IN_MS;
	}
	return 0;
}

static void write_errors(struct weft_ape_ni *c, uint32_t value)
{
	for (unsigned int link = 0; link < WEFT_APE_CABLES; link++)
		c->node.tx[link].errors = (struct weft_ape_error_generator){
			.bit = {value & 127, value >> 7 & 127, value >> 14 & 127},
			.flips = value >> 21 & 3,
			.headers = value >> 23 & 1,
			.credits = value >> 24 & 1,
		};
}

bool weft_ape_reg_write(struct weft_ape_ni *c, unsigned int number, uint32_t value)
{
	struct weft_ape_node_config config = c->node.config;

	switch (number) {
	case CHECKS:
		config.link.check_headers = (value & CHECK_HEADERS) != 0;
		config.link.check_credits = (value & CHECK_CREDITS) != 0;
		config.link.no_lead = value >> 8 & 1;
		config.loopback = value & 63;
		break;
	case THRESHOLDS:
		config.link.threshold = (struct weft_ape_counts){value >> 16, value & HALF};
		break;
	case CREDITS:
		config.link.cycle = value >> 8 & HALF;
		config.link.margin = value & 255;
		break;
	case ERRORS:
		write_errors(c, value);
		return true;
	case PATIENCE:
		c->config.patience_ns = (uint64_t)value * NS_IN_MS;
		return true;
	case GIVE_UP:
		if (!value)
			return false;
		c->config.times.give_up_ns = (uint64_t)value * NS_IN_MS;
		return true;
	default:
		return false;
	}
	if (!weft_ape_node_config_holds(&config))
		return false;
	c->node.config = config;
	c->node.calm = 0;
	return true;
}
