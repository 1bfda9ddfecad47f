# Stores as a whole: maximum sizes, damage, what fails or is interrupted half-way.

mkdir whole && cd whole || exit 1
seq -f 'key %07.0f' 1 20000 | sed 's/$/\tvalue/' >lines

# A maximum size lasts.
ok create m --max-size 100k
is 0 "maximum size    102400 bytes" stat m
is 3 "maximum size of 102400 bytes" load m lines --as lines
is 0 102400 limit m
is 0 10485760 limit m 10M
ok load m lines --as lines
is 3 "holds" limit m 100k
is 0 none limit m none
is 2 "such as" limit m 10X
is 2 "such as" create m2 --max-size 1.5M
gone m2

# Damage is not copied in silence.
ok load d lines --as lines
ok put d zzz z
at=$(grep -abo 'value' d | sed -n '9000p' | cut -d: -f1)
printf 'V' | dd of=d bs=1 seek="$at" conv=notrunc 2>/dev/null
is 1 "page" copy d copy
is 1 "--even-damaged" copy d copy
gone copy
ok copy d copy --even-damaged
is 1 "problem" check copy
is 1 "" copy d -
is 2 "" copy d copy2 --compact --even-damaged

# A dump gives all it can read.
"$hedgerow" scan d >scanned 2>/dev/null
"$hedgerow" dump d --as lines >dumped 2>err
same "exit code of a damaged dump" $? 3
holds "a dump as long as a scan" cmp scanned dumped
holds "the way to go on" grep -q -- --skip-damaged err
"$hedgerow" dump d --as lines --skip-damaged >dumped 2>err
same "exit code of a dump with gaps" $? 1
missing=$(sed -n 's/table main: \([0-9]*\) of 20001 entries.*/\1/p' err)
same "read and missing" $(($(wc -l <dumped) + ${missing:-0})) 20001
is 3 "" dump d file --as lines
gone file
is 1 "were skipped" dump d file --as lines --skip-damaged
holds "a dump with gaps in a file" cmp file dumped
cp lines keep
is 3 "" dump d keep --as lines --force
holds "the file that was to be replaced" cmp keep lines
grep -q zzz dumped || fail "what lies behind the damage is not dumped"

# What fails leaves nothing half-made.
is 3 "line 1" load new lines --as csv
gone new new-lock
mkdir empty
is 3 "" convert --from d lsm
is 3 "" convert --from d empty
gone lsm empty/MANIFEST
is 2 "--from-lmdb" convert x
is 2 "--from STORE" convert x
same "nothing is left beside" "$(ls -A | grep -c part)" 0
ok convert --from m empty
is 0 "lsm" stat empty
is 3 "already" convert --from m empty
is 3 "exists already" convert --from empty m
echo notes >mine-lock
is 3 "in the way" convert --from empty mine
is 3 "" create mine
holds "notes beside a new store" grep -q notes mine-lock
# Whenever a conversion is stopped: the new store is complete, or it is not there.
for when in 0.01 0.03 0.06 0.1 0.2; do
    for engine in tree lsm; do
        from=m
        [ $engine = tree ] && from=empty
        timeout -s TERM $when "$hedgerow" convert --from $from stopped >/dev/null 2>&1
        same "nothing is left beside" "$(ls -A | grep -c part)" 0
        timeout -s KILL $when "$hedgerow" convert --from $from killed >/dev/null 2>&1
        rm -rf killed.*.part*
        for store in stopped killed; do
            [ ! -e $store ] || holds "a whole store" cmp <("$hedgerow" scan $store) <("$hedgerow" scan m)
            rm -rf $store $store-lock
        done
    done
done 2>/dev/null
mkfifo pipe
"$hedgerow" load late pipe --as lines 2>/dev/null &
loader=$!
exec 3>pipe
printf 'a\t1\n' >&3
while [ ! -e late ]; do sleep 0.05; done
kill -TERM $loader
wait $loader
same "an interrupted load" $? 130
exec 3>&-
gone late late-lock

# A writer that waits says for whom, and gives up in time.
"$hedgerow" load m pipe --as lines 2>/dev/null &
loader=$!
exec 3>pipe
while "$hedgerow" put m probe 1 --timeout 0.05 2>/dev/null; do sleep 0.05; done
is 3 "process $loader writes to the store; gave up after 0." put m k v --timeout 0.2
"$hedgerow" put m k v 2>waiting 3>&- &
writer=$!
for round in $(seq 600); do
    grep -q waiting waiting && break
    sleep 0.1
done
holds "says for whom" grep -q "waiting for process $loader" waiting
exec 3>&-
wait $writer
same "the writer's turn comes" $? 0
wait $loader
is 2 "seconds" put m k v --timeout soon

cd ..
