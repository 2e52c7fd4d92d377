/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The hosts of a pool, as a section of a report. Context: as report.h. */
#ifndef WEFT_CLI_HOST_H
#define WEFT_CLI_HOST_H

#include "pool/view_host.h"

struct weft_report;

void weft_host_report(struct weft_report *r, const struct weft_view_host *host, uint32_t hosts);

#endif
