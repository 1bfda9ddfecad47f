#!/bin/sh
# Runs the test suite of plyvel 1.5.1, a Python package for LevelDB, on this library: on both engines,
# and on LevelDB itself as Debian packages it, where that is installed. Every test must pass.
#
#     plyvel.sh [LIBRARY]
#
# LIBRARY is our libleveldb.so.1d; without it one is built (PROFILE and CARGO_TARGET_DIR as for
# ../install.sh). Needs a C++ compiler, Python 3 with its headers and venv, and PyPI. The suite
# expects an ordinary user: called by root, it is run by nobody.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
version=1.5.1
tests=54
# A folder that any user can read, and that is removed at the end.
work=$(mktemp -d -p "${WORK_FOLDER:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

mkdir "$work/ours"
if [ $# -ge 1 ]; then
    sh "$here/headers.sh" "$work/ours"
    cp "$1" "$work/ours/lib/libleveldb.so.1d"
else
    sh "$here/../install.sh" "$work/ours"
fi
ln -sf libleveldb.so.1d "$work/ours/lib/libleveldb.so"

python=${PYTHON:-/usr/bin/python3}
"$python" -m venv "$work/env"
pip() { "$work/env/bin/pip" --quiet --disable-pip-version-check "$@"; }
pip install pytest setuptools wheel 'cython<3.1'
pip download --no-binary plyvel --no-deps --no-build-isolation --dest "$work" "plyvel==$version"
tar -xf "$work/plyvel-$version.tar.gz" -C "$work"
suite=$work/plyvel-$version

# Against our headers; the library is looked for when the package is loaded.
[ -e "$suite/plyvel/_plyvel.cpp" ] || (cd "$suite" && "$work/env/bin/cython" --cplus plyvel/_plyvel.pyx)
(cd "$suite" && CPLUS_INCLUDE_PATH=$work/ours/include LIBRARY_PATH=$work/ours/lib \
    "$work/env/bin/python" setup.py -q build_ext --inplace > "$work/build.log" 2>&1) ||
    { cat "$work/build.log" >&2; exit 2; }

as_user() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=nobody --regid=nogroup --clear-groups env HOME="$work/home" "$@"
    else
        "$@"
    fi
}

# run NAME LIBRARIES ENGINE: the suite with the library of a folder.
run() {
    mkdir "$work/$1"
    chmod 777 "$work/$1"
    (cd "$suite" && LD_LIBRARY_PATH=$2 HEDGEROW_LEVELDB_ENGINE=$3 TMPDIR=$work/$1 PYTHONPATH=$suite \
        as_user timeout 1200 "$work/env/bin/python" -m pytest -q -p no:cacheprovider \
        --basetemp="$work/$1/base" test > "$work/$1.log" 2>&1) || true
    echo "$1: $(tail -n 1 "$work/$1.log")"
    grep -Eq "(^| )$tests passed in" "$work/$1.log" || { tail -n 60 "$work/$1.log" >&2; failed=1; }
}

failed=0
mkdir "$work/home" && chmod 777 "$work/home"
original=$(/sbin/ldconfig -p | sed -n 's/.*libleveldb\.so\.1d .*=> //p' | head -n 1)
[ -z "$original" ] || run LevelDB "$(dirname "$original")" tree
run tree "$work/ours/lib" tree
run lsm "$work/ours/lib" lsm
exit "$failed"
