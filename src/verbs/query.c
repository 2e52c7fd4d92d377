/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Queries of the device, its port and its partition keys. Structures grew over the releases: the
 * caller's length counts.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "nic/qp.h"
#include "pool/clock.h"
#include "verbs/attr.h"
#include "verbs/explain.h"
#include "verbs/verbs.h"

static void give_attr(void *to, size_t to_len, const void *from, size_t from_len)
{
	size_t len = to_len < from_len ? to_len : from_len;

	memcpy(to, from, len);
	memset((char *)to + len, 0, to_len - len);
}

static bool bad_port(const char *verb, const struct ibv_context *context, uint32_t port_num)
{
	if (weft_explain_closed(verb, context))
		return true;
	if (port_num != WEFT_PORT)
		weft_broken(verb, RANGE, weft_value("port_num"), port_num, WEFT_PORT, WEFT_PORT);
	return port_num != WEFT_PORT;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *device_attr)
{
	if (weft_explain_closed("ibv_query_device", context))
		return EINVAL;
	if (!device_attr)
		return weft_broken("ibv_query_device", MISSING, weft_value("device_attr"));
	weft_attr_device(device_attr);
	return 0;
}

int weft_verbs_query_device_ex(struct ibv_context *context,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr, size_t attr_size)
{
	const uint32_t ud = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	const uint32_t uc = ud | IBV_ODP_SUPPORT_WRITE;
	const uint32_t rc = uc | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
	struct ibv_device_attr_ex all = {
		.odp_caps = {IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT, {rc, uc, ud}},
		.max_dm_size = WEFT_MAX_DM,
		.completion_timestamp_mask = UINT64_MAX,
		.hca_core_clock = 1000000, /* kHz: it counts ns */
		.phys_port_cnt_ex = WEFT_PORT};

	if (weft_explain_closed("ibv_query_device_ex", context))
		return EINVAL;
	if (!attr || attr_size < sizeof(all.orig_attr))
		return weft_broken("ibv_query_device_ex", MISSING, weft_value("attr"),
				   weft_value(attr));
	if (input && input->comp_mask)
		return weft_broken("ibv_query_device_ex", UNKNOWN_BITS, weft_value("comp_mask"),
				   input->comp_mask);
	weft_attr_device(&all.orig_attr);
	all.device_cap_flags_ex = all.orig_attr.device_cap_flags;
	give_attr(attr, attr_size, &all, sizeof(all));
	return 0;
}

/* The clock of completion timestamps (cq_ex.c). */
int weft_verbs_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint64_t now_ns = weft_clock_now_ns();

	if (weft_explain_closed("ibv_query_rt_values_ex", context))
		return EINVAL;
	if (!values)
		return weft_broken("ibv_query_rt_values_ex", MISSING, weft_value("values"));
	if (values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return weft_broken("ibv_query_rt_values_ex", UNKNOWN_BITS, weft_value("comp_mask"),
				   values->comp_mask);
	values->raw_clock.tv_sec = (time_t)(now_ns / 1000000000);
	values->raw_clock.tv_nsec = (long)(now_ns % 1000000000);
	return 0;
}

int weft_verbs_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *attr,
			  size_t attr_len)
{
	struct ibv_port_attr all;

	if (bad_port("ibv_query_port", context, port_num))
		return EINVAL;
	if (!attr)
		return weft_broken("ibv_query_port", MISSING, weft_value("port_attr"));
	weft_attr_port(&all);
	give_attr(attr, attr_len, &all, sizeof(all));
	return 0;
}

/* Programs older than port_cap_flags2 gave no length, and their struct ended before it. */
int ibv_query_port(struct ibv_context *context, uint8_t port_num,
		   struct _compat_ibv_port_attr *port_attr)
{
	return weft_verbs_query_port(context, port_num, (struct ibv_port_attr *)port_attr,
				     offsetof(struct ibv_port_attr, port_cap_flags2));
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
	if (bad_port("ibv_query_pkey", context, port_num))
		errno = EINVAL;
	else if (index < 0 || index >= WEFT_PKEYS)
		errno = weft_broken("ibv_query_pkey", RANGE, weft_value("index"), (uint64_t)index,
				    0, WEFT_PKEYS - 1);
	else if (!pkey)
		errno = weft_broken("ibv_query_pkey", MISSING, weft_value("pkey"));
	else
		goto found;
	return -1;
found:
	*pkey = htobe16(WEFT_PKEY);
	return 0;
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
	if (bad_port("ibv_get_pkey_index", context, port_num)) {
		errno = EINVAL;
		return -1;
	}
	if (pkey == htobe16(WEFT_PKEY))
		return 0;
	errno = weft_broken("ibv_get_pkey_index", RANGE, weft_value("pkey"), be16toh(pkey),
			    WEFT_PKEY, WEFT_PKEY);
	return -1;
}
