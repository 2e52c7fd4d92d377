/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What was carried out, and the requester has yet to hear of. */
#include "contract.h"

const struct contract_case contract_answers[] = {
	{"far hears first", "recv keep send 101:ok none tell 1:ok"},
	{"what is done is done", "keep write near-error 1:flush far=nnnn"},
	{"far goes behind it", "keep write far-destroy none tell 1:ok far=nnnn"},
	{"far is in error behind it", "keep add far-error none tell 1:ok old1=0"},
	{"the key ends behind it", "keep write far-revoke none tell 1:ok"},
	{"own key ends before the answer", "keep add near-revoke tell 1:prot sum=1"},
	{"the answer finds memory moved", "keep add moves tell 1:ok old1=0 sum=1"},
	{"nobody asks for it any more", "keep add near-reset tell none old1=7 sum=1"},
	{"nor ever will", "keep add near-destroy tell none old1=7 sum=1"},
	/* answers that are lost */
	{"of a WRITE", "keep write lose none tell 1:ok far=nnnn"},
	{"of a SEND: it is received once", "recv recv keep send lose 101:ok far-none tell 1:ok"},
	{"of a READ: it reads again", "keep read lose none tell 1:ok near=ffff"},
	{"of an addition: it adds once", "keep add lose lose sum=1 tell 1:ok old1=0 sum=1"},
	{"of an exchange: it says what it found first", "keep swap lose tell 1:ok old1=0 sum=100"},
	{"of several",
	 "keep read add read add lose none lose tell 1:ok 2:ok 3:ok 4:ok old2=0 old4=1 sum=2"},
	{"of some", "keep add add read answer1 1:ok lose none tell 2:ok 3:ok old2=1 sum=2"},
	{"of a READ whose key has ended since", "keep read far-revoke lose 1:access"},
	/* verdicts that the transport makes */
	{"no receive, behind one untold", "keep write send time none tell 1:ok 2:rnr"},
	{"no answer, behind one untold", "keep write far-error write time none tell 1:ok 2:retry"},
	{"no receive, others behind", "recv send send write time 1:ok 2:rnr 3:flush 101:ok"},
	{"no receive, others untold behind",
	 "@rnr7 keep write send add sum=0 time none recv 101:ok none sum=1 tell 1:ok 2:ok 3:ok"},
	{"refused, behind one untold",
	 "recv keep write tiny send send time none tell 1:ok 2:ok 3:request 101:ok 102:len"},
	{"nothing begins behind a refusal",
	 "tiny keep write send add sum=0 none tell 1:ok 2:request 3:flush sum=0 101:len"},
	{"nor behind an own fault",
	 "keep write near-revoke write add sum=0 none tell 1:ok 2:prot 3:flush sum=0"},
	{NULL, NULL},
};
