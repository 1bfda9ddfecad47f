#!/bin/sh
# Reads whole databases with this library beside LMDB as Debian packages it, each time in a process
# of its own over a file that is in memory: nanoseconds of processor time an entry, for the first
# pass and later ones (the best of the rounds, in turns), and the private memory that a pass leaves;
# and gets in one transaction, a scan in a write transaction, and a load in one. Fails where a pass
# leaves more than 1 MiB, whatever the number of entries, or a load takes more than its budget, and,
# from 1,000,000 entries on, where it takes more than its share of LMDB's time. Prints a table, or with
# --json an object with `rows`. The stores are made in WORK_FOLDER.
#
#     scan.sh [--json] [LIBRARY [ENTRIES [ROUNDS]]]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

format=table
[ "${1:-}" != --json ] || { format=json; shift; }
library=$(built lmdb liblmdb.so "$@")
find_original
entries=${2:-10000000}
rounds=${3:-3}
${CC:-cc} -O2 -g -I "$here/../include" -o "$work/scan" "$here/c/scan.c" -ldl

# pass LIBRARY FOLDER KIND WORK: a process; its file is in memory before.
pass() {
    cat "$2/data.mdb" > /dev/null
    "$work/scan" "$1" "$2" "$3" "$entries" "$4"
}

for kind in plain compressed duplicates; do
    "$work/scan" "$original" "$work/original" "$kind" "$entries" --prepare
    "$work/scan" "$library" "$work/ours" "$kind" "$entries" --prepare
    for job in forwards backwards gets writing; do
        for round in $(seq "$rounds"); do
            told=$(pass "$original" "$work/original" "$kind" "$job")
            echo "$kind|$job|original $told"
            told=$(pass "$library" "$work/ours" "$kind" "$job")
            echo "$kind|$job|ours $told"
        done
    done
done > "$work/passes"
for side in original ours; do
    [ "$side" = ours ] && one=$library || one=$original
    echo "plain|load|$side $("$work/scan" "$one" "$work/loaded" plain "$entries" load)"
    rm -rf "$work/loaded"
done >> "$work/passes"

# The best of the rounds for times, the worst for memory.
awk '
    { split($0, part, "|"); split(part[3], field, " ") }
    {
        row = part[1] ", " part[2]
        if (!(row in seen)) { seen[row] = 1; order[++rows] = row }
        for (i = 2; i <= 3; i++) {
            at = row "|" field[1] "|" i
            if (!(at in best) || field[i] < best[at]) best[at] = field[i]
        }
        if (field[1] == "ours" && field[4] > gained[row] + 0) gained[row] = field[4]
    }
    END {
        for (i = 1; i <= rows; i++)
            for (j = 2; j <= 3 && best[order[i] "|ours|" j] > 0; j++)
                printf "%s, %s|%s|%s|%d\n", order[i], j == 2 ? "first" : "later",
                    best[order[i] "|original|" j], best[order[i] "|ours|" j], gained[order[i]]
    }' "$work/passes" > "$work/rows"

awk -F'|' -v format="$format" -v entries="$entries" '
    BEGIN {
        if (format == "json") printf "{\"entries\": %s, \"rows\": [", entries
        else printf "%-34s %10s %10s %7s %12s\n", "ns an entry, " entries, "lmdb", "ours",
            "ratio", "gained KiB"
    }
    {
        # A write transaction may take 256 MiB for pages, and half of that again for the rest.
        memory = $1 ~ /load/ ? 384 * 1024 : 1024
        most = $1 ~ /gets|writing|load/ ? 1 : $1 ~ /first/ ? 0.6 : 0.5
        is_bad = $4 > memory || entries >= 1000000 && $3 / $2 > most
        failed += is_bad
        if (format == "json")
            printf "%s\n{\"name\": \"%s\", \"ours\": %s, \"lmdb\": %s, \"gained_kib\": %d}",
                (NR > 1 ? "," : ""), $1, $3, $2, $4
        else
            printf "%-34s %10.1f %10.1f %7.2f %12d%s\n", $1, $2, $3, $3 / $2, $4,
                is_bad ? "  too much" : ""
    }
    END {
        if (format == "json") print "\n]}"
        exit failed > 0
    }' "$work/rows"
