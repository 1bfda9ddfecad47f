# What the scripts beside this one begin with: where things are, a folder to work in that is removed
# at the end, and the libraries that are compared. They set `here`, the folder that they are in, and
# read this file.

root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d -p "${WORK_FOLDER:-${TMPDIR:-/tmp}}")
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT

# built PACKAGE FILE [PATH]: PATH in full, or where FILE of a package is after building it.
built() {
    if [ $# -ge 3 ]; then
        realpath "$3"
    else
        (cd "$root" && cargo build --release -p "$1") >&2
        echo "${CARGO_TARGET_DIR:-$root/target}/release/$2"
    fi
}

# find_original: sets `original` to LMDB's library as Debian packages it.
find_original() {
    original=$(/sbin/ldconfig -p | sed -n 's/.*liblmdb\.so\.0 .*=> //p' | head -n 1)
    [ -n "$original" ] || { echo "the original is missing: apt-get install liblmdb0" >&2; exit 2; }
}

# place FOLDER LIBRARY: a library in a new folder, under the names that programs ask for.
place() {
    mkdir "$1"
    ln -s "$(realpath "$2")" "$1/liblmdb.so"
    ln -s "$(realpath "$2")" "$1/liblmdb.so.0"
}

# collected LOG CALLS: instructions a call, of what callgrind says in its log.
collected() {
    sed -n 's/.*Collected : \([0-9]*\).*/\1/p' "$1" |
        awk -v calls="$2" '{ printf "%.1f", $1 / calls }'
}

# The folder of LMDB's sources: of Debian's package of the version that is installed, or cargo's
# copy in the crate lmdb-master-sys; nothing if there is neither.
fetch_source() {
    mkdir -p "$work/source" "$work/apt/parts" "$work/apt/lists/partial"
    sed 's/^Types: deb$/Types: deb-src/' /etc/apt/sources.list.d/debian.sources \
        > "$work/apt/parts/source.sources" 2> /dev/null &&
        (cd "$work/source" &&
            set -- -qq -o Dir::Etc::sourcelist=/dev/null \
                -o Dir::Etc::sourceparts="$work/apt/parts" \
                -o Dir::State::lists="$work/apt/lists" &&
            apt-get "$@" update && apt-get "$@" source lmdb) > "$work/apt/log" 2>&1
    found=$(find "$work/source" "${CARGO_HOME:-$HOME/.cargo}/registry/src" -name mtest.c \
        -path '*liblmdb*' 2> /dev/null | head -n 1)
    [ -z "$found" ] || dirname "$found"
}
