/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The rules that a verb which fails was called against: each with its errno, the clause of InfiniBand
 * volume 1 (or the manual page, of what that does not know), and the words: values stand for %u (an
 * int of the program, maybe below 0), %l (a length), %x, %s in their order.
 */
#ifndef WEFT_VERBS_RULES_H
#define WEFT_VERBS_RULES_H

#define WEFT_RULES(X)                                                                              \
	/* of all objects */                                                                       \
	X(HANDLE, EINVAL, "11.6.1", "%x is no %s of this process, or it has been destroyed")       \
	X(CONTEXT, EINVAL, "11.6.1", "%x is no open context of a device")                          \
	X(OTHER_CONTEXT, EINVAL, "11.6.1", "%s %x is of another context")                          \
	X(MISSING, EINVAL, "11.6.1", "%s is %x: it must be given")                                 \
	X(UNKNOWN_BITS, EINVAL, "11.6.1", "%s is %x: it has bits that are not known here")         \
	X(NOT_OFFERED, EOPNOTSUPP, "11.6.1", "%s is %x, which this device does not offer")         \
	X(RANGE, EINVAL, "11.6.1", "%s is %u: it must be from %u to %u")                           \
	X(CQE_HELD, EINVAL, "10.2.6", "cqe is %u: it must be from as many as are held to %u")      \
	X(IN_USE, EBUSY, "11.6.1", "users left: %u; the %s must have none")                        \
	X(IN_USE_ELSEWHERE, EBUSY, "11.6.1", "other processes still use protection domain %x")     \
	X(DOMAIN_ENDED, EINVAL, "ibv_import_pd(3)",                                                \
	  "protection domain %x has ended: the process that made it has deallocated it, or is "    \
	  "gone")                                                                                  \
	X(RESOURCES, ENOMEM, "11.6.1", "memory, or room in the pool, is out (%s)")                 \
	X(THREAD, EAGAIN, "setrlimit(2)",                                                          \
	  "no thread can be started: the user's processes and threads are %l (RLIMIT_NPROC), or "  \
	  "as many as pids.max of a cgroup allows")                                                \
	X(SYSTEM, EINVAL, "11.6.1", "the system says: %s")                                         \
	/* queue pairs */                                                                          \
	X(SERVICE, EOPNOTSUPP, "11.2.5.1",                                                         \
	  "qp_type %u: this verb makes no queue pair of that service")                             \
	X(NO_SERVICE, EINVAL, "11.2.5.1", "qp_type %u is no service")                              \
	X(QP_CAP, EINVAL, "11.2.5.1",                                                              \
	  "max_send_wr %u, max_recv_wr %u (up to 32768), max_send_sge %u, max_recv_sge %u (up to " \
	  "32), "                                                                                  \
	  "max_inline_data %u (up to 1024)")                                                       \
	X(QP_GROUPS, EBUSY, "10.5", "QP %x still belongs to multicast groups: %u")                 \
	X(TRANSITION, EINVAL, "10.3.1", "QP %x cannot go from %s to %s")                           \
	X(CURRENT, EINVAL, "11.2.5.2", "QP %x is in %s, and not in cur_qp_state %s")               \
	X(ATTR_NEEDED, EINVAL, "11.2.5.2", "QP %x from %s to %s: attr_mask %x lacks%s")            \
	X(ATTR_EXTRA, EINVAL, "11.2.5.2", "QP %x from %s to %s: attr_mask %x may not have%s")      \
	X(ATTR_VALUE, EINVAL, "11.2.5.2", "QP %x: %s is %u: it must be from %u to %u")             \
	X(MIGRATION, EOPNOTSUPP, "17.2.8",                                                         \
	  "QP %x: path_mig_state is %u: paths do not migrate here")                                \
	X(ADDRESS, EINVAL, "A17.4.1",                                                              \
	  "on Ethernet an address is a GID: is_global is %u, sgid_index %u of %u, port %u")        \
	X(WIRE_MTU, EINVAL, "A17.3.3",                                                             \
	  "QP %x: path_mtu is %u: packets of more than %u bytes do not fit through the interface " \
	  "of its GID")                                                                            \
	X(WIRE_V1, EINVAL, "A17.4.4",                                                              \
	  "QP %x: sgid_index %u is of RoCE v1, which no card here sends: index %u is of v2")       \
	X(WIRE_V1_ADDRESS, EINVAL, "A17.4.4",                                                      \
	  "sgid_index %u is of RoCE v1, which no card here sends: index %u is of v2")              \
	X(WIRE_SOURCE, EINVAL, "A17.4.1",                                                          \
	  "QP %x: sgid_index %u is no address of an interface, from which alone a card sends: "    \
	  "index %u is one")                                                                       \
	X(WIRE_SOURCE_ADDRESS, EINVAL, "A17.4.1",                                                  \
	  "sgid_index %u is no address of an interface, from which alone a card sends: index %u "  \
	  "is one")                                                                                \
	X(WIRE_XRC, EOPNOTSUPP, "A14",                                                             \
	  "QP %x: its peer is on another host, where no card brings XRC")                          \
	/* work requests */                                                                        \
	X(SEND_STATE, EINVAL, "10.3.1", "QP %x is in %s: requests are taken from RTS on")          \
	X(RECEIVE_STATE, EINVAL, "10.3.1", "QP %x is in %s: receives are taken from INIT on")      \
	X(OPERATION, EINVAL, "9.2.1", "QP %x: its service has no operation with opcode %u")        \
	X(SEND_LIST, EINVAL, "11.4.1.1", "QP %x: num_sge is %u: it must be from 0 to %u")          \
	X(SEND_FULL, ENOMEM, "11.4.1.1", "QP %x: outstanding requests: %u, as many as it holds")   \
	X(INLINE, ENOMEM, "11.4.1.1", "QP %x: inline bytes of the list are more than its %u")      \
	X(NOT_INLINE, EINVAL, "11.4.1.1", "QP %x: opcode %u brings no bytes, to be given inline")  \
	X(INLINE_DEVICE, EINVAL, "11.4.1.1",                                                       \
	  "QP %x: [%x, +%l) is memory of a GPU: what is given inline is read by the CPU, which "   \
	  "cannot")                                                                                \
	X(NO_ADDRESS, EINVAL, "11.4.1.1", "QP %x: a datagram needs an address handle, not %x")     \
	X(NO_REQUEST, EINVAL, "11.4.1.1",                                                          \
	  "QP %x: no request has been begun to which that belongs")                                \
	X(RECEIVE_LIST, EINVAL, "11.4.1.2", "num_sge is %u: it must be from 0 to %u")              \
	X(RECEIVE_FULL, ENOMEM, "11.4.1.2",                                                        \
	  "outstanding receives: %u, as many as the queue holds")                                  \
	X(SRQ_HELD, EINVAL, "10.2.9",                                                              \
	  "max_wr is %u, which is less than the receives that are posted")                         \
	X(HAS_SHARED, EINVAL, "10.2.9", "QP %x receives from a shared queue: post there")          \
	/* memory */                                                                               \
	X(ACCESS_BITS, EINVAL, "11.2.8.2", "access %x has bits that are not known here")           \
	X(ACCESS_FLUSH, EINVAL, "ibv_reg_mr(3)", "access %x: no peer can flush memory here")       \
	X(ACCESS_LOCAL, EINVAL, "11.2.8.2",                                                        \
	  "access %x: remote write and atomic need IBV_ACCESS_LOCAL_WRITE")                        \
	X(MEMORY_RANGE, EINVAL, "11.2.8.2", "%s: [%x, +%l) is no range of memory")                 \
	X(MEMORY_PAGES, EINVAL, "11.2.8.2",                                                        \
	  "address %x and iova %x lie differently in their pages")                                 \
	X(MEMORY, EFAULT, "11.2.8.2", "[%x, +%l) is not all mapped, or may not be written")        \
	X(MEMORY_PLUGIN, EFAULT, "11.2.8.2",                                                       \
	  "[%x, +%l) is no memory of the host, and nothing here reaches that of GPUs: %s")         \
	X(REREG, EINVAL, "11.2.8", "flags %x with address %x, access %x: they do not go together") \
	X(REREG_KIND, EINVAL, "11.2.8", "key %x is of no region that can change")                  \
	X(WINDOW_BOUND, EBUSY, "10.6.7.2", "a memory window still shows the region of key %x")     \
	X(WINDOW_TYPE, EINVAL, "10.6.7.2", "window type %u is not the one for this")               \
	X(WINDOW_KEY, EINVAL, "10.6.7.2.3",                                                        \
	  "key %x: of that of the window, %x, only the low byte may change")                       \
	X(WINDOW_REGION, EINVAL, "10.6.7.2", "[%x, +%l) cannot be shown without a region")         \
	X(WINDOW_ZERO, EINVAL, "10.6.7.2", "access %x: a window of type 1 is not zero-based")      \
	X(WINDOW_DOMAIN, EPERM, "10.6.7.2",                                                        \
	  "window %x and region %x are of two protection domains")                                 \
	X(ADVICE_KEY, ENOENT, "ibv_advise_mr(3)", "no region has lkey %x")                         \
	X(ADVICE_RIGHT, EPERM, "ibv_advise_mr(3)",                                                 \
	  "lkey %x is of another domain, or gives no local write")                                 \
	X(ADVICE_RANGE, EFAULT, "ibv_advise_mr(3)", "[%x, +%l) is not in the region of lkey %x")   \
	X(DM_RANGE, EINVAL, "ibv_alloc_dm(3)",                                                     \
	  "[%x, +%l) is not in %l bytes of device memory, in words of 4")                          \
	X(DM_ADDRESS, EINVAL, "ibv_alloc_dm(3)",                                                   \
	  "access %x: device memory needs IBV_ACCESS_ZERO_BASED")                                  \
	X(BUFFER_DOMAIN, EINVAL, "ibv_alloc_buf(3)",                                               \
	  "protection domain %x: the buffer is of that at %x")                                     \
	X(BUFFER_PLAIN, ENODATA, "ibv_alloc_buf(3)",                                               \
	  "the buffer at %x is plain memory: it has no descriptor")                                \
	X(REGION_FIELDS, EINVAL, "ibv_reg_mr(3)",                                                  \
	  "comp_mask is %x: either addr or fd must be given, and what goes with it")               \
	X(BUFFER_RANGE, EINVAL, "ibv_reg_mr(3)", "[%x, +%l) is not in the buffer [%x, +%l)")       \
	X(DMABUF_RANGE, EINVAL, "ibv_reg_mr(3)",                                                   \
	  "[%x, +%l) is not in the %l bytes of the descriptor")                                    \
	X(DMABUF_NONE, EOPNOTSUPP, "ibv_reg_mr(3)",                                                \
	  "fd %u: memory of GPUs cannot be registered here")                                       \
	X(DMABUF_FD, EBADF, "ibv_reg_mr(3)", "fd %u is no descriptor")                             \
	X(DMABUF_IOVA, EINVAL, "ibv_reg_mr(3)",                                                    \
	  "[%x, +%l) is not all in one memory of a GPU, whose descriptor %u is")                   \
	X(DMABUF_KIND, EOPNOTSUPP, "ibv_reg_mr(3)",                                                \
	  "descriptor %u: its memory cannot be mapped, as a GPU's cannot (mmap answers %u)")       \
	X(DM_FAR, EOPNOTSUPP, "ibv_import_dm(3)",                                                  \
	  "device memory %x is another process's, which alone can register it")                    \
	X(DM_ENDED, EINVAL, "ibv_import_dm(3)",                                                    \
	  "device memory %x has ended: the process that made it has freed it, or is gone")         \
	X(NO_DOMAIN, ENOENT, "ibv_import_pd(3)",                                                   \
	  "handle %x is of no protection domain of that context")                                  \
	X(NO_REGION, ENOENT, "ibv_import_mr(3)",                                                   \
	  "handle %x is of no region of that protection domain")                                   \
	X(NO_DM, ENOENT, "ibv_import_dm(3)", "handle %x is of no device memory of that context")   \
	X(DESCRIPTOR, EBADF, "ibv_import_device(3)", "%u is no open descriptor")                   \
	X(EXPORT, EINVAL, "ibv_import_device(3)", "descriptor %u is of no open context")           \
	X(FOREIGN, EINVAL, "ibv_import_device(3)",                                                 \
	  "descriptor %u is of a context in another pool")                                         \
	X(GONE, ENODEV, "ibv_import_device(3)",                                                    \
	  "the process that has opened descriptor %u is gone")                                     \
	/* addresses, groups, domains */                                                           \
	X(GROUP, EINVAL, "10.5", "QP %x cannot belong to the group whose GID begins with byte %x") \
	X(NO_MEMBER, EINVAL, "10.5", "QP %x does not belong to that group")                        \
	X(GID_UNUSED, ENODATA, "11.6.1", "entry %u of the table of GIDs is empty")                 \
	X(HEADER, EPROTONOSUPPORT, "11.2.2", "the completion's header is of no address of ours")   \
	X(HEADER_ADDRESS, EINVAL, "11.2.2", "the datagram came to no address of this device")      \
	X(XRCD, EINVAL, "A14", "comp_mask %x, oflags %x, fd %u: they make no XRC domain")          \
	X(XRCD_FILE, EBADF, "A14", "%u is no open descriptor")                                     \
	X(XRCD_EXISTS, EEXIST, "A14", "descriptor %u has an XRC domain already")                   \
	X(OPEN_NUMBER, EINVAL, "A14",                                                              \
	  "%x is the number of no receiving queue pair of that XRC domain")                        \
	X(QP_MAKER, EIO, "A14", "the process that has made QP %x does not answer")                 \
	X(QP_FAR, EINVAL, "A14", "the process that has made QP %x refuses it: %s")                 \
	X(NOT_XRC, EINVAL, "A14", "a shared receive queue of XRC alone has a number")

#endif
