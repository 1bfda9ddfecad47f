#!/bin/sh
# Measures this library beside LMDB as Debian packages it: times of both in one run, in turns, and
# where valgrind is installed, instructions a call. Prints tables; the lines of JSON that they are
# made of go to RESULTS, if that is set; the stores are made in WORK_FOLDER.
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

"$work/speed" "$original" "$library" "$work/timed" "$entries" "$key" "$value" "$rounds" \
    > "$work/results"
echo "$entries entries of $key/$value bytes         original           ours    ratio"
echo "nanoseconds a call:" && table ns
echo "bytes of the file:" && table bytes
if command -v valgrind > /dev/null; then
    echo "instructions a call:"
    few=$((entries < 100000 ? entries : 100000))
    for name in "append load" "random load" "random get" "get by itself" "renew, hot get" \
        "full scan" "range of 100" "one-put nosync"; do
        a=$(instructions "$name" "$original" "$few")
        b=$(instructions "$name" "$library" "$few")
        ratio=$(awk -v a="$a" -v b="$b" 'BEGIN { printf "%.3f", a / b }')
        printf '{"work": "%s", "entries": %s, "key": %s, "value": %s, "unit": "instructions", ' \
            "$name" "$few" "$key" "$value" >> "$work/results"
        printf '"original": %s, "other": %s, "ratio": %s}\n' "$a" "$b" "$ratio" >> "$work/results"
    done
    table instructions
fi
[ -z "${RESULTS:-}" ] || cp "$work/results" "$RESULTS"
