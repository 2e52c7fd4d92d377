#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# In the guest: runs each script that is left as NAME.todo in $JOB, without waiting for the one before, until there is a file
# `stop`; NAME.out is its output, and NAME.rc its status.
while [ ! -e "$JOB/stop" ]; do
	for found in "$JOB"/*.todo; do
		[ -e "$found" ] || continue
		name=${found%.todo}
		mv "$found" "$name.sh"
		(
			sh "$name.sh" >"$name.out" 2>&1
			echo $? >"$name.tmp"
			mv "$name.tmp" "$name.rc"
		) &
	done
	sleep 0.05
done
