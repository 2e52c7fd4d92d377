#!/bin/sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# tools/deb.sh FOLDER: builds the Debian package in FOLDER, of the files that git knows as they stand.
set -eu

source=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
folder=$(cd "$1" && pwd)
rm -rf "${folder:?}"/weft*
mkdir "$folder/weft"
cd "$source"
git ls-files -z | tar --null -T - -c | tar -x -C "$folder/weft"
cd "$folder/weft"
dpkg-buildpackage --build=binary --no-sign
rm -r "$folder/weft"
ls "$folder"/weft_*.deb
