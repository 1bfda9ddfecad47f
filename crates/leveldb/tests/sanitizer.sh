#!/bin/sh
# Runs the C and C++ programs of tests/ under AddressSanitizer, with leaks, and
# UndefinedBehaviorSanitizer, on this library, whose Rust and C++ are built under AddressSanitizer.
# On both engines; fails at the first report.
#
#     sanitizer.sh [LIBRARY]
#
# LIBRARY is our libleveldb.so.1d, built so; without it one is built. Needs g++ with its sanitizers
# and a compiler of Rust that brings its own (RUSTC_BOOTSTRAP=1 lets a stable one). SEEDS is how many
# seeds of random calls are tried (50).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d -p "${WORK_FOLDER:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
flags="-g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer"

sh "$here/headers.sh" "$work"
if [ $# -ge 1 ]; then
    cp "$1" "$work/lib/libleveldb.so.1d"
else
    host=$(rustc -vV | sed -n 's/^host: //p')
    target=${CARGO_TARGET_DIR:-$root/target}/sanitizer
    # A target by name keeps the sanitizer out of build scripts.
    (cd "$root" && RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$target \
        env "CXXFLAGS_$(echo "$host" | tr - _)=$flags" \
        cargo build --profile quick -p leveldb --target "$host") >&2
    CXX_FLAGS=$flags sh "$here/../link.sh" "$target/$host/quick/libleveldb.a" \
        "$work/lib/libleveldb.so.1d"
fi
for symbol in __asan_init __ubsan; do
    nm -D "$work/lib/libleveldb.so.1d" | grep -q "$symbol" ||
        { echo "the library is not built under sanitizers: no $symbol" >&2; exit 2; }
done
export LD_LIBRARY_PATH="$work/lib"

# compile SOURCE: to a program of the same name.
compile() {
    case $1 in
    *.c) compiler="${CC:-cc} -std=gnu11" ;;
    *) compiler="${CXX:-c++} -std=c++11" ;;
    esac
    # shellcheck disable=SC2086
    $compiler $flags -I "$work/include" -o "$work/$(basename "$1")" "$here/$1" \
        "$work/lib/libleveldb.so.1d" -pthread
}

# silent NAME ARGUMENTS...: runs a program in an empty folder, on each engine.
silent() {
    name=$1
    shift
    for engine in tree lsm; do
        rm -rf "$work/run"
        mkdir "$work/run"
        if ! (cd "$work/run" && HEDGEROW_LEVELDB_ENGINE=$engine "$work/$name" "$@") \
            > "$work/out" 2>&1 || grep -E 'Sanitizer|runtime error' "$work/out"; then
            tail -n 60 "$work/out" >&2
            echo "$name: is not silent, or fails, on $engine" >&2
            exit 1
        fi
    done
    echo "$name: silent"
}

for source in c/transcript.c c/misuse.c c/random.c cpp/transcript.cc cpp/own.cc cpp/threads.cc \
    cpp/slots.cc; do
    compile "$source"
done
silent transcript.c
silent misuse.c
silent transcript.cc
silent own.cc
silent threads.cc
silent slots.cc
silent random.c 1 "${SEEDS:-50}" 1000
