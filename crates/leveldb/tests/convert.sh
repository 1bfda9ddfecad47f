#!/bin/sh
# Converts databases that LevelDB has made, with each compression it has, and back, and compares all
# entries through LevelDB and through this library; kills conversions in both directions KILLS times
# (20) and goes on with them; converts what plyvel has made; flips a byte. ENTRIES is how often the
# databases are written to: about two fifths as many entries are there then, as is said.
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
kills=${KILLS:-20}
python=${PYTHON:-/usr/bin/python3}

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

# plyvel LIBRARIES FOLDER CODE: runs Python with a database's folder and libraries.
plyvel() {
    LD_LIBRARY_PATH=$1 "$python" -c "
import hashlib, plyvel
folder = '$2'
$3"
}
sum_of_entries="
sum, entries = hashlib.sha256(), 0
for key, value in plyvel.DB(folder):
    sum.update(b'%d %d ' % (len(key), len(value)) + key + value)
    entries += 1
print(entries, sum.hexdigest()[:16])"

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
    echo "compression $compression: ${expected%% *} entries both ways with both engines"
done

# Killed again and again at random moments, a conversion goes on each time, and never loses what it
# had. One that comes to its end before it was killed often enough is begun anew.
with "$original" make source "$entries" 1
expected=$(with "$original" read source)

# How far a conversion has come: complete tables of LevelDB, or entries of ours.
came_to() {
    case $1 in
    to) wc -l < "$new.part/TABLES" ;;
    tree) "$hedgerow" count "$new.part/new/data.hdg" -t leveldb ;;
    # The process that was killed may not be gone at once.
    lsm) "$hedgerow" --timeout 30 scan "$new.part/new/lsm" -t leveldb --keys-only | wc -l ;;
    esac 2> /dev/null || echo 0
}

# killed WHAT LIBRARIES ARGUMENTS...: converts, with kills, and reads what was made.
killed() {
    what=$1 libraries=$2 new=killed count=0 most=0 went_on=0
    shift 2
    begin=$(date +%s%N)
    "$hedgerow" convert "$@" "$new" > /dev/null
    milliseconds=$((($(date +%s%N) - begin) / 1000000))
    rm -r "$new"
    while [ "$count" -lt "$kills" ]; do
        wait=$((1 + $(od -An -N4 -tu4 /dev/urandom) % (milliseconds / 3 + 1)))
        status=0
        timeout -s KILL "$(printf '%d.%03d' $((wait / 1000)) $((wait % 1000)))" \
            "$hedgerow" convert "$@" "$new" > said 2>&1 || status=$?
        case $status in
        0)
            [ "$(with "$libraries" read "$new")" = "$expected" ] || fail "$what: other entries"
            rm -r "$new"
            most=0
            continue
            ;;
        137) count=$((count + 1)) ;;
        *) fail "$what: after $count kills: $(cat said)" ;;
        esac
        # It was killed after it had given what it made its name.
        if [ -e "$new" ]; then
            [ "$(with "$libraries" read "$new")" = "$expected" ] || fail "$what: other entries"
            rm -rf "$new" "$new.part"
            most=0
            continue
        fi
        found=$(came_to "$what")
        [ "$found" -ge "$most" ] || fail "$what: $found were kept, $most were there"
        [ "$most" -eq 0 ] || went_on=$((went_on + 1))
        most=$found
    done
    "$hedgerow" convert "$@" "$new" > /dev/null
    [ "$(with "$libraries" read "$new")" = "$expected" ] ||
        fail "$what: other entries after $kills kills"
    rm -r "$new"
    echo "$what: $kills kills, after $went_on of which it went on with what was there"
}
for engine in tree lsm; do
    killed "$engine" "$work/lib" --from-leveldb source --engine "$engine"
done
"$hedgerow" convert --from-leveldb source store > /dev/null
killed to "$original" --from store --to-leveldb
rm -r store

# A database that a program in Python has made, with each compression.
if "$python" -c 'import plyvel' 2> /dev/null; then
    for compression in None "'snappy'"; do
        plyvel "$original" python "
db = plyvel.DB('python', create_if_missing=True, compression=$compression)
for n in range(20000):
    with db.write_batch(transaction=True, sync=n % 1000 == 0) as batch:
        batch.put(b'%d' % (n * 7919 % 10007), b'value %d ' % n * (n % 30))
        batch.delete(b'%d' % (n * 31 % 10007))
db.put(b'', b'')"
        sum=$(plyvel "$original" python "$sum_of_entries")
        for engine in tree lsm; do
            "$hedgerow" convert --from-leveldb python "$engine" --engine "$engine" > /dev/null
            [ "$(plyvel "$work/lib" "$engine" "$sum_of_entries")" = "$sum" ] ||
                fail "$engine: other entries than plyvel's"
            "$hedgerow" convert --from "$engine" --to-leveldb back > /dev/null
            [ "$(plyvel "$original" back "$sum_of_entries")" = "$sum" ] ||
                fail "$engine: plyvel gets other entries back"
            rm -r "$engine" back
        done
        rm -r python
        echo "plyvel, compression $compression: $sum"
    done
else
    echo "no plyvel: its databases are not converted (apt-get install python3-plyvel)"
fi

# A smaller one, which LevelDB opens twice more, so that no table is left that it does not need: of a
# large one a damaged block may hold only entries that were written again since.
rm -r source
with "$original" make source 300000 1
expected=$(with "$original" read source)

# In use, it is refused.
(LD_LIBRARY_PATH=$original exec "$work/convert" hold source > held) &
holder=$!
while [ ! -s held ]; do sleep 0.05; done
"$hedgerow" convert --from-leveldb source used 2> said && fail "a database in use is converted"
kill "$holder"
wait "$holder" 2> /dev/null || true
grep -q 'is in use' said || fail "it says: $(cat said)"

# A flipped byte is refused, and what salvage leaves out is named.
table=$(find source -name '*.ldb' -size +100k | sort | head -n 1)
printf '\377' | dd of="$table" bs=1 seek=5000 conv=notrunc 2> /dev/null
"$hedgerow" convert --from-leveldb source damaged 2> said && fail "damage is not seen"
grep -q "${table##*/}" said || fail "it says: $(cat said)"
# It goes on with what came over before the damage.
"$hedgerow" convert --from-leveldb source damaged --salvage > said && fail "a loss is no failure"
grep -q "^lost: .*${table##*/}" said || fail "it says: $(cat said)"
left=$(with "$work/lib" read damaged | cut -d ' ' -f 1)
all=$(echo "$expected" | cut -d ' ' -f 1)
[ "$left" -lt "$all" ] && [ "$left" -gt $((all - 500)) ] || fail "$left of $all are left"
echo "damaged: $left of $all entries are salvaged"
