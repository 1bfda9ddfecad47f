#!/bin/sh
# Runs programs of others on LMDB as Debian packages it and on this library, and compares what they
# print: LMDB's own test programs, compiled against our header, and packaged programs that are given
# our library through LD_LIBRARY_PATH; also heed's tests and examples, lmdb-go's tests, and lmdbjava.
#
#     peers.sh [LIBRARY]
#
# Needs liblmdb-dev, python3-lmdb, liblmdb-file-perl, postfix-lmdb, dpkg-dev, a C compiler, and
# either Debian's source packages or the crate lmdb-master-sys in cargo's registry. Runs also what is
# there of liblmdb++-dev, php8.2-cli with php8.2-dba, ldb-tools, pdns-backend-lmdb, bind9,
# cfengine3, ncbi-blast+ and mapcache-tools; heed and lmdb-go, where cargo and go have or can get
# them; and lmdbjava, where a JDK is there and Maven has or can get it (its tests are not published
# there, its verifier is).
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

library=$(built lmdb liblmdb.so "$@")
find_original
place "$work/lib" "$library"
mkdir "$work/none"

failures=0
count=0

# compare NAME COMMAND...: runs the command in two folders, with the original and with ours.
compare() {
    name=$1
    shift
    rm -rf "$work/original" "$work/ours"
    mkdir -p "$work/original/testdb" "$work/ours/testdb"
    (cd "$work/original" && LD_LIBRARY_PATH=$work/none "$@" > ../original.out 2>&1) && code=0 ||
        code=$?
    echo "exit code $code" >> "$work/original.out"
    (cd "$work/ours" && LD_LIBRARY_PATH=$work/lib "$@" > ../ours.out 2>&1) && code=0 || code=$?
    echo "exit code $code" >> "$work/ours.out"
    for side in original ours; do
        steady "$work/$side.out" > "$work/$side.txt"
    done
    count=$((count + 1))
    lines=$(wc -l < "$work/original.txt")
    if [ "$lines" -lt 2 ]; then
        echo "$name: prints nothing on the original"
        failures=$((failures + 1))
    elif cmp -s "$work/original.txt" "$work/ours.txt"; then
        echo "$name: $lines lines, the same"
    else
        echo "$name: differs"
        diff "$work/original.txt" "$work/ours.txt" | head -n 20
        failures=$((failures + 1))
    fi
}

# Addresses, which mtest prints, are not the library's to decide; nor is the value with which
# MDB_NEXT_MULTIPLE's second block begins, which mtest4 prints before it deletes.
steady() {
    sed -e '1,/^Deleted/{/^key: 001, data: /d;}' -e 's/key: 0x[0-9a-f]* /key: /' -e 's/data: 0x[0-9a-f]* /data: /' \
        -e 's/key: (nil) /key: /' -e 's/data: (nil) /data: /' "$1"
}

# mtest of one side: the programs count on a seed from the clock, which is fixed for both.
mtests() {
    source=$(fetch_source)
    [ -n "$source" ] || { echo "LMDB's sources are missing" >&2; exit 2; }
    for program in mtest mtest2 mtest3 mtest4 mtest5; do
        sed 's/srand(time(NULL))/srand(20260101)/' "$source/$program.c" > "$work/$program.c"
        ${CC:-cc} -w -I "$here/../include" -o "$work/$program" "$work/$program.c" \
            -L "$work/lib" -llmdb
        compare "$program" "$work/$program"
    done
}

mtests
compare "python3-lmdb" /usr/bin/python3 "$here/peers/entries.py"
compare "LMDB_File" /usr/bin/perl "$here/peers/entries.pl"
if [ -e /usr/include/lmdb++.h ]; then
    ${CXX:-c++} -w -std=c++11 -I "$here/../include" -o "$work/wrapped" "$here/peers/wrapped.cc" \
        -L "$work/lib" -llmdb
    compare "lmdb++" "$work/wrapped"
else
    echo "lmdb++: liblmdb++-dev is not installed"
fi
# optional NAME PROGRAM COMMAND...: the same, where a program is installed. A scenario takes seconds.
optional() {
    name=$1
    if command -v "$2" > /dev/null; then
        shift 2
        compare "$name" timeout 60 "$@"
    else
        echo "$name: $2 is not installed"
    fi
}
optional "postmap" postmap sh "$here/peers/postmap.sh"
optional "php dba" php php "$here/peers/dba.php"
optional "ldb" ldbadd sh "$here/peers/ldb.sh"
optional "pdnsutil" pdnsutil sh "$here/peers/pdnsutil.sh"
optional "named" named sh "$here/peers/named.sh"
optional "cfengine" cf-check sh "$here/peers/cfengine.sh"
optional "blast" makeblastdb sh "$here/peers/blast.sh"
optional "mapcache" mapcache_seed sh "$here/peers/mapcache.sh"

# heed's crate, to be linked to liblmdb.so instead of the sources of LMDB that it brings: both sides
# run the same programs. It is built in a folder of its own.
heed() {
    registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
    mkdir -p "$work/heed/src"
    printf '[package]\nname = "fetch"\nversion = "0.0.0"\n[dependencies]\nheed = "=%s"\n' "$1" \
        > "$work/heed/Cargo.toml"
    : > "$work/heed/src/lib.rs"
    (cd "$work/heed" && cargo fetch) > "$work/heed.log" 2>&1 ||
        { echo "heed: cargo cannot get it"; return; }
    sys=$(sed -n '/^name = "lmdb-master-sys"/{n;s/version = "\(.*\)"/\1/p;}' \
        "$work/heed/Cargo.lock")
    cp -r "$registry"/*/heed-"$1" "$work/heed/heed"
    cp -r "$registry"/*/lmdb-master-sys-"$sys" "$work/heed/sys"
    printf 'fn main() { println!("cargo:rustc-link-search=%s\ncargo:rustc-link-lib=dylib=lmdb"); }\n' \
        "$work/lib" > "$work/heed/sys/build.rs"
    printf '\n[patch.crates-io]\nlmdb-master-sys = { path = "../sys" }\n' \
        >> "$work/heed/heed/Cargo.toml"
    (cd "$work/heed/heed" && cargo test --lib --no-run --target-dir "$work/heed/target" &&
        cargo build --examples --target-dir "$work/heed/target") > "$work/heed.log" 2>&1 ||
        { tail -n 20 "$work/heed.log"; failures=$((failures + 1)); return; }
    compare "heed" sh "$here/peers/heed.sh" "$work/heed/target/debug"
}

# The tests of lmdb-go, linked to liblmdb.so instead of the sources of LMDB that it brings.
lmdb_go() {
    mkdir -p "$work/go/bin"
    export GOFLAGS=-mod=mod GOTOOLCHAIN=local
    (cd "$work/go" && echo 'module fetch' > go.mod &&
        go mod download -json "github.com/PowerDNS/lmdb-go@$1") > "$work/go.log" 2>&1 ||
        { echo "lmdb-go: go cannot get it"; return; }
    cp -r "$(sed -n 's/.*"Dir": "\(.*\)".*/\1/p' "$work/go.log")" "$work/go/source"
    chmod -R u+w "$work/go/source"
    rm "$work/go/source/lmdb/mdb.c" "$work/go/source/lmdb/midl.c"
    sed -i '0,/^#cgo/s//#cgo LDFLAGS: -llmdb\n&/' "$work/go/source/lmdb/lmdb.go"
    # TestResize relies on the limit of 1 MiB that LMDB has where a program sets none. Here there is
    # none then (docs/lmdb-compat.md), so that it is set.
    (cd "$work/go/source/exp/lmdbsync" &&
        sed -i 's/^\(.*\)err = env.Open(.*path, 0, 0644)/\1env.SetMapSize(1 << 20)\n&/' \
            testresize_test.go testresize/main.go)
    (cd "$work/go/source" && CGO_LDFLAGS="-L$work/lib" go test -c -o "$work/go/bin/" \
        ./lmdb ./lmdbscan ./exp/lmdbsync) > "$work/go.log" 2>&1 ||
        { tail -n 20 "$work/go.log"; failures=$((failures + 1)); return; }
    compare "lmdb-go" sh "$here/peers/lmdb-go.sh" "$work/go"
}

# lmdbjava's verifier and calls, as a program of one file; its library is told where liblmdb is.
lmdbjava() {
    mkdir -p "$work/java/jars"
    cat > "$work/java/pom.xml" << END
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>none</groupId><artifactId>fetch</artifactId><version>0</version>
  <dependencies>
    <dependency>
      <groupId>org.lmdbjava</groupId><artifactId>lmdbjava</artifactId><version>$1</version>
    </dependency>
  </dependencies>
</project>
END
    (cd "$work/java" && mvn -q -B dependency:copy-dependencies -DoutputDirectory=jars) \
        > "$work/java.log" 2>&1 || { echo "lmdbjava: Maven cannot get it"; return; }
    javac -cp "$work/java/jars/*" -d "$work/java" "$here/peers/Entries.java"
    compare "lmdbjava" sh "$here/peers/lmdbjava.sh" "$work/java" "$original"
}

if command -v cargo > /dev/null; then
    heed 0.23.1
else
    echo "heed: cargo is not installed"
fi
if command -v go > /dev/null; then
    lmdb_go v1.9.3
else
    echo "lmdb-go: go is not installed"
fi
if command -v mvn > /dev/null && command -v javac > /dev/null; then
    lmdbjava 0.8.3
else
    echo "lmdbjava: javac or mvn is not installed"
fi
echo "$((count - failures)) passed, $failures failed"
[ "$failures" = 0 ]
