/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cli/cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/host.h"
#include "cli/report.h"
#include "nic/types.h"
#include "pool/counters.h"
#include "pool/view.h"
#include "pool/format_mailbox.h"
#include "pool/sizes.h"
#include "process/plugin.h"

const char weft_info_usage[] =
	"Usage: weft info [--pool PATH] [--json]\n"
	"Shows a pool: its members, their queue pairs and memory regions, and what was carried.\n\n"
	"  --pool PATH  the pool (default: $WEFT_POOL, else /dev/shm/weft-UID)\n"
	"  --json       one JSON object: pool, hosts where it has several, members, qps, regions, "
	"ports, totals\n\n"
	"It looks from outside and changes nothing. What a host alone has of its members (totals, "
	"and whether "
	"their helpers\n"
	"sleep) is shown of the hosts whose homes are here. 0; 1 there is no pool or it cannot be "
	"read.\n";

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
#define GIDS_TEXT     (WEFT_MEMBER_GIDS * INET6_ADDRSTRLEN + 1)

static const struct weft_column pool_columns[] = {
	{"path", WEFT_COLUMN_TEXT},
	{"version", WEFT_COLUMN_NUMBER},
	{"capabilities", WEFT_COLUMN_LIST},
	{"file_bytes", WEFT_COLUMN_NUMBER},
	{"allocated_bytes", WEFT_COLUMN_NUMBER},
	{"segments_leased", WEFT_COLUMN_NUMBER},
	{NULL},
};

static const struct weft_column member_columns[] = {
	{"host", WEFT_COLUMN_NUMBER, true},
	{"index", WEFT_COLUMN_NUMBER},
	{"pid", WEFT_COLUMN_NUMBER},
	{"comm", WEFT_COLUMN_TEXT},
	{"uid", WEFT_COLUMN_NUMBER},
	{"alive", WEFT_COLUMN_FLAG},
	{"incarnation", WEFT_COLUMN_NUMBER},
	{"threads", WEFT_COLUMN_NUMBER},
	{"engine_asleep", WEFT_COLUMN_FLAG},
	{"pid_ns", WEFT_COLUMN_NUMBER, true},
	{"net_ns", WEFT_COLUMN_NUMBER, true},
	{"gids", WEFT_COLUMN_LIST},
	{NULL},
};

static const struct weft_column qp_columns[] = {
	{"qpn", WEFT_COLUMN_HEX},
	{"member", WEFT_COLUMN_NUMBER},
	{"type", WEFT_COLUMN_TEXT},
	{"state", WEFT_COLUMN_TEXT},
	{"dest_qpn", WEFT_COLUMN_HEX},
	{"receives_posted", WEFT_COLUMN_NUMBER},
	{"receives_taken", WEFT_COLUMN_NUMBER},
	{NULL},
};

static const struct weft_column region_columns[] = {
	{"key", WEFT_COLUMN_HEX},     {"member", WEFT_COLUMN_NUMBER},
	{"address", WEFT_COLUMN_HEX}, {"length", WEFT_COLUMN_NUMBER},
	{"iova", WEFT_COLUMN_HEX},    {"access", WEFT_COLUMN_TEXT},
	{"kind", WEFT_COLUMN_TEXT},   {"pooled_bytes", WEFT_COLUMN_NUMBER},
	{"reach", WEFT_COLUMN_TEXT},  {NULL},
};

static const struct weft_column port_columns[] = {
	{"space", WEFT_COLUMN_TEXT},	 {"address", WEFT_COLUMN_TEXT},
	{"port", WEFT_COLUMN_NUMBER},	 {"member", WEFT_COLUMN_NUMBER},
	{"listening", WEFT_COLUMN_FLAG}, {NULL},
};

static const struct weft_column total_columns[] = {
	{"ops_write", WEFT_COLUMN_NUMBER},  {"bytes_write", WEFT_COLUMN_NUMBER},
	{"ops_read", WEFT_COLUMN_NUMBER},   {"bytes_read", WEFT_COLUMN_NUMBER},
	{"ops_send", WEFT_COLUMN_NUMBER},   {"bytes_send", WEFT_COLUMN_NUMBER},
	{"ops_atomic", WEFT_COLUMN_NUMBER}, {NULL},
};

static const char *name_of(const char *const names[], size_t n, unsigned int value)
{
	return value < n && names[value] ? names[value] : "?";
}

static void report_pool(struct weft_report *r, const struct weft_view *v)
{
	weft_report_section(r, "pool", true, pool_columns);
	weft_report_row(r);
	weft_report_text(r, v->path);
	weft_report_number(r, v->version);
	weft_report_text(r, v->atomics ? "atomics\ncoherent" : "coherent");
	weft_report_number(r, v->file_bytes);
	weft_report_number(r, v->allocated_bytes);
	weft_report_number(r, v->segments_leased);
}

static void list_gids(const struct weft_view_member *m, char text[GIDS_TEXT])
{
	char *at = text;

	*at = '\0';
	for (uint32_t i = 0; i < m->ngids; i++) {
		if (i)
			*at++ = '\n';
		inet_ntop(AF_INET6, m->gid[i], at, INET6_ADDRSTRLEN);
		at += strlen(at);
	}
}

static void report_members(struct weft_report *r, const struct weft_view *v)
{
	static struct weft_column columns[ARRAY_SIZE(member_columns)];
	char gids[GIDS_TEXT];

	memcpy(columns, member_columns, sizeof(columns));
	columns[0].hidden = !v->hosts;
	weft_report_section(r, "members", false, columns);
	for (unsigned int i = 0; i < v->nmembers; i++) {
		const struct weft_view_member *m = &v->member[i];

		if (!m->incarnation)
			continue;
		list_gids(m, gids);
		weft_report_row(r);
		weft_report_number(r, m->host);
		weft_report_number(r, m->index);
		weft_report_number(r, m->pid);
		weft_report_text(r, m->comm);
		weft_report_number(r, m->uid);
		weft_report_flag(r, m->alive);
		weft_report_number(r, m->incarnation);
		weft_report_number(r, m->threads);
		weft_report_flag(r, m->helper_asleep);
		weft_report_number(r, m->pid_ns);
		weft_report_number(r, m->net_ns);
		weft_report_text(r, gids);
	}
}

static void report_qps(struct weft_report *r, struct weft_view *v)
{
	static const char *const types[] = {[WEFT_QPT_RC] = "RC",
					    [WEFT_QPT_UC] = "UC",
					    [WEFT_QPT_UD] = "UD",
					    [WEFT_QPT_XRC_SEND] = "XRC-SEND",
					    [WEFT_QPT_XRC_RECV] = "XRC-RECV",
					    [WEFT_QPT_QUEUE] = "XRC-SRQ"};
	static const char *const states[] = {
		[WEFT_QPS_RESET] = "RESET", [WEFT_QPS_INIT] = "INIT", [WEFT_QPS_RTR] = "RTR",
		[WEFT_QPS_RTS] = "RTS",	    [WEFT_QPS_SQD] = "SQD",   [WEFT_QPS_SQE] = "SQE",
		[WEFT_QPS_ERR] = "ERR",
	};
	struct weft_view_cursor at = {0};
	struct weft_view_qp qp;

	weft_report_section(r, "qps", false, qp_columns);
	while (weft_view_qp(v, &at, &qp)) {
		weft_report_row(r);
		weft_report_number(r, qp.qpn);
		weft_report_number(r, qp.member);
		weft_report_text(r, name_of(types, ARRAY_SIZE(types), qp.type));
		weft_report_text(r, name_of(states, ARRAY_SIZE(states), qp.state));
		weft_report_number(r, qp.dest_qpn);
		weft_report_number(r, qp.posted);
		weft_report_number(r, qp.taken);
	}
}

static const char *region_kind(const struct weft_view_mr *mr)
{
	if (!mr->pooled_bytes)
		return "in-place";
	return mr->pooled_bytes == mr->len_bytes ? "pooled" : "mixed";
}

/* Memory of a device by its name, such as gpu0; *reach: how peers come to it. */
static const char *look_at_device(const struct weft_view *v, const struct weft_view_mr *mr,
				  struct weft_share *share, const char **reach)
{
	if (!mr->device_off || !weft_view_bytes(v, mr->device_off, share, sizeof(*share)))
		return NULL;
	share->name[sizeof(share->name) - 1] = '\0';
	*reach = share->kind ? "handle" : "owner";
	return share->name;
}

static const char *reach_of(const struct weft_view_mr *mr)
{
	if (!mr->pooled_bytes)
		return "process";
	return mr->pooled_bytes == mr->len_bytes ? "pool" : "pool and process";
}

/* Local write; remote write, read, atomic; window binding; zero based. */
static void list_access(uint8_t access, char text[16])
{
	static const char letters[] = "lwrabz";
	size_t n = 0;

	for (size_t i = 0; letters[i]; i++)
		if (access >> i & 1)
			text[n++] = letters[i];
	text[n] = '\0';
}

static void report_regions(struct weft_report *r, struct weft_view *v)
{
	struct weft_view_cursor at = {0};
	struct weft_view_mr mr;
	char access[16];

	weft_report_section(r, "regions", false, region_columns);
	while (weft_view_mr(v, &at, &mr)) {
		const char *reach = reach_of(&mr), *device;
		struct weft_share share;

		device = look_at_device(v, &mr, &share, &reach);
		list_access(mr.access, access);
		weft_report_row(r);
		weft_report_number(r, mr.key);
		weft_report_number(r, mr.member);
		weft_report_number(r, mr.va);
		weft_report_number(r, mr.len_bytes);
		weft_report_number(r, mr.iova);
		weft_report_text(r, access);
		weft_report_text(r, device ? device : region_kind(&mr));
		weft_report_number(r, mr.pooled_bytes);
		weft_report_text(r, reach);
	}
}

/* Numbers of enum rdma_port_space. */
static const char *space_of(unsigned int space)
{
	switch (space) {
	case 0x0002:
		return "IPoIB";
	case 0x0106:
		return "TCP";
	case 0x0111:
		return "UDP";
	case 0x013f:
		return "IB";
	default:
		return "?";
	}
}

static void report_ports(struct weft_report *r, struct weft_view *v)
{
	char address[INET6_ADDRSTRLEN];
	struct weft_view_cursor at = {0};
	struct weft_view_port p;

	weft_report_section(r, "ports", false, port_columns);
	while (weft_view_port(v, &at, &p)) {
		inet_ntop(AF_INET6, p.port.addr, address, sizeof(address));
		weft_report_row(r);
		weft_report_text(r, space_of(p.port.space));
		weft_report_text(r, address);
		weft_report_number(r, p.port.port);
		weft_report_number(r, p.member);
		weft_report_flag(r, p.port.flags & WEFT_PORT_LISTENS);
	}
}

static void report_totals(struct weft_report *r, const struct weft_counters *t)
{
	weft_report_section(r, "totals", true, total_columns);
	weft_report_row(r);
	weft_report_number(r, t->ops_write);
	weft_report_number(r, t->bytes_write);
	weft_report_number(r, t->ops_read);
	weft_report_number(r, t->bytes_read);
	weft_report_number(r, t->ops_send);
	weft_report_number(r, t->bytes_send);
	weft_report_number(r, t->ops_atomic);
}

static int show_pool(const char *path, bool json)
{
	char where[PATH_MAX];
	struct weft_report r;
	struct weft_view *v;
	const char *why;
	int err = weft_view_open(path, where, &v, &why);

	if (err) {
		/* some causes say all there is to say */
		bool told = err == -EPROTO || err == -ENOENT;

		fprintf(stderr, "weft info: %s: %s%s%s\n", where, why, told ? "" : ": ",
			told ? "" : strerror(-err));
		return 1;
	}
	weft_report_begin(&r, json);
	report_pool(&r, v);
	if (v->hosts)
		weft_host_report(&r, v->host, v->hosts);
	report_members(&r, v);
	report_qps(&r, v);
	report_regions(&r, v);
	report_ports(&r, v);
	report_totals(&r, &v->totals);
	weft_report_end(&r);
	if (v->unlocked)
		fprintf(stderr,
			"weft info: %s: somebody holds the pool's lock: the totals may "
			"count a member twice\n",
			where);
	if (v->damaged)
		fprintf(stderr,
			"weft info: %s: %u entries that make no sense were left out: the "
			"pool is damaged, see `weft doctor`\n",
			where, v->damaged);
	weft_view_close(v);
	return 0;
}

int weft_info_main(int argc, char **argv)
{
	const char *pool = NULL;
	bool json = false;

	for (int i = 1; i < argc; i++) {
		if (weft_main_pool_option(argc, argv, &i, &pool))
			continue;
		if (!strcmp(argv[i], "--json"))
			json = true;
		else
			return weft_main_usage_error(
				"info", "unknown option or nothing behind '%s'", argv[i]);
	}
	return show_pool(pool, json);
}
