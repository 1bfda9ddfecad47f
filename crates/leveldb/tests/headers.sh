#!/bin/sh
# Puts the headers where install.sh puts them, and makes the folder of the library: for scripts that
# are given a library.
#
#     headers.sh PREFIX
set -eu

here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1/lib" "$1/include/leveldb/helpers"
cp "$here"/../include/leveldb/*.h "$1/include/leveldb/"
cp "$here"/../include/leveldb/helpers/*.h "$1/include/leveldb/helpers/"
