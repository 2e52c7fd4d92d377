#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
"""Writes the table of what works into README.md, from the results that `make check` left in the
build folder: pytest*.xml and meson's testlog*.json. A row works if all its cases passed; it is
skipped if one was skipped, and fails if one failed.

--check compares instead: exits 1 if the page says otherwise, 77 if it differs only in what was
skipped, which depends on the machine. It also fails for cases of tests/interop in no row, and for
tests that tests/traps.tsv names and that were not run."""
import argparse
import json
import os
import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import readme

WORKS, SKIPPED, FAILS = 'works', 'skipped', 'fails'
SLOW = '`make slow`'  # what `make check` does not run
# The section whose rows say, too, what is found between two virtual machines: by patterns of tests of the lab.
BESIDE, KERNELS = 'Programs of Debian 12, between two processes', 'lab/programs::'

# What is shown, and the cases that show it: patterns for the start of `folder/file::case`, or of
# `program::case` for what meson runs, always without `test_`.
SECTIONS = {
    'Programs of Debian 12, between two processes': [
        ('`ibv_devices`, `ibv_devinfo -v`, `-l`; `ibv_asyncwatch`', r'interop/devices::'),
        ('`ibv_rc_pingpong`, 1 B to 1 MiB, polling; any GID; `-c`; `-r 1`',
         r'interop/pingpong::(sizes\[poll|gid_index|received.*poll|few_receives)',
         r'lab/programs::program\[ibv_rc_pingpong, '),
        ('`ibv_rc_pingpong -e`', r'interop/pingpong::(sizes\[events|received.*events)',
         r'lab/programs::program\[ibv_rc_pingpong -e'),
        ('`ib_write_lat`, `ib_read_lat`, `ib_send_lat`, also `-a`, `-I 0` and `-I 64`',
         r'interop/perftest::latency(\[|_of_all|_without|_with_64)',
         r'lab/programs::program\[ib_\w+_lat -s'),
        ('`ib_write_bw`, `ib_read_bw`, `ib_send_bw`, also `-a`, `-b`, `-q 16`, `-l 10`, `-I 64`, '
         '`--mr_per_qp`', r'interop/perftest::bandwidth(\[|_of|_both|_in_lists|_by|_with_64)',
         r'interop/perftest::region',
         r'lab/programs::program\[ib_\w+_bw -s'),
        ('`ib_read_*`, `ib_send_*` with `-e`', r'interop/perftest::(latency|bandwidth)_with_events',
         r'lab/programs::program\[ib_\w+ -e'),
        ('`ib_atomic_lat`, `ib_atomic_bw`: compare-and-swap, fetch-and-add; `-e`, `-q 16`, `-b`',
         r'interop/perftest::atomic',
         r'lab/programs::program\[ib_atomic_(lat|bw), '),
        ('`ibv_uc_pingpong`, also `-e`; `ib_write_*`, `ib_send_*` with `-c UC`',
         r'interop/pingpong::uc', r'interop/perftest::uc',
         r'lab/programs::program\[(ibv_uc|ib_\w+ -c UC)'),
        ('`ibv_ud_pingpong`, also `-e`; any GID; `ib_send_*` with `-c UD`, also to a multicast group',
         r'interop/pingpong::ud', r'interop/perftest::ud',
         r'lab/programs::program\[(ibv_ud|ib_\w+ -c UD)'),
        ('`ibv_srq_pingpong`, also `-e`; `ib_send_*` with `--use-srq`, of RC, UC and UD',
         r'interop/pingpong::srq', r'interop/perftest::srq',
         r'lab/programs::program\[(ibv_srq|ib_\w+ --use-srq)'),
        ('`ibv_xsrq_pingpong`, also `-e`; `ib_*` with `-c XRC`, `-e`, `-a`, `-b`, `--use-srq`',
         r'interop/pingpong::xsrq', r'interop/perftest::xrc',
         r'lab/programs::program\[(ibv_xsrq|ib_\w+ -c XRC)'),
        ('`fi_info`, `ucx_info`, pyverbs load and find the device',
         r'abi/programs::(fi_info|ucx_info|pyverbs)'),
        ('UCX: `ucx_info`, `ucx_perftest` put, get, fadd, cswap, am, tag, stream; `io_demo`, which compares '
         'each byte; by `rc_verbs` and by `ud_verbs`', r'interop/ucx::',
         r'lab/programs::program\[ucx_'),
        ('Open MPI over UCX: every collective and one-sided operation; NetPIPE', r'interop/mpi::'),
        ('`rping`: connections made by librdmacm, IPv4 and IPv6', r'cm/rping::',
         r'lab/programs::program\[rping'),
        ('`ucmatose`, `cmtime`, `rdma_client`, `rdma_xclient` and their servers',
         r'cm/programs::(ucmatose|cmtime|rdma_client)',
         r'lab/programs::program\[(ucmatose|cmtime|rdma_)'),
        ('`ib_*` with `-R`, `fio --ioengine=rdma`', r'cm/programs::(perftest|fio)',
         r'lab/programs::program\[(ib_\w+ -R|fio)'),
        ('`qperf -cm 1`: each `rc_*` and `ver_rc_*`; `uc_*`, `ud_*`, `xrc_*` end as on any RoCE card',
         r'cm/programs::(qperf|what_qperf)'),
        ('`udaddy`, `mckey`: datagrams to an address, and to a multicast group',
         r'cm/programs::(udaddy|mckey)',
         r'lab/programs::program\[(udaddy|mckey)'),
        ("`fi_pingpong`: libfabric's verbs for `msg` and `dgram`, and for `rdm` by rxm",
         r'cm/programs::libfabric',
         r'lab/programs::program\[fi_pingpong'),
        ("block storage by iSER: tgt serves a file, libiscsi's programs and QEMU read, write and verify it; "
         'either side killed', r'interop/iser::'),
        ("`test_rdmacm` of rdma-core's own suite", r'cm/programs::suite'),
        ("each test of rdma-core's own suite that passes on Linux's Soft-RoCE", r'suite/suite::passes'),
        ("all of rdma-core's own suite: each test that does not pass has its reason",
         r'suite/suite::(is_as_expected|each_exception)'),
        ('the three programs of [examples/](examples/): SEND, WRITE, fetch-and-add', r'interop/examples::'),
        ('between containers that share only the pool file', r'containers/'),
        ('64 processes, each with each; 10,000 queue pairs', r'scale/'),
    ],
    'Verbs': [
        ('each exported name and version of rdma-core 44, 56 and 65', r'abi/exports::', r'abi-stubs'),
        ('device, port, GID and P_Key queries', r'abi-query', r'abi/gids::', r'abi/text::'),
        ("the table of GIDs follows the host's addresses; connections outlive them; GID_CHANGE", r'verbs-gids'),
        ('protection domains, completion queues, channels; every bad argument', r'verbs-objects'),
        ('memory regions and their rights, also changed', r'verbs-(mr|rereg)'),
        ('buffers that the device allocates, parent domains for confidential guests, `ibv_reg_mr_ex`', r'verbs-buffers'),
        ('flags of access, each with each verb; the state that stands in a handle', r'verbs-flags'),
        ('rights taken away while peers write at full speed, or are stopped', r'revoke'),
        ('queue pairs: every state and attribute mask', r'verbs-(qp|modify)'),
        ('posting: queue limits, bad requests; receivers that are not ready', r'verbs-(post|wait|timers)'),
        ('SEND, WRITE (also with immediate), READ, atomics, inline, lists: each byte compared',
         r'verbs-data'),
        ('unreliable connections: what is dropped, what fails', r'verbs-uc'),
        ('datagrams, their headers, Q_Keys, multicast; killed senders', r'verbs-ud'),
        ('extended reliable connections (XRC), also in a domain of two processes; `ibv_open_qp`', r'verbs-xrc'),
        ('shared receive queues, their sizes and limits, LAST_WQE_REACHED; killed senders', r'verbs-srq'),
        ('programs of Debian between two virtual machines, over the window of a PCIe device, with atomics and without; interrupted the lab '
         'leaves nothing', r'lab/programs::', r'lab/interrupt::'),
        ('each command that docs/machines.md says to type, typed in two fresh virtual machines', r'lab/page::'),
        ('`ibv_rc_pingpong`, `ibv_ud_pingpong`, `ib_write_lat`, `ib_atomic_lat`, `rping` between two virtual machines, over a CXL memory without atomics',
         r'lab/cxl::'),
        ('memory of programs migrates to the window of a PCIe device and to a CXL memory, and back, while threads store; it is few mappings',
         r'lab/moves::', r'memory-device'),
        ("what one kernel sees of another's stores: none after memory was revoked, the last byte last, bytes before their completion; no wake-up is lost",
         r'lab/order::', r'hosts/order::'),
        ('a virtual machine in traffic is killed, paused or rebooted: the other hears in time, there is traffic again, nothing is left',
         r'lab/death::'),
        ('tests of two processes with those on two hosts, with and without atomics; what differs is a table', r'hosts/setups::'),
        ('programs of two hosts that share one file, each with a home of its own', r'hosts/programs::'),
        ('connection management between two hosts that have one address', r'hosts/cm::'),
        ('pools of several hosts: what making and joining one refuse', r'hosts/create::'),
        ('a device-dax as the memory of a pool, by a stand-in that refuses what Linux\'s driver refuses', r'hosts/dax::'),
        ('`weft host`: what each host of a pool does, becoming one, its number taken by another', r'hosts/host::'),
        ('rights that another host uses; a host that stands still, or comes again', r'hosts-quiesce'),
        ('a host that dies, that comes again with a new life, that is evicted; what a silent one may still write', r'hosts-restart'),
        ('a host that is stopped while it writes: requests to it end, and none of its late bytes are seen', r'hosts-silent'),
        ('names that two kernels have alike: processes, ports, addresses, stamps', r'hosts-(names|stamps)'),
        ('a program that sleeps until another host has an event for it', r'hosts-wake'),
        ('processes of several hosts killed at each step of theirs, hosts killed and stopped as wholes', r'crash-hosts'),
        ('completion channels and asynchronous events; no wake-up is lost', r'verbs-event', r'nic-fence', r'events/'),
        ('many threads on shared queues', r'verbs-threads'),
        ('packet sequence numbers that do not match, `WEFT_PSN=lax`; numbers of queue pairs that begin anywhere',
         r'verbs-psn', r'nic-numbers'),
        ('a request carried late, in parts, between nodes of a torus, or nowhere: the same outcomes; a revoker waits for a part',
         r'nic-(contract|deaths|parts|registry|requester)'),
        ('requests that are handed to a card in a process of its own, also killed; whole programs over it',
         r'handed-', r'handed/'),
        ('extended queue pairs: each `ibv_wr_*`, lists, abort', r'verbs-qp_ex'),
        ('memory windows 1 and 2, invalidation by either side', r'verbs-mw'),
        ('regions on demand, of nothing, of device memory, of descriptors, imported in the same process; parent domains',
         r'verbs-regions'),
        ('contexts, domains, regions and device memory imported from another process, which dies, or ends them in '
         'the midst', r'verbs-import'),
        ('extended completion queues: each field, timestamps, flags', r'verbs-cq_ex'),
        ('the order in which bytes and completions become visible', r'verbs-litmus'),
        ('error completions, events, flushes and recovery from them', r'verbs-fail',
         r'verbs-errors'),
        ('a peer that is killed, told also to queue pairs that have nothing under way: `WEFT_TELL_DEATHS`', r'verbs-life'),
        ('`WEFT_EXPLAIN`: a line for each verb that fails, and each completion in error', r'verbs-explain',
         r'verbs-errors'),
        ('what simple implementations get wrong: each fact of [traps.tsv](tests/traps.tsv) has its test',
         r'verbs-traps'),
        ('random sequences of verbs by 2 to 4 processes, compared with a model', r'model(?!-gpu)'),
        ("random verbs of RC, UC, UD, shared receive queues, windows and the extended interfaces, compared with what "
         "Linux's Soft-RoCE answers; each kind of difference is explained",
         r'differential/'),
    ],
    'Connections': [
        ('the datagrams in their wire format', r'cm-mad'),
        ('each state and input; whole connections while datagrams are lost, doubled, reordered',
         r'cm-conn', r'cm-lossy'),
        ('events, backlog, refusals, the deaths of peers, in virtual time', r'cm-agent', r'cm-replaced'),
        ('a call that fails says which value is wrong (`WEFT_EXPLAIN`)', r'cm-explain'),
        ('thousands of connections, one after the other and 1,000 at once, of which nothing is left',
         r'cm/many::'),
        ("whatever datagrams come, when peers die, and to the engine of streams: libFuzzer's findings, with sanitizers",
         r'fuzz/'),
        ('either process killed, at each stage of a connection', r'cm-death'),
        ('a host that is renumbered: listeners are reached by its new addresses, connections live on',
         r'cm/addresses::'),
        ('ports, unique among living processes; the mailboxes that carry datagrams', r'cm-port'),
    ],
    'The wire: RoCE v2, between hosts: reliable and unreliable connections': [
        ('each packet both ways, each length; the invariant CRC, as others compute it, and a million corrupted '
         'packets', r'wire-(packet|icrc)'),
        ('each state of requester and responder with each packet and timer; time-outs to the nanosecond',
         r'wire-(requester|responder)'),
        ('each row of [errors.tsv](tests/verbs/errors.tsv) that a peer, or what is wrong here, can cause',
         r'wire-errors'),
        ('unreliable connections and datagrams; packets of no queue pair', r'wire-unreliable'),
        ('of each kind of packet each field made wrong in turn: nothing is done for it; beside 20,000 packets of rubbish a second a '
         'connection keeps half of its bandwidth', r'wire-hostile', r'wire/hostile::'),
        ('reliable connections: random verbs on wires that lose, double, reorder, corrupt and stop, each byte and '
         'completion compared', r'wire-sim'),
        ('25 defects put into the engine, each found by a test or a game that is named; whatever comes: '
         "libFuzzer's findings, with sanitizers", r'wire/(defects|fuzz)::'),
        ('tshark, scapy and zlib read what is sent: each kind of packet, and what cards send, as an interface has it',
         r'wire/decoders::'),
        ('datagrams: many a system call, cut and joined by the kernel; addresses, groups, identifications',
         r'link-udp'),
        ('engines behind one address: each its packets, its timer, its turn; requests to a port whose next listener is to come', r'card-(switch|manager)'),
        ('both ends on sockets over a wire that loses, doubles, reorders and corrupts, each byte compared',
         r'link-fault', r'wire/fault::'),
        ('Debian\'s programs between two hosts, whose cards start by themselves: `ibv_{rc,uc,srq}_pingpong`, `-e`; `ib_{write,'
         'send,read}_{lat,bw}`, `ib_atomic_lat`; `ibv_ud_pingpong`, `ib_send_*` of UD; `rping`, `ucmatose`, `udaddy`, `cmtime`, `mckey`, a program '
         'that dies; ten thousand connections of which nothing is left; all verbs, each byte and each error; nothing through a pool', r'wire/cards::'),
        ('UCX by `rc_v` and `ud_v`, each byte compared; Open MPI, 4 ranks on 2 hosts; tgt and QEMU by iSER; perftest by `-R`: nothing '
         'through a pool', r'wire/interop::'),
        ('memory that stays where it is, half of it, on demand, imported, of a device, of a GPU, or inline, also of a process namespace of its '
         'own: each byte of all verbs; an owner that stands still holds up nobody else', r'wire/memory::'),
        ('50 kills in traffic, of cards and of programs, and a death at each labelled step: each request completes once, survivors hear of '
         'it, of a card within a second; nothing is left', r'wire/(kills|deaths)::'),
        ('cards on a wire that loses, doubles, reorders and corrupts up to 20 % of the packets; all verbs, each byte compared; UC and UD: what '
         'comes is whole, and once', r'wire/spoiled::'),
        ('what goes by the pool, by a card, by both, or nowhere: by source, destination or group, where the peer is, and MTU; interfaces of '
         '1,500 bytes', r'wire/choice::'),
        ('cards: they start when one is needed, leave nothing in the program, end; one killed; `weft nic`, `weft doctor`',
         r'cli/nic::'),
        ("towards Linux's Soft-RoCE in a virtual machine: `ibv_{rc,uc,ud}_pingpong -c`, `rping`, `ucmatose`, `udaddy`, `cmtime`, "
         '`mckey` each way; one program over stock rdma-core there and over Weft here: SEND, WRITE, READ and atomics of RC and UC, each byte '
         'compared; what a peer can do wrong', r'wire/rxe::'),
    ],
    'The torus, in virtual time': [
        ("packets to the bit, against vectors made by another encoder; SECDED, all single and double flips; the card's CRC-32C",
         r'ape-(packet|secded|sums)'),
        ('frames of 64, 128 and 256 bits: any content, any schedule; the efficiency of the formula', r'ape-frames'),
        ('words of payload in runs: the same as one by one', r'ape-runs'),
        ('packets, SECDED and credits on a big-endian machine (s390x, by qemu-user)', r'ape/big_endian::'),
        ('credits on cables of 0 to 10,000 words; lost, damaged, and after lost words', r'ape-credits'),
        ('100,000 damages: cut, lost, doubled, invented and flipped words', r'ape-damage'),
        ('8b10b and 64b66b to the bit; 1, 2 and 4 lanes of any order, offset and skew; slips and dead lanes', r'ape-phy'),
        ("each way in 20 lattices, rings and lines; freedom from deadlock, computed", r'ape/routes::', r'ape-deadlock'),
        ('cut-through to the word, between all pairs of 5×4×3; FIFOs of one packet, all to all', r'ape-router'),
        ('PUT, GET and SEND: each byte, each refusal; registers; any word lost, doubled or flipped; new lives of cards',
         r'ape-card'),
        ('random programs on 3×3×2, cables cut, nodes killed: exactly once and in order, or an error; each seed '
         'twice the same', r'ape-flows'),
        ('programs that leave, buffers that are withdrawn, cables that take nothing for a while', r'ape-leave'),
        ('packets of verbs: each once and in order on damaged cables; rings that are full; nodes given up, new lives',
         r'ape-verbs'),
    ],
    'The torus, live: each node a process and a pool of its own; programs by libweft-ape': [
        ('cables in shared memory: each word once and in order, sleeping ends woken, cuts', r'torus-ring'),
        ('cables of UDP: what is doubled, late, foreign or of an earlier life is dropped', r'torus-udp'),
        ('PUT, GET and SEND between all pairs, each byte and those beside it; rings and lines, 1 to 4 lanes, 8b10b and 64b66b, UDP; '
         'memory of the pool and not', r'torus/bytes::(all_pairs|memory)'),
        ('the words of each cable are those that dimension order predicts; no process has another node\'s pool',
         r'torus/bytes::(words|nodes)'),
        ('libweft-ape: a manual page for each call, whose example runs, and whose errors are all reached; each wrong descriptor; '
         'threads; nothing is allocated by what posts and polls; a descriptor for epoll; shared and static', r'torus/pages::'),
        ('what a counter, or the last bytes, promise of the others, 1 and 3 hops away', r'torus/calls::'),
        ('the programs of [examples/torus/](examples/torus/): conjugate gradients of lattice QCD, by libweft-ape and by MPI, and '
         "Graph500's search with its five checks, on 2×2×2 and 4×2×2 nodes, equal to their runs in one process", r'torus/examples::'),
        ('a card that is stopped for a second: nothing is lost, no memory grows', r'torus/bytes::a_card'),
        ('verbs between nodes: pingpongs of RC, UC, UD, XRC and shared receive queues, also `-e`, over 1 and 3 hops, perftest of RC, UC, UD '
         'and XRC, also with `-a`, `-q 16`, `-e`, `--use-srq` and `-R`, `rping` by address, each byte of SEND, WRITE, READ and atomics, what a '
         "peer can do wrong; counters of Weft and of the cables", r'torus/verbs::'),
        ('Open MPI by `weft torus run -- mpirun`, ranks on nodes: collectives, one-sided operations; NetPIPE over 1 and 3 hops',
         r'torus/mpi::'),
        ('`weft torus`: `up`, `down`, `status`, `run`, `map`, `reg`, `words`, `cut`, `mend`; wrong words; kills of cards, of '
         'programs, of all; idle cards sleep',
         r'torus/command::'),
        ('`weft torus up --netns`: each node in a network namespace of its own, `rping` and perftest by address; `--part`: two halves '
         'in two namespaces, joined by UDP', r'torus/hosts::'),
    ],
    'Memory': [
        ('WRITE, READ and atomics while the target is stopped', r'onesided/.*stopped'),
        ('no system call in a million WRITEs', r'onesided/.*no_system_call'),
        ('which memory migrates into the pool, which stays', r'memory/.*kinds',
         r'memory-region::(?!hugetlb)'),
        ('huge pages of hugetlb stay', r'memory-region::hugetlb'),
        ('threads store into pages while they migrate', r'memory-race'),
        ('direct I/O and pipes write into pages while they migrate, as root and as a user', r'memory-pinned'),
        ('sleepers on semaphores, mutexes, conditions, barriers and locks, private and shared by processes, in memory that '
         'moves; a stack for signals there', r'memory-futex'),
        ('sleepers in 26 system calls while memory migrates: none gets `EINTR` or ends early, each ends by its timeout, or a '
         'signal', r'memory-sleeps'),
        ('threads of less weight go on beside one that registers all the time', r'memory-turns'),
        ('debuggers attach while memory migrates', r'memory-attach'),
        ("the program's own SIGSEGV handlers; system calls beside migrating pages", r'memory-signals'),
        ("past the hooks that caches of registrations put into libc's memory calls", r'memory-hooks'),
        ('fork in mid-traffic; multiprocessing of Python', r'memory-fork', r'memory/.*multiproc'),
        ('a fork\'s child opens devices of its own and ends what it has inherited, in any order; so do finalizers '
         'of Python', r'verbs-forked', r'memory/.*finalizers'),
        ('realloc, mremap, calloc after free, io_uring, core dumps; glibc and jemalloc',
         r'memory-use'),
        ('large blocks of malloc, header and all: free, realloc, alignments, fork', r'memory-blocks'),
        ("requests into pooled blocks of malloc take as long as into pages of the program's own", r'memory/buffers::'),
        ('io_uring: fixed buffers and others, requests pending at, after and beside registrations; rings without a '
         'descriptor', r'memory-rings', r'verbs-rings'),
        ('pages that cannot migrate now, or only some of them: nothing is lost, all come home later', r'memory-away'),
    ],
    "GPUs: their memory as source and target; here on the tests' stand-in for libcuda": [
        ('every kind of memory beside a GPU, in lists of several kinds, between two processes: WRITE, READ, SEND, atomics; '
         'each byte compared', r'gpu-verbs::'),
        ('freed, given out again, half unmapped, registered anew; contexts that are not current, of no thread, or end; '
         'descriptors; forks', r'gpu-life::is_(?!polled)'),
        ('immediate data, datagrams, shared queues, extended connections, windows and imports, from memory of each kind to memory '
         'of each; `weft info` names them', r'gpu-services::'),
        ('inline from memory of a GPU is refused; the look is no instruction for programs that have none, and at most 60 for others',
         r'gpu-services::inlined|gpu/inline::'),
        ('sizes, lists, inline bytes, atomics, chains of requests between memory of a GPU and each kind, of this process and of another; '
         'each byte compared', r'gpu-data::'),
        ('a kernel that polls the last word sees all before it, whichever process copies', r'gpu-life::is_polled|gpu-order::'),
        ('the contract of transports with memory of a GPU at either end, or at both', r'nic-gpu'),
        ('between two GPUs while the other process is stopped; owners that are stopped or killed, or end the region, where '
         'they have to copy', r'gpu-far::'),
        ('small WRITEs of one queue pair to a GPU of another process that wait together are waited for once; in order, up to the one that '
         'fails', r'gpu-together::'),
        ('random sequences of verbs with memory of each kind in each process, compared with a model', r'model-gpu'),
        ('mistakes made in the plugin on purpose are each noticed by a test; a missing plugin is said', r'gpu/mutations::'),
        ('the stand-in answers 629 questions as H200s did', r'gpu/facts::'),
        ('copies, streams, kernels; memory between processes and devices: the same programs ran on an H200',
         r'gpu-(work|peers)::'),
        ('it is no kinder than hardware: late, in shuffled pieces; moved pages and leaks are noticed',
         r'gpu-soft::'),
        ('finding the libcuda of a process; what memory is, and whether it still is that', r'gpu-find::'),
        ("the host's memory beside CUDA: what that has pinned, before or later, stays where it is, a part of a region, too; all else "
         'moves, also under copies', r'gpu-pinned::'),
        ("our declarations are those of NVIDIA's header", r'gpu-header::'),
    ],
    'Processes that end': [
        ('killed while they use each other\'s memory of GPUs, before and after each step of copies, handles, descriptors and '
         'pinned pages, on the stand-in: the other goes on, no byte is wrong, nothing is left', r'crash-gpu'),
        ('killed at each step of each critical section, and at random moments; asleep, in `ibv_reg_mr`, '
         'in `fork`, at exit, by abort: others are told, nothing is left', r'crash(-ends)?::'),
        ('killed or stopped at each step from a completion to the wake-up: the sleeper wakes within a second, once',
         r'crash-wake'),
        ('what lives is a member: fork, exec, closed descriptors, daemons, namespaces, stops',
         r'life-(life|daemon)'),
        ('several pools in one process, over other memory than a file: members, death, locks, sleep, no room', r'seam-backing'),
        ('several nics in one process and in virtual time: none knows of the others, a thousand seconds take less than one', r'seam-machine'),
    ],
    'Streams of a detector': [
        ('`weft stream generate`: events by seed, whose radii, centres, hits, times and pace follow the formulas; '
         'tshark decodes the datagrams', r'stream/generator::'),
        ('captures, pcap and pcapng, and the frames in them; whatever is cut or damaged', r'link-pcap'),
        ('the formats of datagrams, events and primitives', r'nanet-formats'),
        ('streams out of a live torus: what another node SENDs, by the suite of all links; packets of the torus with header and footer, '
         'damaged ones counted', r'torus/streams::'),
        ('the engine of streams: what it refuses, when it tells of a buffer, how numbers wrap and begin anew',
         r'nanet-engine'),
        ('the engine behind a network that loses, doubles, reorders, cuts and changes datagrams: each counter, '
         'place and record, by seeds', r'nanet-faults'),
        ('four stamps in the place of each datagram: taken, resolved, placed, signalled; none less than the one before; a '
         'histogram for each stage', r'nanet-stream::(udp|ring)_stamped|nanet/live::stamps'),
        ('latencies as histograms of three digits, and their picture; from sending to being told at most 1.5 times what bare sockets take',
         r'stream-histogram|nanet/live::(picture|latency)'),
        ('`weft/stream.h`: packed buffers and slots out of a UDP socket, out of an interface\'s ring of packets, and out of a ring of another process, events by record, '
         'descriptor and word, by a child of fork; joined datagrams, in their places without a copy; what is refused', r'nanet-(stream|joined|packet)'),
        ('lists in memory of a GPU, by the copy engine, or by a kernel that stays: each byte, place and word as in a list of the host; a kernel '
         'that polls sees whole buffers; freed memory, a destroyed context, a fault', r'nanet-gpu'),
        ('`make check-stream-gpu`, which measures streams into memory of a GPU, on the stand-in: each part runs and has its rows',
         r'nanet/gpus::'),
        ('`weft stream generate --to`, `receive`, `replay`, `trigger --from`: datagrams of socat and tcpreplay, and what the '
         'kernel drops, counted exactly; a capture goes round unchanged', r'nanet/live::'),
        ('`weft stream trigger`: rings by Crawford, Taubin, Almagest and histogram, against numpy, scipy and the '
         'truth; primitives; labels are not read', r'stream/trigger::'),
        ('`weft stream trigger --gpu`: each decision that of the processor\'s, by all four algorithms, on the stand-in; of several sources, by '
         'several threads, primitives in the order of the buffers', r'nanet-judge|nanet/trigger_live::'),
    ],
    'Commands': [
        ('`weft run`: dlopen, RPATH, scripts, children, streams, signals', r'delivery/(run|loader)::'),
        ('programs built with AddressSanitizer and ThreadSanitizer, by gcc and by clang, run and find what they find '
         'without', r'delivery/sanitizers::'),
        ('`weft env`', r'delivery/env::'),
        ('`/sys/class/infiniband`, `/dev/infiniband`, the `rdma` command', r'delivery/shim::'),
        ('`weft info`, also of damaged pools', r'cli/info::'),
        ('`weft doctor`', r'cli/doctor::'),
        ('`weft pool`', r'cli/pool_command::'),
        ('`weft bench`', r'cli/bench::'),
        ('`make install`', r'house/install::', r'delivery/install::'),
    ],
}
# What simple implementations get wrong, and the case that is about it.
TRAPS = readme.README.parent / 'tests/traps.tsv'
# Cases that test the tests.
OTHERS = r'interop/fabric::'


def python_cases(report):
    for case in xml.parse(report).getroot().iter('testcase'):
        words = case.get('classname').removeprefix('tests.').split('.')
        name = f'{"/".join(words)}::{case.get("name")}'.replace('test_', '')
        kinds = {child.tag for child in case}
        state = (FAILS if kinds & {'failure', 'error'} else
                 SKIPPED if 'skipped' in kinds else WORKS)
        yield name, state, f'tests/{"/".join(words)}.py'


def c_cases(log, build):
    for line in log.read_text().splitlines():
        test = json.loads(line)
        program = Path(os.path.relpath(test['command'][0], build))
        # test-verbs-qp in tests/verbs is made of test_qp.c
        stem = program.name.removeprefix('test-').removeprefix(program.parent.name + '-')
        file = f'{program.parent}/test_{stem}.c'
        name = test['name'].split(' / ')[-1]
        cases = re.findall(r'^(not )?ok \d+ (- |# SKIP )(\S+)', test.get('stdout') or '', re.M)
        states = [SKIPPED if 'SKIP' in how else FAILS if bad else WORKS for bad, how, _ in cases]
        for (_, _, case), state in zip(cases, states):
            yield f'{name}::{case.removeprefix("test_")}', state, file
        if test['result'] not in ('OK', 'SKIP') and FAILS not in states:
            yield f'{name}::all of it', FAILS, file  # it crashed or timed out
        elif not states:
            yield f'{name}::all of it', WORKS if test['result'] == 'OK' else SKIPPED, file


def results(build):
    """{case: (state, file)} of the last run."""
    # what was run again comes last
    reports, logs = (sorted(build.glob(names), key=lambda path: '-again-' in path.name)
                     for names in ('pytest*.xml', 'meson-logs/testlog*.json'))
    if not reports or not logs:
        raise SystemExit('works: no results of tests: run `make check` first')
    cases = {name: (state, file) for report in reports for name, state, file in python_cases(report)}
    for log in logs:
        found = list(c_cases(log, build))
        if '-again-' in log.name:  # the first run of that program does not count
            programs = {name.split('::')[0] for name, _, _ in found}
            cases = {name: case for name, case in cases.items() if name.split('::')[0] not in programs}
        cases.update((name, (state, file)) for name, state, file in found)
    return cases


def traps():
    """[(about, fact, case)]"""
    lines = [line.split('\t') for line in TRAPS.read_text().splitlines() if not line.startswith('#')]
    return [tuple(line) for line in lines[1:]]


def untested(cases):
    """Each trap whose case was not run. (A case of pytest's with parameters was run several times: once is enough.)"""
    ran = {name.split('[')[0] for name in cases}
    return [f'{about}: {fact}: {case} was not run' for about, fact, case in traps() if case not in ran]


def judge(states):
    return FAILS if FAILS in states else SKIPPED if SKIPPED in states else WORKS


def link(file):
    return f'[{file.removeprefix("tests/")}]({file})'


def between_kernels(cases, patterns):
    """What the lab found of those programs: nothing where it has none of them."""
    if not patterns:
        return ''
    found = {cases[name][0] for name in cases for pattern in patterns if re.match(pattern, name)}
    return judge(found) if found else SLOW


def table(cases):
    """The lines of the table, and what is wrong with the rows above."""
    lines, offences, shown = [], [], set()
    for title, rows in SECTIONS.items():
        beside = title == BESIDE
        lines += ([''] if lines else []) + [f'| {title} | |{" between two kernels |" if beside else ""} tests |',
                                            '|---|---|---|---|' if beside else '|---|---|---|']
        for what, *patterns in rows:
            kernels = [part for part in patterns if beside and part.startswith(KERNELS)]
            patterns = [part for part in patterns if part not in kernels]
            pattern = re.compile('|'.join(patterns))
            names = [name for name in cases if pattern.match(name)]
            for part in patterns:
                if not any(re.match(part, name) for name in names):
                    offences.append(f'{what}: no result of {part}')
            if not names:
                continue
            shown.update(names)
            state = judge({cases[name][0] for name in names})
            files = sorted({cases[name][1] for name in names})
            if beside:
                state += f' | {between_kernels(cases, kernels)}'
            lines.append(f'| {what} | {state} | {", ".join(map(link, files))} |')
    offences += [f'{name}: in no row of tools/works.py' for name in sorted(cases)
                 if name.startswith('interop/') and name not in shown
                 and not re.match(OTHERS, name)]
    return lines, offences


def compare(said, found):
    """0, 1 or 77, and the differences."""
    if said == found:
        return 0, []
    differences = [f'- {line}' for line in said if line not in found]
    differences += [f'+ {line}' for line in found if line not in said]
    alike = [[line.replace(f'| {SKIPPED} |', f'| {WORKS} |') for line in lines]
             for lines in (said, found)]
    return 77 if alike[0] == alike[1] else 1, differences


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--check', action='store_true')
    parser.add_argument('--build', type=Path,
                        default=Path(os.environ.get('WEFT_BUILD', readme.README.parent / 'build')))
    parser.add_argument('--readme', type=Path, default=readme.README)
    args = parser.parse_args()
    cases = results(args.build.resolve())
    lines, offences = table(cases)
    offences += untested(cases)
    for offence in offences:
        print(f'works: {offence}')
    if offences:
        return 1
    if not args.check:
        readme.write('works', lines, args.readme)
        return 0
    status, differences = compare(readme.content('works', args.readme), lines)
    print(*differences, sep='\n', end='\n' if differences else '')
    if status == 1:
        print('works: README.md says otherwise; tools/works.py writes what was found')
    return status


if __name__ == '__main__':
    sys.exit(main())
