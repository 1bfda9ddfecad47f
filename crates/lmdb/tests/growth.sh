#!/bin/sh
# How long the file of this library gets beside that of LMDB as Debian packages it, under values that
# are put, replaced and deleted again and again (c/growth.c says which, and what bound is held).
# Prints a table; the lines of JSON that it is made of, which also have the curves, go to RESULTS, if
# that is set; the stores are made in WORK_FOLDER.
#
#     growth.sh [LIBRARY [DIVIDE]]        with DIVIDE so much fewer transactions
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

library=$(built lmdb liblmdb.so "$@")
find_original
${CC:-cc} -O2 -g -I "$here/../include" -o "$work/growth" "$here/c/growth.c" -ldl

status=0
"$work/growth" "$original" "$library" "$work/stores" "${2:-1}" > "$work/results" || status=$?
printf '%-26s %12s %14s %14s %8s\n' "bytes of the file" transactions original ours ratio
sed -n 's/.*"work": "\([^"]*\)", "transactions": \([0-9]*\), "original": \([0-9]*\), "other": \([0-9]*\), "ratio": \([0-9.]*\), "holds": \([a-z]*\).*/\1|\2|\3|\4|\5|\6/p' \
    "$work/results" | awk -F'|' '
    { printf "%-26s %12d %14d %14d %8.2f%s\n", $1, $2, $3, $4, $5, $6 == "true" ? "" : "  too long" }'
[ -z "${RESULTS:-}" ] || cp "$work/results" "$RESULTS"
exit $status
