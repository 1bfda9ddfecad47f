# What the install.sh of each library begins with, which sources this with its own arguments. Sets
# `prefix`, the folder that is asked for; `to`, the same below DESTDIR; `root`, the repository; and
# `built`, where `build` leaves what it makes of the packages given.

if [ $# -ne 1 ] || [ "${1#-}" != "$1" ]; then
	echo "usage: install.sh PREFIX" >&2
	exit 2
fi
absolute() {
	case $1 in
	/*) echo "$1" ;;
	*) echo "$PWD/$1" ;;
	esac
}
prefix=$(absolute "$1")
to=${DESTDIR:-}$prefix
root=$(cd "$folder/../.." && pwd)
profile=${PROFILE:-release}
CARGO_TARGET_DIR=$(absolute "${CARGO_TARGET_DIR:-$root/target}")
export CARGO_TARGET_DIR
built=$CARGO_TARGET_DIR/$profile
[ "$profile" != dev ] || built=$CARGO_TARGET_DIR/debug

build() { (cd "$root" && "${CARGO:-cargo}" build --quiet --profile "$profile" "$@"); }
