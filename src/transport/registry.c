/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "transport/registry.h"
#include "transport/direct/direct.h"
#include "transport/handed/handed.h"
#include "transport/nowhere/nowhere.h"

const struct weft_transport *const weft_transports[] = {&weft_handed, &weft_handed_datagrams,
							&weft_direct, &weft_nowhere};
