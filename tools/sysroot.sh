#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# tools/sysroot.sh FOLDER ARCHITECTURE SUITE:PACKAGE...: unpacks Debian packages into FOLDER, each as
# that SUITE has it, for compilers that are given --sysroot=FOLDER. It installs nothing, needs no root,
# and follows no dependences. apt checks the signatures. MIRROR= says where packages come from,
# else it is the place that most of this machine's lists come from.
set -eu

folder=$1 arch=$2
shift 2
mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' | sort | uniq -c | sort -rn | awk 'NR == 1 { print $2 }')}
keys=/usr/share/keyrings/debian-archive-keyring.gpg

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/debs"
: >"$work/status"
for word in "$@"; do
	echo "deb [signed-by=$keys] $mirror ${word%%:*} main"
done | sort -u >"$work/sources.list"

apt() {
	(cd "$work/debs" && apt-get -qq -o Dir::State::status="$work/status" -o Dir::State="$work" \
		-o Dir::Cache="$work" -o Dir::Etc::sourcelist="$work/sources.list" \
		-o Dir::Etc::sourceparts=- -o APT::Architecture="$arch" -o APT::Architectures="$arch" \
		-o Acquire::Languages=none -o APT::Sandbox::User="$(id -un)" "$@")
}

apt update
# shellcheck disable=SC2046 # a list of words
apt download $(for word in "$@"; do echo "${word#*:}/${word%%:*}"; done)
rm -rf "$folder"
mkdir -p "$folder"
for deb in "$work"/debs/*.deb; do
	dpkg-deb -x "$deb" "$folder"
done
# Links that lead to absolute places would lead out of the folder.
find "$folder" -type l -lname '/*' | while read -r link; do
	ln -sfr "$folder$(readlink "$link")" "$link"
done
