#!/bin/sh
# Runs LMDB's tools as Debian packages them, and the hedgerow command under their names, with the
# same arguments over folders of the same content, and compares exit codes, output and messages.
# mdb_drop, which Debian does not package, is compiled with Debian's library from the sources that the
# crate lmdb-master-sys, which the benchmarks use, brings along.
#
#     tools.sh [HEDGEROW]
#
# HEDGEROW is the command; without it one is built. Needs lmdb-utils, liblmdb-dev, a C compiler and
# that crate in cargo's registry. Known differences, each with its reason, stand in tools.txt beside
# this script; any other is a failure, and so is one that is named there and not found.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

command=$(built hedgerow-cli hedgerow "$@")
mkdir -p "$work/bin/original" "$work/bin/ours" "$work/original" "$work/ours"
for tool in stat dump load copy; do
    ln -s "/usr/bin/mdb_$tool" "$work/bin/original/mdb_$tool"
done
for tool in stat dump load copy drop; do
    ln -s "$command" "$work/bin/ours/mdb_$tool"
done
drop=$(find "${CARGO_HOME:-$HOME/.cargo}/registry/src" -name mdb_drop.c | head -n 1)
[ -n "$drop" ] || { echo "mdb_drop.c is missing: cargo fetch" >&2; exit 2; }
mkdir "$work/include"
cp /usr/include/lmdb.h "$work/include"
cp "$drop" "$work/mdb_drop.c"
${CC:-cc} -w -I "$work/include" -o "$work/bin/original/mdb_drop" "$work/mdb_drop.c" \
    -L /usr/lib -l:liblmdb.so.0

# steady FILE: what both print, without numbers that hang on where pages are, which each file has its
# own of, and without warnings of header lines that the original writes itself.
steady() {
    sed -E -e '/^mapsize=/d' -e '/^  (Map size|Max pages|Number of pages used|Free pages|Leaf pages):/d' \
        -e '/ignoring unrecognized|unrecognized keyword ignored/d' \
        -e 's/^(LMDB 0\.9)\..*/\1/' "$1"
}

same=0
: > "$work/found"

# each NAME COMMAND...: runs it in the folder of each side, and compares.
each() {
    name=$1
    shift
    for side in original ours; do
        code=0
        (cd "$work/$side" && PATH=$work/bin/$side:$PATH sh -c "$*" > ../out 2> ../err < /dev/null) ||
            code=$?
        { steady "$work/out"; echo "-- messages"; steady "$work/err"; echo "-- exit code $code"; } \
            > "$work/$side.txt"
    done
    if cmp -s "$work/original.txt" "$work/ours.txt"; then
        same=$((same + 1))
        return
    fi
    echo "$name" >> "$work/found"
    if ! grep -qxF -- "$name" "$here/tools.txt"; then
        echo "$name: $*"
        diff "$work/original.txt" "$work/ours.txt" | head -n 12 | sed 's/^/    /'
    fi
}

# Text that both load.
for side in original ours; do
    cd "$work/$side"
    mkdir db odd empty plain target small other fresh
    {
        printf 'VERSION=3\nformat=bytevalue\ndatabase=pairs\ntype=btree\nmapsize=1048576\n'
        printf 'duplicates=1\ndupsort=1\ndupfixed=1\nintegerdup=1\nHEADER=END\n'
        printf ' 6b\n 02000000\n 6b\n 00010000\n 6b\n 01000000\nDATA=END\n'
        printf 'VERSION=3\nformat=bytevalue\ndatabase=back\ntype=btree\nreversekey=1\nHEADER=END\n'
        printf ' 6162\n 31\n 6261\n 32\nDATA=END\n'
        printf 'VERSION=3\nformat=print\ndatabase=words\ntype=btree\nmapsize=1048576\n'
        printf 'maxreaders=126\ndb_pagesize=4096\nHEADER=END\n'
        printf ' a key\n a value with \\5c and \\00 and \\ff\n another\n \nDATA=END\n'
    } > all
    printf 'VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n 00\n 01\n 6b6579\n 76\nDATA=END\n' > main
    printf 'k1\nv1\nk\\00\n\\ff\n' > lines
    printf 'k1\nv2\nk2\nv2\n' > more
    printf 'k1\nv2\nk2\n' > uneven
    printf 'VERSION=3\nformat=print\ntype=hash\nHEADER=END\nDATA=END\n' > hash
    printf 'VERSION=4\nformat=print\nHEADER=END\nDATA=END\n' > version
    printf 'VERSION=3\nformat=odd\nHEADER=END\nDATA=END\n' > format
    printf 'VERSION=3\nformat=bytevalue\nHEADER=END\n 6\n 61\nDATA=END\n' > half
    printf 'VERSION=3\nformat=bytevalue\nHEADER=END\n zz\n 61\nDATA=END\n' > digits
    printf 'VERSION=3\nformat=print\nHEADER=END\n key\nDATA=END\n' > valueless
    printf 'VERSION=3\nformat=print\nHEADER=END\n key\n value\n' > unended
    printf 'VERSION=3\nformat=print\nwhatever\nHEADER=END\nDATA=END\n' > no_equals
    printf 'VERSION=3\nformat=print\nduplicates=2\nHEADER=END\n k\n v\nDATA=END\n' > two
    printf 'VERSION=3\nformat=print\nHEADER=END\n b\n 1\n a\n 2\nDATA=END\n' > unsorted
    awk 'BEGIN { for (i = 0; i < 512; i++) printf "k"; print "\nvalue" }' > long_key
    awk 'BEGIN { for (i = 0; i < 3000; i++) printf "key %06d\nvalue %d\n", i, i * i }' > many
    : > nothing
    printf 'no store at all, but a text that is long enough to be looked at\n' > text
done
cd "$work"

each "load all" mdb_load -f all db
each "load of standard input" "mdb_load plain < main"
each "load again" mdb_load -f all db
each "load again, keeping" mdb_load -N -f all db
each "load headless" mdb_load -T -s lines -f lines db
each "load headless, again" mdb_load -T -s lines -f more db
each "load headless, keeping" mdb_load -NT -s lines -f more db
each "load headless into the main one" mdb_load -T -f more other
each "load headless, uneven" mdb_load -T -s uneven -f uneven odd
each "load many" mdb_load -T -s many -f many db
each "load many, no flush" mdb_load -QT -s quick -f many odd
each "load, appending" mdb_load -aT -s appended -f many odd
each "load, appending what is not sorted" mdb_load -a -s unsorted -f unsorted odd
each "load what is not sorted" mdb_load -s unsorted -f unsorted db
each "load a file" mdb_load -n -T -f more file
each "load of a missing file" mdb_load -f missing db
each "load into a missing folder" mdb_load -f all nowhere
each "load into a missing folder's file" mdb_load -n -f all nowhere/file
each "load of an empty text" mdb_load -f nothing fresh
each "load of another type" mdb_load -f hash odd
each "load of another version" mdb_load -f version odd
each "load of another format" mdb_load -f format odd
each "load of half a byte" mdb_load -f half -s half odd
each "load of no digits" mdb_load -f digits -s digits odd
each "load of a key alone" mdb_load -f valueless -s valueless odd
each "load without an end" mdb_load -f unended -s unended odd
each "load of a header line without a value" mdb_load -f no_equals -s no_equals odd
each "load of a flag that is no 1" mdb_load -f two -s two odd
each "load of a long key" mdb_load -T -f long_key odd
each "load into a text" mdb_load -n -T -f more text
each "load without a path" mdb_load
each "load with an unknown option" mdb_load -x db
each "load with an option cut off" mdb_load db -f
each "load's version" mdb_load -V

each "dump of the main one" mdb_dump plain
each "dump in print" mdb_dump -p plain
each "dump of all" mdb_dump -a db
each "dump of all in print" mdb_dump -pa db
each "dump of a list" mdb_dump -l db
each "dump of one" mdb_dump -s pairs db
each "dump of one behind the path" mdb_dump db -s words
each "dump of one in print" mdb_dump -ps words db
each "dump of a missing one" mdb_dump -s none db
each "dump of all and one" mdb_dump -a -s words db
each "dump of all without names" mdb_dump -a other
each "dump of all of binary keys" mdb_dump -a plain
each "dump of a list of none" mdb_dump -l other
each "dump of the main one with names" mdb_dump db
each "dump of an empty one" mdb_dump fresh
each "dump of all of an empty one" mdb_dump -a fresh
each "dump of a file" mdb_dump -n file
each "dump into a file" "mdb_dump -f out -s words db && grep -v mapsize out"
each "dump into a missing folder" mdb_dump -f nowhere/out -s words db
each "dump of nothing" mdb_dump nowhere
each "dump of a folder without one" mdb_dump empty
each "dump of a folder as a file" mdb_dump -n db
each "dump of a text" mdb_dump -n text
each "dump without a path" mdb_dump
each "dump of two paths" mdb_dump db plain
each "dump with an unknown option" mdb_dump -x db
each "dump's version" mdb_dump -V

each "stat" mdb_stat db
each "stat of one" mdb_stat -s words db
each "stat of a missing one" mdb_stat -s none db
each "stat of all" mdb_stat -a db
each "stat of all and one" mdb_stat -a -s words db
each "stat of an empty one" mdb_stat fresh
each "stat of a file" mdb_stat -n file
each "stat of the environment" mdb_stat -e other
each "stat of readers" mdb_stat -r db
each "stat of readers, cleared" mdb_stat -rr db
each "stat of readers and one" mdb_stat -r -s words db
each "stat of free pages, in words" "mdb_stat -f db | sed 's/:.*//'"
each "stat of nothing" mdb_stat nowhere
each "stat of a folder as a file" mdb_stat -n db
each "stat of a text" mdb_stat -n text
each "stat without a path" mdb_stat
each "stat with an unknown option" mdb_stat -x db
each "stat's version" mdb_stat -V

each "copy" "mdb_copy db target && mdb_dump -a target"
each "copy over another" mdb_copy db target
each "copy, compact" "mdb_copy -c db small && mdb_dump -a small"
each "copy of a file" "mdb_copy -n file file2 && mdb_dump -n file2"
each "copy to standard output" "mdb_copy db > streamed && mdb_dump -n -a streamed"
each "compact copy to standard output" "mdb_copy -c db > streamed2 && mdb_dump -n -a streamed2"
each "copy into a missing folder" mdb_copy db nowhere
each "copy of nothing" mdb_copy nowhere target
each "copy of a text" mdb_copy -n text text2
each "copy without a path" mdb_copy
each "copy of three paths" mdb_copy db small other
each "copy with an unknown option" mdb_copy -x db target
each "copy with options together" mdb_copy -cn file file3
each "copy's version" mdb_copy -V

each "drop of one's entries" "mdb_drop -s words db && mdb_stat -s words db"
each "drop of one" "mdb_drop -d -s words db && mdb_dump -l db"
each "drop of a missing one" mdb_drop -s none db
each "drop of the main one's entries" "mdb_drop other && mdb_dump other"
each "drop of a file" "mdb_drop -n file && mdb_dump -n file"
each "drop of nothing" mdb_drop nowhere
each "drop without a path" mdb_drop
each "drop with an unknown option" mdb_drop -x db
each "drop's version" mdb_drop -V

# The original on a store of ours is refused. It writes its own table into a lock file that nobody
# has open before it looks at the store: that harms neither who has it open nor who opens it next.
mkdir used
mkfifo feed
bin/ours/mdb_load -T used < feed &
exec 3> feed
printf 'k1\nv1\n' >&3
until [ -s used/data.mdb ] && [ -s used/lock.mdb ]; do sleep 0.1; done
if bin/original/mdb_stat used > out 2>&1; then cat out; exit 1; fi
begins=$(head -c 8 used/lock.mdb)
printf 'k2\nv2\n' >&3
exec 3>&-
wait $!
if bin/original/mdb_stat used > out 2>&1; then cat out; exit 1; fi
[ "$begins" = hdg-lock ] && [ "$(head -c 8 used/lock.mdb)" != hdg-lock ] ||
    { echo "the original's table is in a lock file in use, or in none"; exit 1; }
bin/ours/mdb_stat used | grep -qx '  Entries: 2'

grep -v -e '^#' -e '^$' "$here/tools.txt" | sort > "$work/known"
sort -o "$work/found" "$work/found"
known=$(comm -12 "$work/found" "$work/known" | wc -l)
other=$(comm -23 "$work/found" "$work/known" | wc -l)
gone=$(comm -13 "$work/found" "$work/known")
echo "$same the same, $known known to differ, $other other differences"
[ -z "$gone" ] || { echo "no longer different:"; echo "$gone"; }
[ "$other" = 0 ] && [ -z "$gone" ]
