#!/bin/sh
# Builds liblmdb and puts it, its header and its pkg-config file in place:
#
#     sh crates/lmdb/install.sh PREFIX
#
# PREFIX/lib has liblmdb.so.0 (the library), liblmdb.so (a link to it) and liblmdb.a, PREFIX/include
# has lmdb.h, PREFIX/lib/pkgconfig has lmdb.pc. With DESTDIR everything goes there instead, for
# packages. CARGO and CARGO_TARGET_DIR are those of cargo; PROFILE is the profile to build with
# (release, unless said otherwise).
set -eu

folder=$(cd "$(dirname "$0")" && pwd)
. "$folder/../installing.sh"

build -p lmdb

mkdir -p "$to/lib/pkgconfig" "$to/include"
# Under a new name first: a program that runs with the old library keeps it.
cp "$built/liblmdb.so" "$to/lib/liblmdb.so.0.new"
mv "$to/lib/liblmdb.so.0.new" "$to/lib/liblmdb.so.0"
ln -sf liblmdb.so.0 "$to/lib/liblmdb.so"
cp "$built/liblmdb.a" "$to/lib/liblmdb.a"
cp "$folder/include/lmdb.h" "$to/include/lmdb.h"
sed "s|@prefix@|$prefix|" "$folder/lmdb.pc.in" >"$to/lib/pkgconfig/lmdb.pc"
echo "installed in $prefix"
