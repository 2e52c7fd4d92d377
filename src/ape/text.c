/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include <string.h>

#include "ape/private.h"
#include "wire/ape/world.h"

_Static_assert(APE_OK == (int)WEFT_APE_OK && APE_BAD_LOCAL == (int)WEFT_APE_BAD_LOCAL &&
		       APE_LOCAL_FAULT == (int)WEFT_APE_LOCAL_FAULT &&
		       APE_NOT_READY == (int)WEFT_APE_NOT_READY &&
		       APE_RESTARTED == (int)WEFT_APE_STATUSES - 1,
	       "statuses as the engine has them");
_Static_assert(APE_SENT == (int)WEFT_APE_SENT && APE_RECEIVED == (int)WEFT_APE_RECEIVED,
	       "kinds of events as the engine has them");

const char *ape_strerror(int error)
{
	return error < 0 ? strerror(-error) : "done";
}

const char *ape_status_str(enum ape_status status)
{
	return (unsigned int)status < WEFT_APE_STATUSES
		       ? weft_ape_status_str((enum weft_ape_status)status)
		       : "no such status";
}
