#!/bin/sh
# Runs py-lmdb's own test suite on LMDB as Debian packages it and on this library, and compares them
# test by test: what passes on the original must pass here, and no test may end by a signal.
#
#     py-lmdb.sh [LIBRARY]
#
# LIBRARY is our liblmdb.so; without it one is built. Needs liblmdb-dev, Python 3.9 with venv, and
# PyPI. Each test runs in a process of its own. Known differences, each with its reason, stand in
# py-lmdb.txt beside this script.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
version=${PY_LMDB_VERSION:-3.0.0}

library=$(built lmdb liblmdb.so "$@")
find_original

python3 -m venv "$work/env"
"$work/env/bin/pip" --quiet --disable-pip-version-check install \
    'pytest<9' pytest-forked setuptools wheel cffi patch-ng
"$work/env/bin/pip" --quiet --disable-pip-version-check download \
    --no-binary lmdb --no-deps --no-build-isolation --dest "$work" "lmdb==$version"

# build NAME HEADERS LIBRARY: py-lmdb against these, in a folder of its own.
build() {
    mkdir "$work/$1"
    place "$work/$1/lib" "$3"
    tar -xf "$work/lmdb-$version.tar.gz" -C "$work/$1" --strip-components=1
    (cd "$work/$1" && LMDB_FORCE_SYSTEM=1 LMDB_INCLUDEDIR=$2 LMDB_LIBDIR=$work/$1/lib \
        "$work/env/bin/python" setup.py -q build_ext --inplace > build.log 2>&1) ||
        { cat "$work/$1/build.log" >&2; exit 2; }
}

# run NAME: one line a test, "outcome test". A test may end by a signal, not the run.
run() {
    (cd "$work/$1" && LD_LIBRARY_PATH=$work/$1/lib PYTHONPATH=$work/$1 \
        timeout 1500 "$work/env/bin/python" -m pytest --forked -q -rA -m '' --continue-on-collection-errors \
        -p no:cacheprovider tests > run.log 2>&1) || true
    sed -n -e 's/^\(PASSED\|FAILED\|ERROR\|XFAIL\|XPASS\) \([^ ]*\).*/\1 \2/p' \
        "$work/$1/run.log" | sort -k 2 -u > "$work/$1/outcomes"
    tail -n 1 "$work/$1/run.log"
    [ -s "$work/$1/outcomes" ] || { tail -n 30 "$work/$1/run.log" >&2; exit 2; }
}

build original /usr/include "$original"
build ours "$here/../include" "$library"
echo "the original:" && run original
echo "this library:" && run ours
[ -z "${KEEP_LOGS:-}" ] || cp "$work/original/run.log" "$KEEP_LOGS/original.log"
[ -z "${KEEP_LOGS:-}" ] || cp "$work/ours/run.log" "$KEEP_LOGS/ours.log"

# Tests that pass on the original and not here.
grep '^PASSED ' "$work/original/outcomes" | cut -d ' ' -f 2 | sort > "$work/expected"
grep '^PASSED ' "$work/ours/outcomes" | cut -d ' ' -f 2 | sort > "$work/passed"
[ "$(wc -l < "$work/expected")" -ge 300 ] ||
    { tail -n 30 "$work/original/run.log" >&2; echo "the suite does not run" >&2; exit 2; }
# A line of the list is a test, or a file of tests.
sed -e 's/#.*//' -e 's/ *$//' -e '/^$/d' "$here/py-lmdb.txt" | sort > "$work/known"
comm -23 "$work/expected" "$work/passed" > "$work/lost"
awk -F :: 'NR == FNR { known[$0]; next } !($0 in known) && !($1 in known)' \
    "$work/known" "$work/lost" > "$work/unknown"
# What fails on the original too when it is run again hangs on chance, or on how busy the machine is.
passes() {
    (cd "$work/original" && LD_LIBRARY_PATH=$work/original/lib PYTHONPATH=$work/original timeout 300 \
        "$work/env/bin/python" -m pytest --forked -q -m '' -p no:cacheprovider "$1" > again.log 2>&1)
}
: > "$work/chance"
while read -r test; do
    for try in 1 2 3 4 5; do
        passes "$test" || { echo "$test" >> "$work/chance"; break; }
    done
done < "$work/unknown"
[ ! -s "$work/chance" ] || { echo "fail on the original too, run again:"; cat "$work/chance"; }
comm -23 "$work/unknown" "$work/chance" > "$work/sure" && mv "$work/sure" "$work/unknown"
crashed=$(grep -c 'CRASHED with signal' "$work/ours/run.log" || true)
unknown=$(cat "$work/unknown")
stale=$(comm -12 "$work/known" "$work/passed")
echo "$(wc -l < "$work/expected") pass on the original, $(wc -l < "$work/passed") here;" \
    "$(wc -l < "$work/lost") of the former do not, $(wc -l < "$work/unknown") without a reason;" \
    "$crashed ended by a signal here," \
    "$(grep -c 'CRASHED with signal' "$work/original/run.log" || true) on the original"
[ -z "$unknown" ] || printf 'pass on the original only:\n%s\n' "$unknown"
[ -z "$stale" ] || printf 'pass after all, take them out of py-lmdb.txt:\n%s\n' "$stale"
[ -z "$unknown$stale" ] && [ "$crashed" = 0 ]
