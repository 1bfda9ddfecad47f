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

if [ $# -ne 1 ] || [ "${1#-}" != "$1" ]; then
	echo "usage: install.sh PREFIX" >&2
	exit 2
fi
case $1 in
/*) prefix=$1 ;;
*) prefix=$PWD/$1 ;;
esac
folder=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$folder/../.." && pwd)
profile=${PROFILE:-release}

(cd "$root" && "${CARGO:-cargo}" build --quiet --profile "$profile" -p lmdb)
built=${CARGO_TARGET_DIR:-$root/target}/$profile
[ "$profile" = dev ] && built=${CARGO_TARGET_DIR:-$root/target}/debug

to=${DESTDIR:-}$prefix
mkdir -p "$to/lib/pkgconfig" "$to/include"
# Under a new name first: a program that runs with the old library keeps it.
cp "$built/liblmdb.so" "$to/lib/liblmdb.so.0.new"
mv "$to/lib/liblmdb.so.0.new" "$to/lib/liblmdb.so.0"
ln -sf liblmdb.so.0 "$to/lib/liblmdb.so"
cp "$built/liblmdb.a" "$to/lib/liblmdb.a"
cp "$folder/include/lmdb.h" "$to/include/lmdb.h"
sed "s|@prefix@|$prefix|" "$folder/lmdb.pc.in" >"$to/lib/pkgconfig/lmdb.pc"
echo "installed in $prefix"
