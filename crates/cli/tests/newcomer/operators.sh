# What operators look at: help, manual, dumps to compare, checks, pictures, sizes in units.

mkdir operators && cd operators || exit 1

# What cannot be printed is no success.
for words in "--help" "--version" "scan --help" "man" "completions bash"; do
    "$hedgerow" $words >/dev/full 2>full
    same "$words to a full device" $? 3
    holds "$words says why" grep -q "No space left" full
done
# The usage names arguments in the order in which they are read.
is 0 "delete [OPTIONS] <STORE> <KEY> [VALUE]" delete --help
is 0 "pin [OPTIONS] <STORE> <NAME>" pin --help
is 2 "delete [OPTIONS] <STORE> <KEY> [VALUE]" delete store
is 2 "Usage" --nonsense

# The manual.
"$hedgerow" man >man.1
for section in 'EXIT STATUS' EXAMPLES SYNOPSIS DESCRIPTION OPTIONS; do
    holds "the section $section" grep -q "^\.SH \"\?$section\"\?$" man.1
done
ok man --folder man
holds "an example of load" grep -q 'print0' man/hedgerow-load.1
is 3 "exists already" man --folder man
ok man --folder man --force
if command -v man >/dev/null && command -v groff >/dev/null; then
    same "what groff says of it" "$(groff -man -Tutf8 -ww man.1 2>&1 >/dev/null)" ""
fi

# Equal stores dump equal text, however they came about.
seq -f '%06.0f' 1 5000 | sed 's/$/\tvalue/' >lines
ok load once lines --as lines
ok load often lines --as lines
for round in 1 2 3; do
    ok delete often --prefix 00
    shuf --random-source=lines lines >shuffled
    ok load often shuffled --as lines
done
ok copy often compact --compact
holds "other files" test "$(stat -c %s often)" -ne "$(stat -c %s once)"
for store in once often compact; do
    "$hedgerow" dump $store --all >$store.dump
    holds "an equal dump of $store" cmp once.dump $store.dump
done

# A damaged root does not make a store of 0 entries.
cp once torn
size=$(stat -c %s torn)
for page in $(seq 3 $((size / 4096 - 1))); do
    printf '\377' | dd of=torn bs=1 seek=$((page * 4096 + 100)) conv=notrunc 2>/dev/null
done
"$hedgerow" check torn >check 2>&1
same "exit code of a check that finds damage" $? 1
holds "no count of nothing" test "$(grep -c ' 0 entries:' check)" -eq 0


# Entries beside the damage are counted: some page is a leaf among others.
counted=0
for page in $(seq 3 $((size / 4096 - 1))); do
    cp once nearly
    printf '\377' | dd of=nearly bs=1 seek=$((page * 4096 + 100)) conv=notrunc 2>/dev/null
    "$hedgerow" check nearly >check 2>&1 && continue
    grep -qE ' [1-9][0-9]+ entries could be read: 1 problem' check && counted=1 && break
done
same "entries beside the damage are counted" $counted 1

# The picture counts keys once.
ok create many --duplicates
seq -f 'key	%06.0f' 1 3000 >values
ok load many values --as lines --duplicates
"$hedgerow" stat many --html - >many.html
holds "keys in the picture" grep -q 'leaves: [0-9,]* pages, 1 keys' many.html
same "text in pictures, which shrinks with them" "$(grep -c '<text' many.html)" 0

# Sizes in units.
ok create small --page-size 16k --max-size 10M
is 0 "page size       16384" stat small
is 0 10485760 limit small
is 0 '{"max_size":10485760}' limit small --json
is 2 "such as" create other --page-size 4q

# The engines.
ok create --engine lsm log
is 2 "of the engine lsm" limit log
is 3 "of the engine lsm" create log/inside
is 3 "there is no store at" get nothing key

# The demonstration.
mkdir files && : >files/a.txt && : >files/b.txt
"$hedgerow" demo files >demo.txt
same "the demonstration" $? 0
same "faster by 0 or 1" "$(grep -cE ' (0|1)$' demo.txt)" 0

cd ..
