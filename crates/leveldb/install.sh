#!/bin/sh
# Builds libleveldb and puts it, its headers, and its pkg-config and CMake files in place:
#
#     sh crates/leveldb/install.sh PREFIX
#
# PREFIX/lib has libleveldb.so.1d (the library) and libleveldb.so (a link to it), PREFIX/include/
# leveldb has the headers, PREFIX/lib/pkgconfig has leveldb.pc, PREFIX/lib/cmake/leveldb has what
# find_package(leveldb) reads. With DESTDIR everything goes there instead, for packages. CARGO and
# CARGO_TARGET_DIR are those of cargo, CXX is the C++ compiler; PROFILE is the profile to build with
# (release, unless said otherwise).
set -eu

folder=$(cd "$(dirname "$0")" && pwd)
. "$folder/../installing.sh"

build -p leveldb --lib

mkdir -p "$to/lib/pkgconfig" "$to/lib/cmake/leveldb" "$to/include/leveldb/helpers"
# Under a new name first: a program that runs with the old library keeps it.
sh "$folder/link.sh" "$built/libleveldb.a" "$to/lib/libleveldb.so.1d.new"
mv "$to/lib/libleveldb.so.1d.new" "$to/lib/libleveldb.so.1d"
ln -sf libleveldb.so.1d "$to/lib/libleveldb.so"
cp "$folder"/include/leveldb/*.h "$to/include/leveldb/"
cp "$folder"/include/leveldb/helpers/*.h "$to/include/leveldb/helpers/"
cp "$folder"/cmake/*.cmake "$to/lib/cmake/leveldb/"
sed "s|@prefix@|$prefix|" "$folder/leveldb.pc.in" >"$to/lib/pkgconfig/leveldb.pc"
echo "installed in $prefix"
