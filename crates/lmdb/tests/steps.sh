#!/bin/sh
# Counts the instructions of every kind of call beside LMDB as Debian packages it: those in the
# library and in a loop around it, the same on both sides. Fails where ours takes more than it may.
#
#     steps.sh [LIBRARY [WORK]]
#
# Needs valgrind. `PROFILES`, if set, is a folder to keep callgrind's profiles of ours in.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ $# -ge 1 ]; then
    library=$(realpath "$1")
    shift
else
    (cd "$root" && cargo build --release -p lmdb)
    library=${CARGO_TARGET_DIR:-$root/target}/release/liblmdb.so
fi
original=$(/sbin/ldconfig -p | sed -n 's/.*liblmdb\.so\.0 .*=> //p' | head -n 1)
[ -n "$original" ] || { echo "the original is missing: apt-get install liblmdb0" >&2; exit 2; }
${CC:-cc} -O2 -g -I "$here/../include" -o "$work/steps" "$here/c/steps.c" -ldl
"$work/steps" --list | grep -F -- "${1:-}" > "$work/list"

# instructions LIBRARY WORK PROFILE: of one kind of call.
instructions() {
    "$work/steps" "$1" "$work/store" "$2" --prepare
    calls=$(valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file="$3" \
        "$work/steps" "$1" "$work/store" "$2" 2> "$work/log") || { cat "$work/log" >&2; exit 1; }
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$work/log" |
        awk -v calls="$calls" '{ printf "%.1f", $1 / calls }'
}

printf '%-30s %10s %10s %8s %8s\n' "instructions a call" original ours ratio "at most"
while read -r most name; do
    profile=/dev/null
    [ -z "${PROFILES:-}" ] || profile="$PROFILES/$(echo "$name" | tr -c 'A-Za-z0-9\n' _)"
    a=$(instructions "$original" "$name" /dev/null)
    b=$(instructions "$library" "$name" "$profile")
    awk -v name="$name" -v a="$a" -v b="$b" -v most="$most" 'BEGIN {
        is_more = b * 100 > a * most
        printf "%-30s %10.1f %10.1f %8.2f %8.2f%s\n",
            name, a, b, b / a, most / 100, is_more ? "  too much" : ""
        exit is_more
    }' || : > "$work/more"
done < "$work/list"
[ ! -e "$work/more" ]
