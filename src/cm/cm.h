/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * librdmacm.so.1: what its files share. A function defined under its public name replaces its
 * generated stub, which answers ENOSYS (abi/README.md).
 */
#ifndef WEFT_CM_CM_H
#define WEFT_CM_CM_H

/* All is built hidden; what the reference implementation's header declares is what we export. */
#pragma GCC visibility push(default)
#include <rdma/rdma_cma.h>
#pragma GCC visibility pop

#endif
