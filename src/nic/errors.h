/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The numbers of errors that nic, transports and engines return, negated: those of Linux, for code that is
 * freestanding. <errno.h> may be included beside this, in either order. */
#ifndef WEFT_NIC_ERRORS_H
#define WEFT_NIC_ERRORS_H

#ifndef ENOENT
#define ENOENT	    2
#define ESRCH	    3
#define ENXIO	    6
#define EAGAIN	    11
#define ENOMEM	    12
#define EACCES	    13
#define EFAULT	    14
#define EBUSY	    16
#define EINVAL	    22
#define EPROTO	    71
#define ETIMEDOUT   110
#define EALREADY    114
#define EINPROGRESS 115
#define ESTALE	    116
#endif

#endif
