#!/bin/sh
# Installs the library into a new folder, as install.sh does, and checks what stands there: the links,
# the name that programs ask for, the pkg-config file, and programs of C and C++ that are built with
# it, by hand and by CMake.
#
#     install.sh                 PROFILE and CARGO_TARGET_DIR as for ../install.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d -p "${WORK_FOLDER:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "$*" >&2
    exit 1
}

prefix=$work/prefix
sh "$here/../install.sh" "$prefix"
# Again, over what is there.
sh "$here/../install.sh" "$prefix" > /dev/null
(cd "$prefix" && find . -type f -o -type l) | grep -v '/include/' | sort > "$work/found"
sort > "$work/wanted" <<'LIST'
./lib/cmake/leveldb/leveldbConfig.cmake
./lib/cmake/leveldb/leveldbConfigVersion.cmake
./lib/libleveldb.so
./lib/libleveldb.so.1d
./lib/pkgconfig/leveldb.pc
LIST
diff "$work/wanted" "$work/found" || fail "other files than these are installed"
diff -r "$here/../include" "$prefix/include" || fail "other headers are installed"
[ "$(readlink "$prefix/lib/libleveldb.so")" = libleveldb.so.1d ] || fail "libleveldb.so is no link"
readelf -d "$prefix/lib/libleveldb.so.1d" | grep -q 'soname: \[libleveldb.so.1d\]' ||
    fail "another soname"

# For packages.
DESTDIR=$work/package sh "$here/../install.sh" /usr > /dev/null
grep -q '^prefix=/usr$' "$work/package/usr/lib/pkgconfig/leveldb.pc" || fail "DESTDIR shows"
sh "$here/../install.sh" 2> /dev/null && fail "no prefix is no error"

mkdir "$work/run" "$work/run2"
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion leveldb)" = 1.23.0 ] || fail "another version"
# shellcheck disable=SC2046
${CC:-cc} -o "$work/c" "$here/c/transcript.c" $(pkg-config --cflags --libs leveldb)
readelf -d "$work/c" | grep -q 'NEEDED.*\[libleveldb.so.1d\]' || fail "another library is needed"
(cd "$work/run" && LD_LIBRARY_PATH=$prefix/lib ../c > /dev/null) || fail "the program does not run"

if command -v cmake > /dev/null; then
    mkdir "$work/project"
    cp "$here/cpp/transcript.cc" "$work/project/"
    cat > "$work/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.10)
project(transcript CXX)
set(CMAKE_CXX_STANDARD 17)
find_package(leveldb 1.20 REQUIRED)
add_executable(transcript transcript.cc)
target_link_libraries(transcript leveldb::leveldb)
CMAKE
    (cd "$work/project" && cmake -DCMAKE_PREFIX_PATH="$prefix" . && cmake --build .) \
        > "$work/cmake.log" 2>&1 || { cat "$work/cmake.log" >&2; fail "CMake fails"; }
    (cd "$work/run2" && ../project/transcript > /dev/null) || fail "CMake's program does not run"
fi
echo "installed: programs that are built with it run"
