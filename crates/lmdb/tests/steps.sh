#!/bin/sh
# Counts the instructions of every kind of call beside LMDB as Debian packages it: those in the
# library and in a loop around it, the same on both sides. Fails where ours takes more than it may.
#
#     steps.sh [LIBRARY [WORK]]
#
# Needs valgrind. `PROFILES`, if set, is a folder to keep callgrind's profiles of ours in.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

library=$(built lmdb liblmdb.so "$@")
find_original
${CC:-cc} -O2 -g -I "$here/../include" -o "$work/steps" "$here/c/steps.c" -ldl
"$work/steps" --list | grep -F -- "${2:-}" > "$work/list"

# instructions LIBRARY WORK PROFILE: of one kind of call.
instructions() {
    "$work/steps" "$1" "$work/store" "$2" --prepare
    calls=$(valgrind --tool=callgrind --toggle-collect=measured --callgrind-out-file="$3" \
        "$work/steps" "$1" "$work/store" "$2" 2> "$work/log") || { cat "$work/log" >&2; exit 1; }
    collected "$work/log" "$calls"
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
