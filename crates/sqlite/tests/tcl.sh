#!/bin/sh
# Runs SQLite's own tests, which Debian's source package brings, on stores and on files of SQLite's
# in one test program, and says where the results differ:
#
#     sh crates/sqlite/tests/tcl.sh [FILE.test ...]
#
# Without files it runs those that do not look into files of SQLite's (all whose text has none of
# the words in `words`). Needs Debian, and the packages tcl-dev, zlib1g-dev and dpkg-dev. SOURCES is
# a folder with SQLite's sources, in place of Debian's; SUITE is the Debian suite to take them from
# (sid); TCL_FOLDER is where everything goes (target/tcl). Exits 0 if no result differs but those
# that tests/tcl.txt lists with a reason.
set -eu

words='journal|wal|faultsim|hexio|corrupt|filesize|file size|auto_vacuum|backup|shared_cache|malloc'

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
folder=${TCL_FOLDER:-$root/target/tcl}
sources=${SOURCES:-$folder/sources}
profile=${PROFILE:-dev}
built=${CARGO_TARGET_DIR:-$root/target}/$profile
[ "$profile" = dev ] && built=${CARGO_TARGET_DIR:-$root/target}/debug
mkdir -p "$folder"
# The tests flush often, which SQLite's test program leaves out and a store does not: in memory that
# costs nothing.
runs=$folder/run
[ -w /dev/shm ] && runs=/dev/shm/sqlite-tcl

# Debian's source package, from the mirror that this machine uses.
fetch() {
	lists=$folder/apt
	mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
	mirror=$(sed -n 's/^URIs: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
	key=$(sed -n 's/^Signed-By: *//p' /etc/apt/sources.list.d/debian.sources | head -1)
	echo "deb-src [signed-by=$key] $mirror ${SUITE:-sid} main" >"$lists/sources.list"
	apt() {
		apt-get -o Dir::Etc::sourcelist="$lists/sources.list" -o Dir::Etc::sourceparts=/dev/null \
			-o Dir::State::lists="$lists/lists" -o Dir::Cache="$lists/cache" -qq "$@"
	}
	apt update
	(cd "$lists" && apt source --download-only sqlite3)
	dpkg-source --no-check -x "$lists"/sqlite3_*.dsc "$sources" >"$folder/unpack.log"
}

# SQLite's test program, with its source cut as ours is. What it has of its own is compiled once.
build() {
	cd "$sources"
	if [ ! -e .tclenv.sh ]; then
		./configure --enable-all >"$folder/configure.log"
		make ./.tclenv.sh sqlite3.c tclsqlite-ex.c has_tclsh85 >"$folder/make.log" 2>&1
	fi
	(cd "$root" && cargo build --quiet --profile "$profile" -p sqlite --example cut --lib)
	"$built/examples/cut" sqlite3.c >hybrid.c
	# The command that would build it: its flags, and its sources.
	rm -f testfixture
	make -n testfixture 2>/dev/null | tr -d '\\' | tr '\n\t' '  ' | sed 's/.*\. \.\/\.tclenv\.sh/. .\/.tclenv.sh/' >command
	flags=$(sed 's/.*exit \$?; *[^ ]* \(.*\) -o testfixture .*/\1/; s/"//g; s/-O2//; s/ -g / /' command)
	files=$(sed 's/.* -o testfixture \(.*\) sqlite3\.c .*/\1/' command)
	. ./.tclenv.sh
	mkdir -p objects
	for file in $files; do
		object=objects/$(basename "$file" .c).o
		# shellcheck disable=SC2086
		[ "$object" -nt "$file" ] || cc -O1 -w $flags $TCL_INCLUDE_SPEC -c "$file" -o "$object"
	done
	# shellcheck disable=SC2086
	cc -O1 -w $flags $TCL_INCLUDE_SPEC -I "$here/../src/c" -c hybrid.c -o hybrid.o
	# shellcheck disable=SC2086
	cc -o testfixture.new objects/*.o hybrid.o "$built/libsqlite.a" $TCL_LIB_SPEC $TCL_LIBS -lm -lz
	mv testfixture.new "$folder/testfixture"
}

# Runs a file with an engine and prints its result: errors, tests, and which failed.
run() {
	at=$runs/$1/$(basename "$2" .test)
	rm -rf "$at"
	mkdir -p "$at"
	(
		cd "$at"
		status=0
		HEDGEROW_SQLITE_ENGINE=$1 timeout "${SECONDS_MAX:-300}" "$folder/testfixture" "$2" \
			>output 2>&1 || status=$?
		summary=$(grep -a -E '^[0-9]+ errors out of [0-9]+ tests' output | tail -1 | cut -d' ' -f1,5)
		failed=$(grep -a '^!Failures on these tests' output | cut -d: -f2 | tr '\n' ' ')
		echo "${summary:-died ($status)} $failed"
	)
	find "$at" -name 'test*.db*' -delete
}

[ -d "$sources" ] || fetch
[ -n "${BUILT:-}" ] || build
if [ $# -eq 0 ]; then
	# shellcheck disable=SC2046
	set -- $(grep -L -i -E "$words" "$sources"/test/*.test)
fi
differ=0 same=0 tests=0
: >"$folder/differences"
for file in "$@"; do
	[ -e "$file" ] || file=$sources/test/$file
	name=$(basename "$file" .test)
	case $name in
	# Lists of other files, other systems, and those that take minutes.
	all | veryquick | quick | full | permutations | extraquick | main | memleak | soak) continue ;;
	win32* | speed* | thread* | mutex2 | bigsort | sort[34] | fts4growth* | fts3rnd) continue ;;
	esac
	stock=$(run sqlite "$file")
	ours=$(run hedgerow "$file")
	if [ "$stock" = "$ours" ]; then
		same=$((same + 1))
		tests=$((tests + $(echo "$ours" | awk '{ print $2 + 0 }')))
	elif grep -q "^$name " "$here/tcl.txt"; then
		echo "$name: differs as tests/tcl.txt says"
	else
		differ=$((differ + 1))
		echo "$name: SQLite: $stock; Hedgerow: $ours" | tee -a "$folder/differences"
	fi
done
echo "$same files alike ($tests tests), $differ differ"
[ "$differ" = 0 ]
