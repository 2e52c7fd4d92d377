/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Which transport carries a request: of connections by their address, of datagrams by their
 * handle's. */
#include "nic/transport.h"
#include "nic/datagram.h"
#include "nic/errors.h"
#include "nic/gather.h"
#include "nic/nic.h"
#include "pool/address.h"

const struct weft_transport *weft_transport_for(struct weft_nic *nic, enum weft_qp_type type,
						const uint8_t sgid[16], const uint8_t dgid[16])
{
	const struct weft_transport *const *at = nic->transports;

	while (!(*at)->carries[type].issue || !(*at)->reaches(nic, sgid, dgid))
		at++;
	return *at;
}

/* ---- Address handles ---- */

static bool brings_there(struct weft_nic *nic, const struct weft_transport *t,
			 const struct weft_ah *ah)
{
	return t->carries[WEFT_QPT_UD].issue && t->reaches(nic, ah->sgid, ah->dgid);
}

int weft_ah_find(struct weft_nic *nic, struct weft_ah *ah)
{
	const struct weft_transport *const *at = nic->transports, *t;
	bool group = weft_address_is_group(ah->dgid);

	ah->also = NULL;
	for (; !brings_there(nic, *at, ah) || (group && (*at)->part_of_groups); at++)
		if (group && (*at)->part_of_groups && brings_there(nic, *at, ah))
			ah->also = *at;
	t = *at;
	if (t->address_bytes) {
		ah->carried = weft_nic_alloc(nic, t->address_bytes);
		if (!ah->carried)
			return -ENOMEM;
	}
	/* release: pairs with the acquire in issue_by_handle */
	atomic_store_explicit(&ah->transport, t, memory_order_release);
	return 0;
}

void weft_ah_destroy(struct weft_nic *nic, struct weft_ah *ah)
{
	weft_nic_free(nic, ah->carried);
}

/* ---- Datagrams ---- */

static enum weft_outcome issue_by_handle(struct weft_qp *qp, struct weft_wqe *wqe,
					 struct weft_caller *caller, enum weft_cause *cause)
{
	const struct weft_transport *t, *also;
	enum weft_outcome outcome;

	*cause = weft_gather_check_datagram(qp, wqe);
	if (*cause)
		return WEFT_FAILED;
	/* acquire: pairs with the release in weft_ah_find */
	t = atomic_load_explicit(&wqe->ah->transport, memory_order_acquire);
	also = wqe->ah->also;
	if (also) {
		outcome = also->carries[WEFT_QPT_UD].issue(qp, wqe, caller, cause);
		if (outcome != WEFT_DONE)
			return outcome;
	}
	return t->carries[WEFT_QPT_UD].issue(qp, wqe, caller, cause);
}

static int connect_to_none(struct weft_qp *qp, uint16_t *executor)
{
	return 0;
}

static void leave_none(struct weft_qp *qp)
{
}

static bool is_blamed_datagram(struct weft_qp *qp, enum weft_event *event)
{
	*event = WEFT_EVENT_QP_FATAL;
	return weft_datagram_fault(qp->srq, qp->tag);
}

const struct weft_transport weft_by_address = {
	.name = "by address",
	.carries = {[WEFT_QPT_UD] = {.issue = issue_by_handle}},
	.silence = WEFT_CAUSE_NO_ANSWER,
	.connect = connect_to_none,
	.abort = leave_none,
	.is_blamed = is_blamed_datagram,
};
