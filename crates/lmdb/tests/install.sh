#!/bin/sh
# Installs the library into a new folder, as install.sh does, and checks what stands there: the links,
# the name that programs ask for, what is exported, the pkg-config file, and a program that is linked
# with each of the two libraries.
#
#     install.sh                 PROFILE and CARGO_TARGET_DIR as for ../install.sh
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

fail() {
    echo "$*" >&2
    exit 1
}

prefix=$work/prefix
sh "$here/../install.sh" "$prefix"
# Again, over what is there.
sh "$here/../install.sh" "$prefix" > /dev/null
(cd "$prefix" && find . -type f -o -type l) | sort > "$work/found"
sort > "$work/wanted" <<'LIST'
./include/lmdb.h
./lib/liblmdb.a
./lib/liblmdb.so
./lib/liblmdb.so.0
./lib/pkgconfig/lmdb.pc
LIST
diff "$work/wanted" "$work/found" || fail "other files than these are installed"
[ "$(readlink "$prefix/lib/liblmdb.so")" = liblmdb.so.0 ] || fail "liblmdb.so is no link"
readelf -d "$prefix/lib/liblmdb.so.0" | grep -q 'soname: \[liblmdb.so.0\]' || fail "another soname"
nm -D --defined-only "$prefix/lib/liblmdb.so.0" | awk '$3 !~ /^mdb_/ { print; other = 1 } END { exit other }' ||
    fail "it exports more than the interface"
cmp "$here/../include/lmdb.h" "$prefix/include/lmdb.h"

# Relative to where it is called, and for packages.
(cd "$work" && sh "$here/../install.sh" other > /dev/null)
cmp "$work/other/lib/liblmdb.so.0" "$prefix/lib/liblmdb.so.0"
grep -q "^prefix=$work/other\$" "$work/other/lib/pkgconfig/lmdb.pc" || fail "another prefix"
DESTDIR=$work/package sh "$here/../install.sh" /usr > /dev/null
grep -q '^prefix=/usr$' "$work/package/usr/lib/pkgconfig/lmdb.pc" || fail "DESTDIR shows"
sh "$here/../install.sh" 2> /dev/null && fail "no prefix is no error"

cat > "$work/program.c" <<'PROGRAM'
#include <lmdb.h>
#include <stdio.h>

int main(void)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi;
	MDB_val key = { 3, "key" }, data = { 5, "value" };
	int major, minor, patch, code;
	mdb_version(&major, &minor, &patch);
	if (major != MDB_VERSION_MAJOR || minor != MDB_VERSION_MINOR || patch != MDB_VERSION_PATCH)
		return 1;
	(void)((code = mdb_env_create(&env)) || (code = mdb_env_open(env, "store", MDB_NOSUBDIR, 0644)) ||
		(code = mdb_txn_begin(env, NULL, 0, &txn)) || (code = mdb_dbi_open(txn, NULL, 0, &dbi)) ||
		(code = mdb_put(txn, dbi, &key, &data, 0)) || (code = mdb_txn_commit(txn)));
	mdb_env_close(env);
	puts(mdb_strerror(code));
	return code != 0;
}
PROGRAM
PKG_CONFIG_PATH=$prefix/lib/pkgconfig
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion lmdb)" = 0.9.33 ] || fail "another version"
# shellcheck disable=SC2046
${CC:-cc} -o "$work/dynamic" "$work/program.c" $(pkg-config --cflags --libs lmdb)
readelf -d "$work/dynamic" | grep -q 'NEEDED.*\[liblmdb.so.0\]' || fail "another library is needed"
(cd "$work" && LD_LIBRARY_PATH=$prefix/lib ./dynamic) || fail "the program does not run"
# Where only the archive is, the same options link it.
mv "$prefix/lib/liblmdb.so" "$prefix/lib/liblmdb.so.0" "$work"
# shellcheck disable=SC2046
${CC:-cc} -o "$work/static" "$work/program.c" $(pkg-config --cflags --static --libs lmdb)
readelf -d "$work/static" | grep -q liblmdb && fail "the archive is not linked"
(cd "$work" && ./static) || fail "the program with the archive does not run"
# What the archive has besides is not in the way of a program's own names.
echo "installed: 5 files; programs with both libraries run"
