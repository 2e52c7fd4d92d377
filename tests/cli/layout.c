/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Prints where things lie in a pool's file, for tests that damage one. */
#include <stddef.h>
#include <stdio.h>

#include "pool/format.h"
#include "pool/format_home.h"
#include "pool/format_member.h"
#include "pool/format_qp.h"
#include "pool/format_region.h"

#define HEADER(field) #field, offsetof(struct weft_pool_header, field)
#define MEMBER(field) "member." #field, offsetof(struct weft_pool_member, field)
#define QP(field)     "qp." #field, offsetof(struct weft_pool_qp, field)
#define MR(field)     "mr." #field, offsetof(struct weft_pool_mr, field)

static const struct {
	const char *name;
	size_t value;
} table[] = {
	{HEADER(version)},
	{HEADER(signature)},
	{HEADER(file_bytes)},
	{HEADER(members_end)},
	{"leases", WEFT_OFF_LEASES},
	{"leases_bytes", sizeof(struct weft_pool_leases)},
	{"members", WEFT_OFF_MEMBERS},
	{"qps", WEFT_OFF_QPS},
	{"qp_bytes", sizeof(struct weft_pool_qp)},
	{"qp_index_bits", WEFT_QP_INDEX_BITS},
	{"mrs", WEFT_OFF_MRS},
	{"key_bits", WEFT_KEY_BITS},
	{"mr_bytes", sizeof(struct weft_pool_mr)},
	{MEMBER(comm)},
	{MEMBER(lines)},
	{MEMBER(ngids)},
	{"home", WEFT_OFF_HOME},
	{"departed", WEFT_OFF_HOME + offsetof(struct weft_pool_home, departed)},
	{"near", WEFT_OFF_NEAR},
	{QP(qpn)},
	{QP(rq_start)},
	{MR(key)},
	{MR(len_bytes)},
	{MR(va)},
	{MR(off)},
	{MR(lo)},
	{MR(hi)},
};

int main(void)
{
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		printf("%s %zu\n", table[i].name, table[i].value);
	return 0;
}
