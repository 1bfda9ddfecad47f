# Nothing that belongs to a store is overwritten, by any subcommand that writes.

mkdir stores out tiny && echo file >tiny/file
printf 'a\t1\nb\t2\nc\t3\n' >lines
ok load stores/s lines --as lines
ok load stores/other lines --as lines
mkdir stores/folder
ok create stores/folder
ok create --engine lsm stores/lsm
ok load stores/lsm lines --as lines
ok compact stores/lsm
ok convert --from stores/s stores/lsm2
ln -s s stores/link
ln stores/s stores/hard
ln -s lsm stores/lsm-link
printf 'notes of mine\n' >stores/notes
printf 'notes of mine\n' >stores/notes.csv
: >stores/empty
# What an LMDB data file begins with.
{ head -c 16 /dev/zero && printf '\336\300\357\276' && head -c 8172 /dev/zero; } >stores/lmdb

# Every name, and every byte of every file, but for lock files, which each opening changes.
state() {
    find stores | sort
    find stores -type f ! -name '*-lock' ! -name lock.hdg ! -name LOCK -print0 | sort -z |
        xargs -0 cat | cksum
    head -qc8 stores/*-lock stores/folder/lock.hdg
}

# refused ARGUMENTS...: the command ends with 2 or 3.
refused() {
    local got
    said=$("$hedgerow" "$@" 2>&1 </dev/null)
    got=$?
    done=$((done + 1))
    [ $got -eq 2 ] || [ $got -eq 3 ] || fail "hedgerow $*: exit code $got: $said"
}

# unchanged TARGET: all is as it was.
unchanged() {
    done=$((done + 1))
    if [ "$(state)" != "$before" ]; then
        fail "what was there has changed after commands to $1"
        before=$(state)
    fi
}

before=$(state)
lsm_table=$(echo stores/lsm/*.table)
lsm_log=$(ls stores/lsm/*.log | head -1)
targets=(stores/s stores/s-lock stores/other stores/other-lock stores/link stores/hard stores/lmdb
    stores/folder/data.hdg stores/folder/lock.hdg stores/folder stores/lsm stores/lsm-link
    stores/lsm/MANIFEST stores/lsm/LOCK "$lsm_table" "$lsm_log" stores/notes)

# What makes a new file, or a new store.
for target in "${targets[@]}" stores/lsm/00000099.table stores/lsm/new; do
    refused dump stores/s "$target"
    refused dump stores/s "$target" --as csv
    refused stat stores/s --html "$target"
    [ "$target" = stores/notes ] || refused dump stores/s "$target" --force
    [ "$target" = stores/notes ] || refused stat stores/s --html "$target" --force
    unchanged "$target"
done
for target in "${targets[@]}"; do
    refused copy stores/s "$target"
    refused copy stores/s "$target" --compact
    refused salvage stores/s "$target"
    refused convert --from stores/s "$target"
    refused create "$target"
    refused create --engine lsm "$target"
    refused demo tiny --store "$target"
    unchanged "$target"
done

# What writes to a store, given what is none.
for target in stores/s-lock stores/folder/lock.hdg stores/lsm/MANIFEST stores/lsm/LOCK \
    "$lsm_table" "$lsm_log" stores/notes stores/lmdb; do
    refused put "$target" k v
    refused put "$target" k v --create-table -t new
    refused delete "$target" a
    refused load "$target" lines --as lines
    refused compact "$target"
    refused create "$target" -t new
    unchanged "$target"
done

# The same under the names of LMDB's tools.
ln -s "$hedgerow" mdb_dump
for target in stores/s stores/other stores/s-lock stores/folder/data.hdg stores/lsm/MANIFEST; do
    done=$((done + 1))
    ! ./mdb_dump -n -f "$target" stores/s 2>/dev/null || fail "mdb_dump -f $target ends with 0"
    unchanged "$target"
done

# Pages of the manual that would lie in place of a store.
mkdir man && cp stores/s man/hedgerow-scan.1
is 3 "it is a store" man --folder man --force
holds "the store in the way of the manual" cmp stores/s man/hedgerow-scan.1

# Other files stay too, unless they shall be replaced; what comes out is whole or not there.
is 3 "exists already" dump stores/s stores/notes
is 3 "--force" dump stores/s stores/empty
ok dump stores/s stores/notes --as lines --force
holds "a dump by --force" cmp lines stores/notes
chmod 640 stores/notes.csv
ok dump stores/s stores/notes.csv --as csv --force
same "rights of the file replaced" "$(stat -c %a stores/notes.csv)" 640
ok dump stores/s out/new --as lines
holds "a new dump" cmp lines out/new
same "rights of a new file" "$(stat -c %a out/new)" "$(printf %o $((0666 & ~$(umask))))"
ok dump stores/s /dev/null
is 3 "No space left" dump stores/s /dev/full
ln -s nowhere out/dangling
is 3 "leads nowhere" dump stores/s out/dangling
is 3 "No such file" dump stores/s out/absent/file
same "files left in out" "$(ls -A out | sort | tr '\n' ' ')" "dangling new "
