/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Preloaded, it makes a program late: by a second before each address that it resolves for a connection. */
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

__attribute__((visibility("default"))) int
rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
	__typeof__(&rdma_resolve_addr) next =
		(__typeof__(next))dlsym(RTLD_NEXT, "rdma_resolve_addr");

	sleep(1);
	return next(id, src, dst, timeout_ms);
}
