# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# The two commands of a newcomer are `make demo` and `make check`. Everything else is meson's.
BUILD ?= build

all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@meson setup $(BUILD)

.PHONY: all
