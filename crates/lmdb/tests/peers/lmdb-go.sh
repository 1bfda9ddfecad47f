#!/bin/sh
# Runs the tests of lmdb-go; prints what became of each.
#
#     lmdb-go.sh FOLDER
#
# FOLDER has the sources in `source` and the compiled tests of each package in `bin`.
set -eu

for package in lmdb lmdbscan exp/lmdbsync; do
    tests=$1/bin/$(basename "$package").test
    (cd "$1/source/$package" && "$tests" -test.v 2>&1 || true) |
        sed -n 's/^ *\(--- [A-Z]*: [^ ]*\).*/\1/p' | sort
done
