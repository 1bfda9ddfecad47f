# A damaged log-structured store is refused by an error that names `salvage`, which brings over the
# rest; nothing of it is taken for whole.
mkdir damage && cd damage || exit 1

# lsm NAME: a store of two tables and a log, in which each of three commits is durable.
seq -f 'key%06.0f	value of some length, which repeats itself' 1 60000 >lines
ok create made --engine lsm
ok load made lines --as lines
ok compact made
for number in 1 2 3; do
    ok put made "last$number" "value $number"
done
log=$(ls made/*.log | tail -n 1)
log=${log#made/}
table=$(ls made/*.table | tail -n 1)
table=${table#made/}

# lost STORE WORDS: reading refuses with these words and names salvage, which loses something.
lost() {
    is 3 "$2" scan "$1"
    is 3 "hedgerow salvage" get "$1" last1
    is 1 "lost:" salvage "$1" "$1-saved"
}

# flip FILE TEXT: changes the first byte of the last place where the text stands.
flip() {
    local at
    at=$(grep -abo "$2" "$1" | tail -n 1 | cut -d: -f1)
    printf '\377' | dd of="$1" bs=1 seek="$at" conv=notrunc 2>/dev/null
}

cp -r made inside
flip "inside/$log" "last2"
lost inside "is damaged at byte"
is 0 "value 3" get inside-saved last3

cp -r made atend
flip "atend/$log" "last3"
lost atend "is damaged at byte"
is 0 "value 2" get atend-saved last2

cp -r made short
at=$(grep -abo last2 "short/$log" | cut -d: -f1)
truncate -s "$at" "short/$log"
lost short "is damaged at byte"
is 0 "value 1" get short-saved last1

cp -r made missing
rm "missing/$table"
is 3 "hedgerow salvage" get missing last1
is 1 "lost:" salvage missing missing-saved
holds "entries of what is left" grep -qE ' [1-9][0-9]* entries brought over' <<<"$said"

cp -r made empty
: >empty/MANIFEST
lost empty "does not begin like one"
is 0 "value 1" get empty-saved last1

cp -r made bare
rm bare/MANIFEST
lost bare "its MANIFEST is not"
is 0 "value 3" get bare-saved last3
same "entries that are brought over" "$("$hedgerow" scan bare-saved --keys-only | wc -l)" 60003

cd ..
