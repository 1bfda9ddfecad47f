#!/bin/sh
# Installs the library into a folder of its own and runs programs on it that were made for SQLite:
# Debian's shell and Python's module, the former also the way back to a file of SQLite's.
#
#     PROFILE=dev sh crates/sqlite/tests/programs.sh
#
# Needs cc, pkg-config, python3 with its module sqlite3, and Debian's package sqlite3; runs
# Subversion if it is installed. PYTHON is another Python.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python=${PYTHON:-/usr/bin/python3}

fail() {
	echo "programs.sh: $*" >&2
	exit 1
}

# expect WHAT ACTUAL EXPECTED
expect() { [ "$2" = "$3" ] || fail "$1: '$2' instead of '$3'"; }

sh "$here/../install.sh" "$folder/prefix"
for name in libsqlite3.so.0 libsqlite3.so libsqlite3.a; do
	[ -e "$folder/prefix/lib/$name" ] || fail "$name is missing"
done

echo "A program in C, built by what pkg-config says"
cat >"$folder/program.c" <<'PROGRAM'
#include <sqlite3.h>
#include <stdio.h>

int main(void)
{
	puts(sqlite3_libversion());
	return 0;
}
PROGRAM
pc() { PKG_CONFIG_PATH=$folder/prefix/lib/pkgconfig pkg-config "$@" sqlite3; }
# shellcheck disable=SC2046
cc -o "$folder/program" "$folder/program.c" $(pc --cflags --libs)
expect version "$(LD_LIBRARY_PATH=$folder/prefix/lib "$folder/program")" "$(pc --modversion)"
expect prefix "$(pc --variable=prefix)" "$folder/prefix"

echo "Debian's sqlite3"
store=$folder/store.db
# The shell runs only with the version that it was compiled with, or with one that says so.
version=$(sqlite3 --version | cut -d' ' -f2-)
shell() {
	LD_LIBRARY_PATH=$folder/prefix/lib HEDGEROW_SQLITE_SOURCE_ID=$version HEDGEROW_SQLITE_ENGINE=hedgerow \
		sqlite3 -batch "$@"
}
shell "$store" "create table t(a integer primary key,b); create index i on t(b);
	with recursive n(x) as (values(1) union all select x+1 from n where x<1000)
	insert into t select x,x%7 from n"
expect engine "$(shell "$store" 'pragma engine')" hedgerow
expect first "$(head -c 8 "$store")" HEDGEROW
expect count "$(shell "$store" 'select count(*),sum(b) from t where b between 2 and 4')" '429|1287'
csv=$(shell -csv -header "$store" 'select a,b from t limit 1' | tr -d '\r' | tr '\n' ' ')
expect csv "$csv" 'a,b 1,1 '
shell "$store" "vacuum into 'file:$folder/copy.db?engine=sqlite'"
shell "$store" ".backup 'file:$folder/backup.db?engine=sqlite'"
shell "$store" '.dump' >"$folder/dump.sql"
# SQLite's own library reads the copies.
for copy in copy backup; do
	expect $copy "$(sqlite3 "$folder/$copy.db" 'select count(*),sum(a) from t;pragma integrity_check')" \
		'1000|500500
ok'
done
expect dump "$(sqlite3 :memory: <"$folder/dump.sql" 2>&1)" ''
export LD_LIBRARY_PATH="$folder/prefix/lib"

echo "Python's sqlite3"
"$python" - "$folder" <<'PYTHON'
import sqlite3, sys, threading
folder = sys.argv[1]
store = sqlite3.connect(f"{folder}/store.db")
assert store.execute("pragma engine").fetchone() == ("hedgerow",)
assert store.execute("select count(*) from t").fetchone() == (1000,)
store.execute("create table u(x unique)")
with store:
    store.executemany("insert into u values(?)", [(i,) for i in range(500)])
try:
    with store:
        store.execute("insert into u values(1000)")
        store.execute("insert into u values(1)")
    raise SystemExit("a row twice")
except sqlite3.IntegrityError:
    pass
assert store.execute("select count(*) from u").fetchone() == (500,)
memory = sqlite3.connect(":memory:")
store.backup(memory)
assert memory.execute("select sum(x) from u").fetchone() == (124750,)

def add():
    db = sqlite3.connect(f"{folder}/store.db", timeout=60)
    for _ in range(20):
        with db:
            db.execute("update u set x=x+1000 where x in (select min(x) from u)")
threads = [threading.Thread(target=add) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
assert store.execute("select count(*) from u where x>=1000").fetchone() == (80,)
assert store.execute("pragma integrity_check").fetchone() == ("ok",)
PYTHON

echo "sqlite3_file_control"
"$python" "$here/controls.py" "$folder"

# What a working copy of Subversion's tells of itself after changes of every kind; its database is
# made by the engine $1.
working_copies() {
	rm -rf "$folder/svn"
	mkdir "$folder/svn"
	(
		export HEDGEROW_SQLITE_ENGINE="$1"
		cd "$folder/svn"
		base=file://$PWD/base
		svnadmin create base
		svn -q checkout "$base" one
		cd one
		for i in $(seq 200); do
			mkdir -p "d$((i % 10))"
			echo "line $i" >"d$((i % 10))/f$i"
		done
		svn -q add d*
		svn -q commit -m one
		echo more >>d5/f5
		svn -q mv d1 e1
		svn -q rm d2
		svn -q propset name value d3
		svn status | sort
		svn -q commit -m two
		svn -q checkout "$base" ../two
		echo other >>../two/d3/f3
		svn -q commit -m three ../two
		svn -q update
		svn cleanup
		svn info --show-item revision
		svn list -R
		cat d3/f3
		svn propget name d3
	)
}
if command -v svnadmin >/dev/null; then
	echo "Subversion"
	working_copies sqlite >"$folder/svn.sqlite"
	working_copies hedgerow >"$folder/svn.hedgerow"
	expect "working copy" "$(head -c 8 "$folder/svn/one/.svn/wc.db")" HEDGEROW
	cmp "$folder/svn.sqlite" "$folder/svn.hedgerow" || fail "Subversion's working copies differ"
else
	echo "Subversion: not installed"
fi

echo "0 failed"
