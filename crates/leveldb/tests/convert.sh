#!/bin/sh
# Converts databases that LevelDB has made, with each compression it has, and back, and compares all
# entries through LevelDB and through this library; kills a conversion and goes on with it; flips a
# byte.
#
#     convert.sh [HEDGEROW LIBRARY]
#
# HEDGEROW is our command and LIBRARY our libleveldb.so.1d; without them they are built. Needs
# LevelDB's headers and library (libleveldb-dev) and a C++ compiler.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d -p "${WORK_FOLDER:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
entries=${ENTRIES:-300000}

mkdir -p "$work/lib"
if [ $# -eq 2 ]; then
    hedgerow=$(realpath "$1")
    cp "$2" "$work/lib/libleveldb.so.1d"
else
    (cd "$root" && cargo build --release -p hedgerow-cli -p leveldb) >&2
    built=${CARGO_TARGET_DIR:-$root/target}/release
    hedgerow=$built/hedgerow
    sh "$here/../link.sh" "$built/libleveldb.a" "$work/lib/libleveldb.so.1d"
fi
original=$(dirname "$(/sbin/ldconfig -p | sed -n 's/.*libleveldb\.so\.1d .*=> //p' | head -n 1)")
${CXX:-c++} -std=c++17 -O1 -o "$work/convert" "$here/cpp/convert.cc" -lleveldb

fail() {
    echo "$*" >&2
    exit 1
}

# with LIBRARIES ARGUMENTS...: the program that makes and reads databases.
with() {
    libraries=$1
    shift
    LD_LIBRARY_PATH=$libraries "$work/convert" "$@"
}

# The source as it was: nothing of it may change.
state() { (cd "$1" && find . -type f -exec cksum {} + | sort); }

cd "$work"
for compression in 0 1; do
    with "$original" make source "$entries" "$compression"
    expected=$(with "$original" read source)
    state source > before
    for engine in tree lsm; do
        "$hedgerow" convert --from-leveldb source "$engine" --engine "$engine" > said
        grep -q "$(echo "$expected" | cut -d ' ' -f 1) entries on both sides" said ||
            fail "it says: $(cat said)"
        [ "$(with "$work/lib" read "$engine")" = "$expected" ] || fail "$engine: other entries"
        "$hedgerow" stat "$engine" > /dev/null
        "$hedgerow" convert --from "$engine" --to-leveldb back > /dev/null
        [ "$(with "$original" read back)" = "$expected" ] || fail "$engine: other entries come back"
        rm -r "$engine" back
    done
    state source | diff before - || fail "the source has changed"
    rm -r source
done

# Killed again and again, it comes to its end.
with "$original" make source "$entries" 1
expected=$(with "$original" read source)
"$hedgerow" convert --from-leveldb source whole > /dev/null
kills=0
for time in 0.01 0.02 0.05 0.1 0.1 0.2 0.2 0.3 0.4 0.5; do
    timeout -s KILL "$time" "$hedgerow" convert --from-leveldb source killed > /dev/null 2>&1 &&
        break
    kills=$((kills + 1))
done
[ -e killed ] || "$hedgerow" convert --from-leveldb source killed > /dev/null
[ "$(with "$work/lib" read killed)" = "$expected" ] || fail "other entries after $kills kills"

# In use, it is refused.
(LD_LIBRARY_PATH=$original exec "$work/convert" hold source > held) &
holder=$!
while [ ! -s held ]; do sleep 0.05; done
"$hedgerow" convert --from-leveldb source used 2> said && fail "a database in use is converted"
kill "$holder"
wait "$holder" || true
grep -q 'is in use' said || fail "it says: $(cat said)"

# A flipped byte is refused, and what salvage leaves out is named.
table=$(find source -name '*.ldb' -size +100k | sort | head -n 1)
printf '\377' | dd of="$table" bs=1 seek=5000 conv=notrunc 2> /dev/null
"$hedgerow" convert --from-leveldb source damaged 2> said && fail "damage is not seen"
grep -q "${table##*/}" said || fail "it says: $(cat said)"
rm -rf damaged.part
"$hedgerow" convert --from-leveldb source damaged --salvage > said && fail "a loss is no failure"
grep -q "^lost: .*${table##*/}" said || fail "it says: $(cat said)"
left=$(with "$work/lib" read damaged | cut -d ' ' -f 1)
all=$(echo "$expected" | cut -d ' ' -f 1)
[ "$left" -lt "$all" ] && [ "$left" -gt $((all - 500)) ] || fail "$left of $all are left"
echo "converted: $all entries both ways with both engines, after $kills kills, $left of them salvaged"
