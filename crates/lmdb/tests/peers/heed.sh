#!/bin/sh
# heed's own tests and examples, built in the folder that is given: a line a test, then what each
# example prints. Left out is what must differ, and says nothing here:
#
# - resize_database wants a map of 9 pages to be full where LMDB's lists of free pages fill it, and
#   not with 10. Ours hold more in as many pages (docs/lmdb-compat.md, "Sizes and limits").
set -eu

for tests in "$1"/deps/heed-*; do
    case $tests in *.d) continue ;; esac
    timeout 300 "$tests" --test-threads 1 --skip resize_database 2>&1 |
        sed -n 's/^\(test .* \.\.\. .*\)/\1/p'
done
for example in "$1"/examples/*; do
    name=${example##*/}
    case $name in *-*[0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f][0-9a-f] | *.d) continue ;; esac
    echo "$name:"
    timeout 60 "$example" 2>&1 && code=0 || code=$?
    echo "code $code"
done
