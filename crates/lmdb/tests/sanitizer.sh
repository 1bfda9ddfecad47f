#!/bin/sh
# Runs the C programs of tests/c and LMDB's own test programs under AddressSanitizer, with leaks, and
# UndefinedBehaviorSanitizer, on this library built under AddressSanitizer. Fails at the first report.
#
#     sanitizer.sh [LIBRARY]
#
# LIBRARY is our liblmdb.so, built so; without it one is built. Needs gcc with its sanitizers, a
# compiler of Rust that brings its own (RUSTC_BOOTSTRAP=1 lets a stable one), and for the fuzzer and
# mtest what peers.sh needs. SEEDS is how many hostile stores are tried (1000).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

if [ $# -ge 1 ]; then
    library=$(realpath "$1")
else
    host=$(rustc -vV | sed -n 's/^host: //p')
    target=${CARGO_TARGET_DIR:-$root/target}/sanitizer
    # A target by name keeps the sanitizer out of build scripts.
    (cd "$root" && RUSTC_BOOTSTRAP=1 RUSTFLAGS=-Zsanitizer=address CARGO_TARGET_DIR=$target \
        cargo build --profile quick -p lmdb --target "$host")
    library=$target/$host/quick/liblmdb.so
fi
nm -D "$library" | grep -q __asan_init ||
    { echo "$library is not built under AddressSanitizer" >&2; exit 2; }
find_original
place "$work/lib" "$library"
export LD_LIBRARY_PATH="$work/lib"

# compile SOURCE PROGRAM: warnings are those of the usual build, where they are errors.
compile() {
    ${CC:-cc} -w -g -O1 -D_GNU_SOURCE -fsanitize=address,undefined -fno-sanitize-recover=all \
        -I "$here/../include" -I "$here/c" -o "$work/$2" "$1" -L "$work/lib" -llmdb -ldl -pthread
}

# silent NAME ARGUMENTS...: runs a program in an empty folder.
silent() {
    name=$1
    shift
    rm -rf "$work/run"
    mkdir -p "$work/run/testdb"
    if (cd "$work/run" && "$work/$name" "$@") > "$work/out" 2>&1 &&
        ! grep -E 'Sanitizer|runtime error' "$work/out"; then
        echo "$name: silent"
    else
        tail -n 60 "$work/out" >&2
        echo "$name: is not silent, or fails" >&2
        exit 1
    fi
}

for name in counts misuse aliases processes copies short renewed hostile transcript fuzz; do
    compile "$here/c/$name.c" "$name"
done
silent counts
silent misuse
silent aliases
silent processes
silent copies
silent short
silent renewed
silent hostile 1 "${SEEDS:-1000}"
mkdir "$work/transcript-folder"
silent transcript "$work/transcript-folder" ours
silent fuzz "$original" "$library" "$work/fuzz-folder" --seeds 1..200
source=$(fetch_source)
[ -n "$source" ] || { echo "LMDB's sources are missing" >&2; exit 2; }
for name in mtest mtest2 mtest3 mtest4 mtest5; do
    sed 's/srand(time(NULL))/srand(20260101)/' "$source/$name.c" > "$work/$name.c"
    compile "$work/$name.c" "$name"
    silent "$name"
done
