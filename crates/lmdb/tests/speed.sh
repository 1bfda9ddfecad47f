#!/bin/sh
# Measures this library beside LMDB as Debian packages it: times of both in one run, in turns; the
# first pass of a process that has just begun, over a file that is in memory, and the private memory
# that it gains; and where valgrind is installed, instructions a call. Fails where scans and gets gain
# more than 1 MiB, or a load more than its budget. Prints tables; the lines of JSON that they are made
# of go to RESULTS, if that is set; the stores are made in WORK_FOLDER.
#
#     speed.sh [LIBRARY [ENTRIES KEY_BYTES VALUE_BYTES [ROUNDS]]]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

library=$(built lmdb liblmdb.so "$@")
find_original
entries=${2:-1000000}
key=${3:-24}
value=${4:-150}
rounds=${5:-3}
${CC:-cc} -O2 -g -I "$here/../include" -o "$work/speed" "$here/c/speed.c" -ldl -pthread

# table UNIT: the lines of JSON of a unit as columns.
table() {
    sed -n 's/.*"work": "\([^"]*\)".*"unit": "'"$1"'", "original": \([0-9.]*\), "other": \([0-9.]*\), "ratio": \([0-9.]*\).*/\1|\2|\3|\4/p' \
        "$work/results" | awk -F'|' '
        { printf "  %-16s %14.1f %14.1f %8.2f\n", $1, $2, $3, $4 }'
}

# instructions NAME LIBRARY ENTRIES: of one workload, a call.
instructions() {
    calls=$(cd "$work" && valgrind --tool=callgrind --toggle-collect=measured \
        --callgrind-out-file=/dev/null ./speed --once "$2" "$work/counted" "$1" "$3" "$key" \
        "$value" 2> "$work/valgrind.log")
    collected "$work/valgrind.log" "$calls"
}

# line NAME ENTRIES UNIT ORIGINAL OURS: adds one to the lines of JSON.
line() {
    ratio=$(awk -v a="$4" -v b="$5" 'BEGIN { printf "%.3f", b ? a / b : 0 }')
    printf '{"work": "%s", "entries": %s, "key": %s, "value": %s, "unit": "%s", ' \
        "$1" "$2" "$key" "$value" "$3" >> "$work/results"
    printf '"original": %s, "other": %s, "ratio": %s}\n' "$4" "$5" "$ratio" >> "$work/results"
}

# first LIBRARY FOLDER WORK: what a process that has just begun takes, over a file that is in memory.
first() {
    [ ! -e "$2/data.mdb" ] || cat "$2/data.mdb" > /dev/null
    "$work/speed" --first "$1" "$2" "$3" "$entries" "$key" "$value"
}

"$work/speed" "$original" "$library" "$work/timed" "$entries" "$key" "$value" "$rounds" \
    > "$work/results"
echo "$entries entries of $key/$value bytes         original           ours    ratio"
echo "nanoseconds a call:" && table ns
echo "bytes of the file:" && table bytes
too_much=0
for name in "random get" "full scan" "range of 100" "random load"; do
    a=$(first "$original" "$work/timed/original" "$name")
    b=$(first "$library" "$work/timed/other" "$name")
    line "$name" "$entries" first "${a% *}" "${b% *}"
    line "$name" "$entries" KiB "${a#* }" "${b#* }"
    # A write transaction may take 256 MiB for pages, and half of that again for the rest.
    [ "$name" = "random load" ] && most=$((384 * 1024)) || most=1024
    [ "${b#* }" -le "$most" ] || { echo "$name: gains more than $most KiB" >&2; too_much=1; }
done
echo "first pass of a process, nanoseconds of its own a call:" && table first
echo "private memory that it gains, KiB:" && table KiB
if command -v valgrind > /dev/null; then
    echo "instructions a call:"
    few=$((entries < 100000 ? entries : 100000))
    for name in "append load" "random load" "random get" "get by itself" "renew, hot get" \
        "full scan" "range of 100" "one-put nosync"; do
        a=$(instructions "$name" "$original" "$few")
        b=$(instructions "$name" "$library" "$few")
        line "$name" "$few" instructions "$a" "$b"
    done
    table instructions
fi
[ -z "${RESULTS:-}" ] || cp "$work/results" "$RESULTS"
[ "$too_much" = 0 ]
