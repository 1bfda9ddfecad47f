#!/bin/sh
# Runs py-lmdb's own test suite on hedgerow.lmdb under the name `lmdb`.
#
#     py-lmdb.sh PYTHON
#
# PYTHON is that of a virtual environment which has hedgerow. Needs PyPI. Each test runs in a
# process of its own. What does not pass stands in py-lmdb.txt beside this script, with the reasons.
# The modules of py-lmdb that are themselves programs on its interface (aio, tool) are run as they
# are.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
python=$1
version=${PY_LMDB_VERSION:-3.0.0}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/env"
"$work/env/bin/pip" --quiet --disable-pip-version-check install \
    'pytest<9' pytest-forked setuptools wheel cffi patch-ng
"$work/env/bin/pip" --quiet --disable-pip-version-check download \
    --no-binary lmdb --no-deps --no-build-isolation --dest "$work" "lmdb==$version"
tar -xf "$work/lmdb-$version.tar.gz" -C "$work"
suite=$work/lmdb-$version

mkdir "$work/run" "$work/run/lmdb"
cp -r "$suite/tests" "$work/run/tests"
for module in aio tool verify _envid __main__; do
    cp "$suite/lmdb/$module.py" "$work/run/lmdb/"
done
cat > "$work/run/lmdb/__init__.py" << 'END'
from hedgerow.lmdb import *
from hedgerow.lmdb import __all__, __doc__, open

# The suite skips by this what is for one of py-lmdb's two forms only: this is to pass what its C
# extension does.
Environment.__module__ = 'builtins'
END
printf "__version__ = '%s'\n" "$version" >> "$work/run/lmdb/__init__.py"

# Only hedgerow comes from PYTHON's environment, not the pytest that may be there.
package=$(cd / && "$python" -c 'import hedgerow, os; print(os.path.dirname(hedgerow.__file__))')
ln -s "$package" "$work/run/hedgerow"
(cd "$work/run" && PYTHONPATH="$work/run" \
    timeout 1500 "$work/env/bin/python" -m pytest --forked -q -rA -m '' \
    --continue-on-collection-errors -p no:cacheprovider tests > run.log 2>&1) || true
tail -n 1 "$work/run/run.log"

sed -n -e 's/^\(FAILED\|ERROR\) \([^ ]*\).*/\2/p' "$work/run/run.log" | sort -u > "$work/failed"
sed -n -e 's/^PASSED \([^ ]*\).*/\1/p' "$work/run/run.log" | sort -u > "$work/passed"
[ "$(wc -l < "$work/passed")" -ge 300 ] ||
    { tail -n 30 "$work/run/run.log" >&2; echo "the suite does not run" >&2; exit 2; }
sed -e 's/#.*//' -e 's/ *$//' -e '/^$/d' "$here/py-lmdb.txt" | sort > "$work/known"
unknown=$(awk -F :: 'NR == FNR { known[$0]; next } !($0 in known) && !($1 in known)' \
    "$work/known" "$work/failed")
stale=$(comm -12 "$work/known" "$work/passed")
echo "$(wc -l < "$work/passed") pass, $(wc -l < "$work/failed") do not"
[ -z "$unknown" ] || printf 'do not pass, and are not in py-lmdb.txt:\n%s\n' "$unknown"
[ -z "$stale" ] || printf 'pass after all, take them out of py-lmdb.txt:\n%s\n' "$stale"
[ -z "$unknown$stale" ]
