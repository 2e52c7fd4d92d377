/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Requests of XRC, which name their shared receive queue. */
#include "contract.h"

const struct contract_case contract_xrc[] = {
	/* in one step */
	{"xrc: a WRITE", "@xrc write 1:ok peer=nnnn"},
	{"xrc: a READ", "@xrc read 1:ok near=pppp"},
	{"xrc: a SEND", "@xrc recv send 1:ok 101:ok peer=nnnn"},
	{"xrc: two SENDs", "@xrc recv recv send send 1:ok 2:ok 101:ok 102:ok"},
	{"xrc: an immediate", "@xrc recv imm 1:ok 101:ok peer=nnnn"},
	{"xrc: an addition", "@xrc add 1:ok old1=0 sum=1"},
	{"xrc: no receive", "@xrc send time 1:rnr"},
	{"xrc: a SEND waits for a receive", "@xrc @rnr7 send time none recv 1:ok 101:ok"},
	{"xrc: no room", "@xrc tiny send 1:request 101:len"},
	{"xrc: the key has ended", "@xrc peer-revoke write 1:access peer=pppp"},
	{"xrc: the receive's key has ended", "@xrc recv peer-revoke send 1:op 101:prot"},
	{"xrc: the queue is destroyed", "@xrc queue-destroy send 1:request"},
	{"xrc: the queue is destroyed, for a WRITE",
	 "@xrc write 1:ok queue-destroy write0 2:request"},
	{"xrc: the queue is destroyed, for an addition", "@xrc queue-destroy add 1:request old1=7"},
	{"xrc: peer in error", "@xrc peer-error write time 1:retry peer=pppp"},
	{"xrc: after a rehoming", "@xrc write rehomed recv send 1:ok 2:ok 101:ok"},
	{"xrc: the queue is being rehomed",
	 "@xrc @away recv queue-away send time none peer=pppp queue-back 1:ok 101:ok peer=nnnn"},
	/* in parts */
	{"xrc: WRITE in any order", "@xrc hold write part2 part3 part0 part1 end 1:ok peer=nnnn"},
	{"xrc: READ in order", "@xrc hold read part0 part1 part2 part3 end 1:ok near=pppp"},
	{"xrc: SEND in any order",
	 "@xrc recv hold send part3 part0 part2 part1 peer-none end 1:ok 101:ok peer=nnnn"},
	{"xrc: immediate in order",
	 "@xrc recv hold imm part0 part1 part2 part3 end 1:ok 101:ok peer=nnnn"},
	{"xrc: a key ends, WRITE", "@xrc hold write part0 peer-revoke part1 1:access peer=nppp"},
	{"xrc: a key ends, SEND",
	 "@xrc recv hold send part0 part1 peer-revoke part2 1:op 101:prot peer=nnpp"},
	{"xrc: own key ends", "@xrc recv hold send part0 near-revoke part1 1:prot peer-none"},
	{"xrc: peer in error",
	 "@xrc recv hold send part0 peer-error part1 time 1:retry peer-none peer=nppp"},
	{"xrc: peer is reset, WRITE: it begins anew",
	 "@xrc hold write part0 peer-reset part1 part0 part1 part2 part3 end 1:ok peer=nnnn"},
	{"xrc: peer is reset, SEND: it begins anew",
	 "@xrc recv hold send part0 peer-reset part1 helper part0 part1 part2 part3 end 1:ok "
	 "101:ok "
	 "peer=nnnn"},
	{"xrc: the queue is destroyed between parts",
	 "@xrc recv hold send part0 queue-destroy part1 1:request peer-none"},
	{"xrc: the queue is destroyed between parts, WRITE",
	 "@xrc hold write part0 queue-destroy part1 1:request peer=nppp"},
	{"xrc: memory is rehomed, WRITE",
	 "@xrc hold write part0 rehomed part1 part2 part3 end 1:ok peer=nnnn"},
	{"xrc: memory is rehomed, SEND",
	 "@xrc recv hold send part0 rehomed part1 helper part0 part1 "
	 "part2 part3 end 1:ok 101:ok peer=nnnn"},
	{"xrc: rehoming lasts over a part",
	 "@xrc recv hold send part0 peer-away part1 peer-back part1 "
	 "helper part0 part1 part2 part3 end 1:ok 101:ok peer=nnnn"},
	{"xrc: near in error",
	 "@xrc recv hold send part0 near-error 1:flush peer-none near-reset helper "
	 "send part0 part1 part2 part3 end 2:ok 101:ok"},
	{"xrc: near destroyed",
	 "@xrc recv hold send part0 near-destroy none peer-none go peer=nppp"},
	{"xrc: another receive is there when it begins anew",
	 "@xrc recv recv hold send part0 begun=1 rehomed part1 begun=2 part0 part2 part3 end 1:ok "
	 "helper 102:ok"},
	{"xrc: the queue's rehoming lasts over a part, WRITE",
	 "@xrc hold write part0 queue-away part1 none queue-back part1 part2 part3 end 1:ok "
	 "begun=1 peer=nnnn"},
	{"xrc: the queue's rehoming lasts over a part, SEND",
	 "@xrc recv hold send part0 queue-away part1 none queue-back part1 helper part0 part1 "
	 "part2 part3 end 1:ok begun=2 101:ok peer=nnnn"},
	{NULL, NULL},
};
