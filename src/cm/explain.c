/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* $WEFT_EXPLAIN: calls that fail, and events that tell of errors, in a line each on standard error. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"

/* Before the device is open, libibverbs cannot be asked; the variable is read as it does. */
static bool is_wanted(void)
{
	const char *value;

	if (weft_cm.service)
		return weft_cm.service->explains();
	value = getenv("WEFT_EXPLAIN");
	return value && *value && strcmp(value, "0") != 0;
}

/* ---- Calls ---- */

/* What this thread's call has found wrong, until it returns. */
static _Thread_local struct {
	int err;
	char words[WEFT_CM_WHY_BYTES];
} found;

char *weft_cm_explain_why(int err)
{
	found.err = err;
	return found.words;
}

int weft_cm_wrong_state(const struct weft_cm_id *id, const char *wanted)
{
	static const char *const names[] = {
		[WEFT_ID_IDLE] = "new",
		[WEFT_ID_BOUND] = "bound",
		[WEFT_ID_ADDR_RESOLVED] = "address resolved",
		[WEFT_ID_ROUTE_RESOLVED] = "route resolved",
		[WEFT_ID_LISTENING] = "listening",
		[WEFT_ID_CONNECTED] = "connecting or connected",
	};

	return weft_cm_broken(-EINVAL, "the identifier's state is %s: it must be %s",
			      names[id->state], wanted);
}

const char *weft_cm_addr_str(const uint8_t addr[16], char text[WEFT_CM_ADDR_TEXT])
{
	return inet_ntop(AF_INET6, addr, text, WEFT_CM_ADDR_TEXT);
}

int weft_cm_explain_result(const char *call, int err)
{
	if (err && is_wanted())
		fprintf(stderr, "weft: %s: errno %d: %s; %s(3)\n", call, -err,
			found.err == err ? found.words : strerror(-err), call);
	found.err = 0;
	if (!err)
		return 0;
	errno = -err;
	return -1;
}

/* ---- Events ---- */

/* 12.6.7.2 */
static const char *name_of_reason(int reason)
{
	switch ((enum weft_rej_reason)reason) {
	case WEFT_REJ_NO_QP:
		return "the other side has no queue pair left";
	case WEFT_REJ_NO_RESOURCES:
		return "the other side has no room for more requests";
	case WEFT_REJ_TIMEOUT:
		return "the other side waited too long for an answer";
	case WEFT_REJ_UNSUPPORTED:
		return "the other side does not know such a request";
	case WEFT_REJ_INVALID_COMM_ID:
		return "the other side knows no such connection";
	case WEFT_REJ_INVALID_SERVICE_ID:
		return "no program listens there";
	case WEFT_REJ_INVALID_TRANSPORT:
		return "the listener is of another service";
	case WEFT_REJ_STALE:
		return "the other side has a connection with that queue pair already";
	case WEFT_REJ_CONSUMER:
		return "the program there called rdma_reject";
	case WEFT_REJ_VENDOR_OPTION:
		return "the program there called rdma_reject_ece";
	}
	return "another reason";
}

void weft_cm_explain_event(const struct rdma_cm_event *event)
{
	const char *name = rdma_event_str(event->event);

	if (!event->status || !is_wanted())
		return;
	if (event->event == RDMA_CM_EVENT_REJECTED && event->status > 0)
		fprintf(stderr, "weft: %s: reason %d: %s; IBTA 12.6.7.2\n", name, event->status,
			name_of_reason(event->status));
	else if (event->status > 0)
		fprintf(stderr, "weft: %s: status %d of the answer; IBTA 12.11.2\n", name,
			event->status);
	else
		fprintf(stderr, "weft: %s: errno %d: %s; rdma_get_cm_event(3)\n", name,
			-event->status,
			event->status == -ENOTUNIQ ? "several hosts of the pool have that address, "
						     "and a listener there"
						   : strerror(-event->status));
}
