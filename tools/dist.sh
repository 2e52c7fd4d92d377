#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# tools/dist.sh FOLDER ARCHITECTURE: FOLDER/weft-VERSION-linux-ARCHITECTURE.tar.xz, which runs from wherever
# it is unpacked, with any glibc from 2.31 on. The same commit gives the same bytes.
set -eu

folder=$1 arch=$2
source=$(cd "$(dirname "$0")/.." && pwd)
"$source/tools/cross.sh" "$folder/$arch" "$arch" bullseye --prefix=/ --libdir=lib -Dtests=false
folder=$(cd "$folder" && pwd)
version=$(meson introspect --projectinfo "$folder/$arch" |
	python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')
name=weft-$version-linux-$arch

rm -rf "${folder:?}/$name"
meson install -C "$folder/$arch" --no-rebuild --strip --quiet --destdir "$folder/$name"
cp -r "$source/README.md" "$source/LICENSES" "$folder/$name"
"$source/tools/check-glibc.py" --no-newer "$folder/$name"
date=${SOURCE_DATE_EPOCH:-$(git -C "$source" log -1 --format=%ct)}
tar -C "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$date" --mode=go-w \
	-cJf "$folder/$name.tar.xz" "$name"
echo "$folder/$name.tar.xz"
