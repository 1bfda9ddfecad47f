#!/bin/sh
# Runs litecoind, a node whose databases are LevelDB's, on LevelDB as Debian packages it and on this
# library, both engines: a private chain with transactions, kills at random moments, an index made
# anew; its databases converted, and back. What the node says of its coins must be the same
# everywhere.
#
#     litecoind.sh [LIBRARY HEDGEROW]
#
# LIBRARY is our libleveldb.so.1d and HEDGEROW our command; without them they are built (PROFILE and
# CARGO_TARGET_DIR as for ../install.sh). Needs litecoind (Debian's package). BLOCKS and KILLS say
# how many of them.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
blocks=${BLOCKS:-400}
kills=${KILLS:-20}
work=$(mktemp -d -p "${WORK_FOLDER:-${TMPDIR:-/tmp}}")
node=
trap '[ -z "$node" ] || kill -9 "$node" 2> /dev/null || true; rm -rf "$work"' EXIT

if [ $# -eq 2 ]; then
    sh "$here/headers.sh" "$work/ours"
    cp "$1" "$work/ours/lib/libleveldb.so.1d"
    hedgerow=$(realpath "$2")
else
    sh "$here/../install.sh" "$work/ours"
    root=$(cd "$here/../../.." && pwd)
    (cd "$root" && cargo build --release -p hedgerow-cli) >&2
    hedgerow=${CARGO_TARGET_DIR:-$root/target}/release/hedgerow
fi
original=$(dirname "$(/sbin/ldconfig -p | sed -n 's/.*libleveldb\.so\.1d .*=> //p' | head -n 1)")

fail() {
    echo "$*" >&2
    tail -n 20 "$data/regtest/debug.log" >&2 || true
    exit 1
}

# Only this machine is talked to: no peers, and the port of the calls on the loop-back address.
port=$((20000 + $$ % 20000))
cli() {
    timeout 180 litecoin-cli -regtest -datadir="$data" -rpcport="$port" -rpcwait "$@"
}

start() {
    LD_LIBRARY_PATH=$libraries HEDGEROW_LEVELDB_ENGINE=$engine litecoind -regtest -datadir="$data" \
        -server -listen=0 -connect=0 -dnsseed=0 -rpcport="$port" -txindex -dbcache=4 \
        -fallbackfee=0.001 "$@" > "$work/node.log" 2>&1 &
    node=$!
    cli getblockcount > /dev/null || fail "$name: the node does not start: $(cat "$work/node.log")"
}

stop() {
    cli stop > /dev/null
    wait "$node" || fail "$name: the node does not end well"
    node=
}

# What the node says of its coins.
coins() { cli gettxoutsetinfo | grep -E 'height|bestblock|txouts|hash_serialized|total_amount'; }

# A chain, which every library gets the same blocks of.
make_chain() {
    start
    cli createwallet w > /dev/null 2>&1 || true
    address=$(cli getnewaddress)
    cli generatetoaddress $((blocks - 120)) "$address" > /dev/null
    for round in $(seq 12); do
        for transaction in $(seq 8); do
            cli sendtoaddress "$(cli getnewaddress)" "0.$round$transaction" > /dev/null
        done
        cli generatetoaddress 10 "$address" > /dev/null
    done
    coins > "$work/expected"
    stop
}

# Has a node take the blocks of another one's files, from the beginning or where it came to.
import() { start -loadblock="$work/chain/regtest/blocks/blk00000.dat" -disablewallet; }

# Waits until all blocks are there.
arrive() {
    for wait in $(seq 480); do
        [ "$(cli getblockcount)" -lt "$height" ] || return 0
        sleep 0.25
    done
    fail "$name: blocks are missing $1"
}

same() {
    coins > "$work/found"
    diff "$work/expected" "$work/found" >&2 || fail "$name: other coins $1"
}

# The databases of a node, in its folder.
databases="chainstate blocks/index indexes/txindex"

# convert_all ARGUMENTS...: puts what the command makes of each database in its place.
convert_all() {
    for database in $databases; do
        place=$data/regtest/$database
        mv "$place" "$place.old"
        "$hedgerow" convert "$@" "$place.old" "$place" > "$work/said" ||
            fail "$name: $database is not converted: $(cat "$work/said")"
        rm -r "$place.old"
    done
}

# A random number below another one.
below() { echo $(($(od -An -N2 -tu2 /dev/urandom) % $1)); }

name=LevelDB libraries=$original engine=tree data=$work/chain
mkdir "$data"
make_chain
height=$(sed -n 's/.*"height": \([0-9]*\).*/\1/p' "$work/expected")
for engine in tree lsm; do
    name=$engine libraries=$work/ours/lib data=$work/$engine
    mkdir "$data"
    for kill in $(seq "$kills"); do
        import
        sleep "0.$(below 5)"
        kill -9 "$node"
        wait "$node" 2> /dev/null || true
    done
    import
    arrive "after $kills kills"
    grep -q "^engine $engine" "$data/regtest/chainstate/CURRENT" || fail "$name: another engine"
    same "after $kills kills"
    stop
    start -reindex-chainstate -disablewallet
    arrive "after the index was made anew"
    same "after the index was made anew"
    [ "$(cli verifychain 4 0)" = true ] || fail "$name: verifychain fails"
    stop
    echo "$name: $height blocks, $kills kills, an index made anew: the same coins"
    rm -r "$data"
    # The databases that the node made on LevelDB, converted, and back.
    cp -r "$work/chain" "$data"
    convert_all --engine "$engine" --from-leveldb
    start -disablewallet
    grep -q "^engine $engine" "$data/regtest/chainstate/CURRENT" || fail "$name: another engine"
    same "after its databases were converted"
    [ "$(cli verifychain 4 0)" = true ] || fail "$name: verifychain fails"
    stop
    convert_all --to-leveldb --from
    libraries=$original
    start -disablewallet
    same "after its databases were converted back"
    [ "$(cli verifychain 4 0)" = true ] || fail "$name: verifychain fails on LevelDB"
    stop
    rm -r "$data"
    echo "$name: databases of LevelDB converted, and back: the same coins"
done
