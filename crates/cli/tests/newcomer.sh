#!/usr/bin/env bash
# What a newcomer and an operator try with the command, each line with the exit code and the words
# that they must meet: newcomer.sh HEDGEROW. Works in a temporary folder, prints what is wrong, and
# exits with 1 if anything is.
set -u
hedgerow=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/newcomer
cd "$folder" || exit 1
wrong=0
done=0

fail() {
    echo "newcomer: $*" >&2
    wrong=$((wrong + 1))
}

# is CODE WORDS ARGUMENTS...: the command ends with CODE and says WORDS, on whichever stream.
is() {
    local code=$1 words=$2
    shift 2
    said=$("$hedgerow" "$@" 2>&1 </dev/null)
    local got=$?
    done=$((done + 1))
    [ $got -eq "$code" ] || fail "hedgerow $*: exit code $got instead of $code: $said"
    case $said in
    *"$words"*) ;;
    *) fail "hedgerow $*: \"$words\" is not in: $said" ;;
    esac
}

# ok ARGUMENTS...: the command ends with 0.
ok() { is 0 "" "$@"; }

# same WHAT ONE OTHER: two texts are the same.
same() {
    done=$((done + 1))
    [ "$2" = "$3" ] || fail "$1: $2 instead of $3"
}

# holds WHAT COMMAND...: some other command succeeds.
holds() {
    local what=$1
    shift
    done=$((done + 1))
    "$@" >/dev/null 2>&1 || fail "$what: $*"
}

# gone PATH...: none of these is there.
gone() {
    done=$((done + 1))
    local path
    for path in "$@"; do
        [ ! -e "$path" ] || fail "$path is there"
    done
}

for part in "$here"/*.sh; do
    . "$part"
done

if [ $wrong -gt 0 ]; then
    echo "newcomer: $wrong of $done are wrong" >&2
    exit 1
fi
echo "newcomer: all $done hold"
