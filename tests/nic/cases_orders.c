/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* In which order requests begin, end and complete. */
#include "contract.h"

const struct contract_case contract_orders[] = {
	{"three", "write write write 1:ok 2:ok 3:ok none"},
	{"once", "write 1:ok none time none"},
	{"of all kinds",
	 "recv recv send write add read imm 1:ok 2:ok 3:ok 4:ok 5:ok 101:ok 102:ok"},
	{"a READ sees the WRITE before it", "write read 1:ok 2:ok near=nnnn"},
	{"additions", "add add add 1:ok 2:ok 3:ok old1=0 old2=1 old3=2 sum=3"},
	{"fences", "add! swap! add! 1:ok 2:ok 3:ok old3=1 sum=2"},
	{"one that waits holds up those behind",
	 "@rnr7 send write none far=ffff recv 1:ok 2:ok 101:ok"},
	{"a local one waits for one that waits", "@rnr7 send local none recv 1:ok 2:qpop 101:ok"},
	{"as many as the queue holds",
	 "write write write write write write write write 1:ok 2:ok 3:ok 4:ok 5:ok 6:ok 7:ok 8:ok"},
	/* of those that are under way */
	{"under way", "hold write none far=ffff go 1:ok far=nnnn"},
	{"more than may be under way", "hold write write write write write add none sum=0 go 1:ok "
				       "2:ok 3:ok 4:ok 5:ok 6:ok sum=1"},
	{"unsignaled, under way", "hold write- write go 2:ok none"},
	{"one of seconds, others behind it",
	 "@patient hold read add add none time time time none go 1:ok 2:ok 3:ok near=ffff sum=2"},
	{"time is none of those under way",
	 "@rnr7 hold send time time time none go none recv 1:ok 101:ok"},
	{"an error waits for those before it",
	 "hold write far-revoke write none go 1:access 2:flush"},
	{"a local operation waits for all", "hold write local none go 1:ok 2:qpop"},
	/* of those that have been carried out */
	{"the answer of the second comes first",
	 "keep write write far=nnnn answer2 none answer1 1:ok 2:ok"},
	{"of the third, the second, the first",
	 "keep add add add sum=3 answer3 none answer2 none answer1 1:ok 2:ok 3:ok old3=2"},
	{"a fence waits for an atomic", "keep add write! far=ffff none tell 1:ok 2:ok far=nnnn"},
	{"without it nothing waits", "keep add write far=nnnn none tell 1:ok 2:ok"},
	{"a fence waits for a READ", "keep read add! sum=0 none tell 1:ok 2:ok sum=1"},
	{"a fence does not wait for a WRITE", "keep write add! sum=1 none tell 1:ok 2:ok"},
	{"what is behind a fence waits, too",
	 "keep add write0! add sum=1 none tell 1:ok 2:ok 3:ok sum=2"},
	{"a local one waits for the answer", "keep write local none tell 1:ok 2:qpop"},
	{"an error waits for an answer", "keep write far-revoke read none tell 1:ok 2:access"},
	{"and what is behind it is flushed then",
	 "keep write far-revoke read write none tell 1:ok 2:access 3:flush"},
	{"no more begin than may be under way",
	 "keep add add add add add sum=4 answer1 1:ok sum=5 tell 2:ok 3:ok 4:ok 5:ok"},
	{NULL, NULL},
};
