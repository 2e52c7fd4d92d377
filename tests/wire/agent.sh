#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
# In the guest: runs what is left as NAME.todo in $JOB, all at once, until there is a file `stop`; NAME.out is
# what it says, and NAME.rc its status.
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
