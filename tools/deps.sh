#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# tools/deps.sh PURPOSE...: installs the Debian packages that the named purposes lack, as root or
# through sudo. It starts no service. WEFT_NO_APT=1: only names them, and fails if one is missing.
set -eu

# purpose	packages
table() {
	cat <<-'END'
		build	gcc libc6-dev meson ninja-build pkg-config python3
		build	libibverbs-dev librdmacm-dev libsmartcols-dev libcmocka-dev
		demo	perftest util-linux
		demo-torus	openmpi-bin libopenmpi-dev
		bench	ucx-utils libfabric-bin qperf iperf3 iproute2 util-linux
		bench	openmpi-bin netpipe-openmpi netpipe-tcp
		test	python3-pytest python3-pytest-timeout util-linux procps iproute2 clang-format git
		test	perftest ibverbs-utils rdmacm-utils
		check	clang-tidy gcovr strace valgrind gdb
		check	qperf iperf3 fio libiscsi-bin qemu-utils
		check	clang libclang-rt-dev llvm
		check	tshark python3-scapy
		check	socat tcpreplay tcpdump
		check	qemu-user gcc-s390x-linux-gnu libc6-dev-s390x-cross
		check	linux-headers-amd64 make
		check	python3-numpy python3-scipy tshark
		check	openmpi-bin libopenmpi-dev netpipe-openmpi
		check	libfabric-bin ucx-utils python3-pyverbs liburing-dev libjemalloc2 hwloc-nox
		tidy	clang-tidy
		lab	xz-utils iproute2 rdma-core python3-pyverbs ibverbs-utils
		coverage	gcovr
		deb	debhelper dpkg-dev lintian git
		dist	git xz-utils debian-archive-keyring
		check-dist	debootstrap util-linux
		arm64	gcc-aarch64-linux-gnu qemu-user
	END
}

missing() {
	for purpose in "$@"; do
		table | awk -v p="$purpose" '$1 == p { for (i = 2; i <= NF; i++) print $i }'
	done | sort -u | while read -r package; do
		status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) || status=absent
		[ "$status" = installed ] || printf '%s ' "$package"
	done
}

# Packages may bring a daemon (rdma-core: iwpmd); while we install, none is started.
hold_services() {
	policy=/usr/sbin/policy-rc.d
	[ ! -e $policy ] || return 0
	$sudo sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy"
	trap '$sudo rm -f $policy' EXIT
	trap 'exit 1' HUP INT TERM
}

apt() {
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
		-o Dpkg::Use-Pty=0 "$@"
}

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian system; needed are the equivalents of:" >&2
	for purpose in "$@"; do table | grep "^$purpose	" >&2; done
	exit 0
fi
need=$(missing "$@")
[ -n "$need" ] || exit 0
echo "deps: missing packages: $need" >&2
if [ "${WEFT_NO_APT:-}" = 1 ]; then
	echo "deps: WEFT_NO_APT=1: not installing; run: apt-get install --no-install-recommends $need" >&2
	exit 1
fi
sudo=
if [ "$(id -u)" != 0 ]; then
	sudo=sudo
	if ! command -v sudo >/dev/null; then
		echo "deps: neither root nor sudo; run as root: apt-get install --no-install-recommends $need" >&2
		exit 1
	fi
fi
hold_services
# Lists may be absent (fresh image) or too old: then, and only then, fetch them.
# shellcheck disable=SC2086 # a list of words
apt install --no-install-recommends $need 2>/dev/null || {
	apt update
	apt install --no-install-recommends $need
}
