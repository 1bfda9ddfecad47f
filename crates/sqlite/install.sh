#!/bin/sh
# Builds SQLite on Hedgerow and puts library, headers and its pkg-config file in place:
#
#     sh crates/sqlite/install.sh PREFIX
#
# PREFIX/lib has libsqlite3.so.0 (the library), libsqlite3.so (a link to it) and libsqlite3.a,
# PREFIX/include has sqlite3.h and sqlite3ext.h, PREFIX/lib/pkgconfig has sqlite3.pc. With DESTDIR
# everything goes there instead, for packages. CARGO and CARGO_TARGET_DIR are those of cargo, CC is
# the C compiler; PROFILE is the profile to build with (release, unless said otherwise).
set -eu

folder=$(cd "$(dirname "$0")" && pwd)
. "$folder/../installing.sh"

build -p sqlite
# SQLite's headers stand beside the source that the library was made of.
host=$(rustc -vV | sed -n 's/^host: //p')
headers=$(cd "$root" && "${CARGO:-cargo}" metadata --format-version=1 --locked --filter-platform "$host" | tr ',' '\n' |
	sed -n 's/.*"manifest_path":"\(.*libsqlite3-sys[^"]*\)Cargo\.toml".*/\1sqlite3/p' | head -1)

mkdir -p "$to/lib/pkgconfig" "$to/include"
# SQLite's functions are called by programs, everything else stays inside.
exports=$to/lib/libsqlite3.map.new
echo '{ global: sqlite3_*; sqlite3changegroup_*; sqlite3changeset_*; sqlite3rebaser_*; sqlite3session_*; local: *; };' >"$exports"
# Under a new name first: a program that runs with the old library keeps it.
"${CC:-cc}" -shared -o "$to/lib/libsqlite3.so.0.new" -Wl,-soname,libsqlite3.so.0 \
	-Wl,--whole-archive "$built/libsqlite.a" -Wl,--no-whole-archive \
	-Wl,--version-script,"$exports" -Wl,--gc-sections -lpthread -ldl -lm
rm "$exports"
mv "$to/lib/libsqlite3.so.0.new" "$to/lib/libsqlite3.so.0"
ln -sf libsqlite3.so.0 "$to/lib/libsqlite3.so"
cp "$built/libsqlite.a" "$to/lib/libsqlite3.a"
cp "$headers/sqlite3.h" "$headers/sqlite3ext.h" "$to/include/"
version=$(sed -n 's/^#define SQLITE_VERSION  *"\(.*\)"$/\1/p' "$headers/sqlite3.h")
sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" "$folder/sqlite3.pc.in" \
	>"$to/lib/pkgconfig/sqlite3.pc"
echo "installed in $prefix"
