/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "stream/pace.h"

#include <stdlib.h>
#include <string.h>

#include "link/frame.h"

static const struct {
	const char *name;
	struct weft_pace pace;
} wires[] = {
	{"1gbe", {1, false}},
	{"10gbe", {10, false}},
	{"apelink", {27.2, true}}, /* 34 Gb/s, of which 8b10b leaves 0.8 */
	{"free", {0, false}},
};

bool weft_pace_named(const char *name, struct weft_pace *pace)
{
	unsigned long times = 1;
	char *end;

	if (*name >= '1' && *name <= '9') {
		times = strtoul(name, &end, 10);
		if (*end == 'x' && times <= 1000)
			name = end + 1;
		else
			times = 1;
	}
	for (size_t i = 0; i < sizeof(wires) / sizeof(*wires); i++)
		if (!strcmp(name, wires[i].name)) {
			*pace = wires[i].pace;
			pace->bits_per_ns *= (double)times;
			return true;
		}
	return false;
}

double weft_pace_ns(const struct weft_pace *pace, uint32_t payload_bytes)
{
	if (pace->bits_per_ns == 0)
		return 0;
	uint64_t bits = pace->words ? 128 * ((payload_bytes + 15) / 16 + 4ull)
				    : weft_frame_wire_bits(payload_bytes);

	return (double)bits / pace->bits_per_ns;
}
