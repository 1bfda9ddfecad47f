#!/bin/sh
# Links the shared library of the static one that cargo has built:
#
#     sh crates/leveldb/link.sh libleveldb.a TO/libleveldb.so.1d
#
# rustc hides all C++ names of a shared library that it links by itself, so it does not link this
# one. CXX is the compiler that links, with CXX_FLAGS.
set -eu

if [ $# -ne 2 ]; then
	echo "usage: link.sh STATIC SHARED" >&2
	exit 2
fi
folder=$(cd "$(dirname "$0")" && pwd)
# Everything of the static library goes in, and what nothing exported needs goes out again.
# shellcheck disable=SC2086
"${CXX:-c++}" ${CXX_FLAGS:-} -shared -o "$2" -Wl,-soname,libleveldb.so.1d \
	-Wl,--version-script="$folder/exports.map" -Wl,-z,defs -Wl,-z,relro -Wl,-z,now \
	-Wl,--whole-archive "$1" -Wl,--no-whole-archive -Wl,--gc-sections -Wl,--strip-debug \
	-lpthread -ldl -lm
