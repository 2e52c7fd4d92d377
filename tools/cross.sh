#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# tools/cross.sh FOLDER ARCHITECTURE SUITE [OPTION...]: builds in FOLDER for x86_64 or aarch64 against
# the C library of a Debian release, by this machine's compilers. OPTIONs are meson's.
# The headers of Linux and of rdma-core are Debian 12's, whatever the release.
set -eu

folder=$1 arch=$2 suite=$3
shift 3
source=$(cd "$(dirname "$0")/.." && pwd)
case $arch in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
*)
	echo "cross: no architecture $arch" >&2
	exit 2
	;;
esac

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [ ! -e "$folder/sysroot.ini" ]; then
	"$source/tools/sysroot.sh" "$folder/libc" $debian \
		"$suite:libc6" "$suite:libc6-dev" "$suite:libgcc-s1" \
		"$suite:libsmartcols1" "$suite:libsmartcols-dev" \
		"$suite:libcmocka0" "$suite:libcmocka-dev" bookworm:linux-libc-dev \
		bookworm:libibverbs-dev bookworm:libibverbs1 bookworm:librdmacm-dev bookworm:librdmacm1 \
		bookworm:libnl-3-dev bookworm:libnl-3-200 bookworm:libnl-route-3-dev \
		bookworm:libnl-route-3-200
	printf "[constants]\nsysroot = '%s'\n" "$folder/libc" >"$folder/sysroot.ini"
fi
[ -e "$folder/build.ninja" ] || meson setup "$folder" "$source" --cross-file "$folder/sysroot.ini" \
	--cross-file "$source/cross/$arch.ini" "$@"
ninja -C "$folder"
