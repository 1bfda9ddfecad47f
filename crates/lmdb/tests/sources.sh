# LMDB's own sources, for the scripts beside this one: they set `work`, a folder for what is fetched.

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
