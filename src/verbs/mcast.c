/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Multicast groups: which queue pairs of this process listen, told in its member's page. */
#include <errno.h>
#include <string.h>

#include "nic/qp.h"
#include "pool/address.h"
#include "pool/format_member.h"
#include "pool/sizes.h"
#include "pool/slice.h"
#include "verbs/explain.h"
#include "verbs/handle.h"
#include "verbs/qp.h"
#include "process/card.h"
#include "process/process.h"
#include "verbs/verbs.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* guards our groups */

static struct weft_pool_group *find_group(uint32_t qpn, const uint8_t gid[16])
{
	struct weft_pool_member *self = weft_process.pool->self;

	for (uint32_t i = 0; i < WEFT_MEMBER_GROUPS; i++)
		if (self->group[i].qpn == qpn && (!gid || !memcmp(self->group[i].gid, gid, 16)))
			return &self->group[i];
	return NULL;
}

/* Cards of this network namespace join and leave what is listened to here. */
static void tell_cards(void)
{
	struct weft_pool *pool = weft_process.pool;
	const struct weft_pool_member *m;

	for (uint16_t i = 0; (i = weft_pool_next(pool, i)) < WEFT_MEMBERS; i++)
		if (weft_is_near(pool, i) && (m = weft_pool_member(pool, i)) &&
		    weft_card_is_ours(m))
			weft_pool_signal(pool, i, WEFT_SIGNAL_WORK);
}

static int listen_to_group(struct weft_verbs_qp *qp, const uint8_t gid[16])
{
	struct weft_pool_member *self = weft_process.pool->self;
	struct weft_pool_group *group;
	uint32_t used;

	/* attaching again is as attaching once (ibv_attach_mcast(3)) */
	if (find_group(qp->nic.qpn, gid))
		return 0;
	group = find_group(0, NULL);
	if (!group)
		return weft_explain_errno("ibv_attach_mcast", ENOMEM);
	/* release: pairs with the acquire fence in weft_group_read: a reader of the new group sees that the queue pair
	 * before has left the entry */
	atomic_thread_fence(memory_order_release);
	memcpy(group->gid, gid, 16);
	/* release: pairs with the acquire in weft_group_read */
	atomic_store_explicit(&group->qpn, qp->nic.qpn, memory_order_release);
	used = (uint32_t)(group - self->group) + 1;
	if (used > self->groups)
		atomic_store_explicit(&self->groups, used, memory_order_release);
	qp->groups++;
	tell_cards();
	return 0;
}

static int check_attach(const char *verb, struct ibv_qp *qp, const union ibv_gid *gid)
{
	if (weft_explain_stale(verb, qp, WEFT_HANDLE_QP))
		return EINVAL;
	if (!gid)
		return weft_broken(verb, MISSING, weft_value("gid"));
	if (qp->qp_type != IBV_QPT_UD || !weft_address_is_group(gid->raw))
		return weft_broken(verb, GROUP, qp->qp_num, gid->raw[0]);
	return 0;
}

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	int err = check_attach("ibv_attach_mcast", qp, gid);

	(void)lid; /* there are none on Ethernet */
	if (err)
		return err;
	pthread_mutex_lock(&mutex);
	err = listen_to_group(weft_qp(qp), gid->raw);
	pthread_mutex_unlock(&mutex);
	return err;
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	struct weft_pool_group *group;
	int err = check_attach("ibv_detach_mcast", qp, gid);

	(void)lid;
	if (err)
		return err;
	pthread_mutex_lock(&mutex);
	group = find_group(qp->qp_num, gid->raw);
	if (group) {
		atomic_store_explicit(&group->qpn, 0, memory_order_relaxed);
		weft_qp(qp)->groups--;
		tell_cards();
	}
	pthread_mutex_unlock(&mutex);
	return group ? 0 : weft_broken("ibv_detach_mcast", NO_MEMBER, qp->qp_num);
}

void weft_mcast_leave(struct weft_verbs_qp *qp)
{
	struct weft_pool_group *group;

	pthread_mutex_lock(&mutex);
	while (qp->groups && (group = find_group(qp->nic.qpn, NULL))) {
		atomic_store_explicit(&group->qpn, 0, memory_order_relaxed);
		qp->groups--;
	}
	pthread_mutex_unlock(&mutex);
}
