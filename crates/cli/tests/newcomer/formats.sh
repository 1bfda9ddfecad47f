# What is loaded is what was written there, and what is dumped is what other programs expect.

mkdir formats && cd formats || exit 1

# Values with backslashes, quotes and letters beyond ASCII stay what they are.
cat >in.jsonl <<'END'
{"key":"C:\\dead","value":"a\\00b"}
{"key":"h\u00e4","value":"\ud83e\udd8a, \"quoted\"\nline"}
END
ok load j in.jsonl --as jsonl
is 0 'C:\\dead' scan j --keys-only
same "UTF-8 in JSON" "$("$hedgerow" dump j --as jsonl)" '{"key":"C:\\dead","value":"a\\00b"}
{"key":"hä","value":"🦊, \"quoted\"\nline"}'
printf 'key,value\nC:\\dead,a\\00b\nhä,"🦊, ""quoted""\nline"\n' >in.csv
ok load c in.csv --as csv
same "CSV as JSON" "$("$hedgerow" dump c --as jsonl)" "$("$hedgerow" dump j --as jsonl)"
same "CSV as it was" "$("$hedgerow" dump c --as csv)" "$(cat in.csv)"
ok load esc in.jsonl --as jsonl --value-format text
same "escapes only where asked for" "$("$hedgerow" get esc 'C:\\dead' --value-format hex)" 610062

# Bytes that are no UTF-8: in a field of its own, or refused with their number.
printf 'ff00\t80\n61\tc3a4\n' >hex
ok load b hex --as lines --format hex
is 0 '{"key_base64":"/wA=","value_base64":"gA=="}' dump b --as jsonl
is 3 'entry 2, of the key \ff\00: not UTF-8' dump b --as csv
"$hedgerow" dump b --as jsonl >b.jsonl
ok load b2 b.jsonl --as jsonl
same "bytes through JSON" "$("$hedgerow" scan b2)" "$("$hedgerow" scan b)"
for format in raw text hex base64; do
    ok dump b "b.$format" --as csv --format $format
    ok load "b-$format" "b.$format" --as csv --format $format
    same "bytes through CSV as $format" "$("$hedgerow" scan "b-$format")" "$("$hedgerow" scan b)"
done
printf 'key,value\nok,1\n\xff,2\n' >latin.csv
is 3 "line 3: not UTF-8" load latin latin.csv --as csv
gone latin latin-lock

# The judges: jq and Python.
if command -v jq >/dev/null; then
    same "jq reads it" "$("$hedgerow" dump j --as jsonl | jq -r .value)" "$(jq -r .value in.jsonl)"
    jq -c . in.jsonl >jq.jsonl
    ok load jq jq.jsonl --as jsonl
    same "jq wrote it" "$("$hedgerow" scan jq)" "$("$hedgerow" scan j)"
fi
if command -v python3 >/dev/null; then
    "$hedgerow" dump c --as csv >out.csv
    python3 - <<'END' || fail "Python's csv reads and writes something else"
import csv, sys
rows = list(csv.reader(open("out.csv", newline="", encoding="utf-8")))
wanted = [["key", "value"], ["C:\\dead", "a\\00b"], ["hä", '🦊, "quoted"\nline']]
if rows != wanted:
    sys.exit(f"{rows}")
csv.writer(open("python.csv", "w", newline="", encoding="utf-8")).writerows(wanted)
END
    ok load py python.csv --as csv
    same "Python wrote it" "$("$hedgerow" scan py)" "$("$hedgerow" scan c)"
fi

# Real file names.
mkdir 'd' && : >'d/a\dead' && : >'d/b	tab' && : >$'d/new\nline' && : >'d/plain'
printf 'd\\x\t1\n' >names
is 3 "--format raw" load n names --as lines
gone n n-lock
ok load n names --as lines --format raw
is 0 'd\\x' scan n --keys-only
find d -type f -print0 >found
ok load f found --as lines -0 --keys-only
same "find -print0" "$("$hedgerow" count f)" 4
ok dump f back --as lines -0 --keys-only
same "names as they were" "$(sort -z back | sha256sum)" "$(sort -z found | sha256sum)"
is 3 "--keys-only" load g found --as lines -0
is 3 "a line feed would be read" dump f --as lines --format raw --keys-only

# Any file: names of fields, whole lines, other delimiters, numbers.
printf 'id;name;note\n7;"a;b";x\n8;c;y\n' >semi.csv
ok load semi semi.csv --as csv --delimiter ';' --key-field id --value-field name
is 0 $'7\ta;b' scan semi
ok load whole semi.csv --as csv --delimiter ';' --key-field id --whole
is 0 '7;"a;b";x' get whole 7
is 3 "key and value, not" load no semi.csv --as csv --delimiter ';'
printf '{"id": 12, "n": 1.50}\n{"id": 3, "n": null}\n' >n.jsonl
ok load numbers n.jsonl --as jsonl --key-field id --whole --key-format u64
same "numbers in order" "$("$hedgerow" scan numbers --key-format u64 --keys-only | tr '\n' ' ')" "3 12 "
is 3 "line 2: neither a string nor a number" load no n.jsonl --as jsonl --key-field id --value-field n
is 2 "for --as csv" dump j --as lines --delimiter ';'
is 2 "for --as lines" load j2 in.csv --as csv -0

# Numbers by hand: typed tables' encodings, and tables in integer order.
ok create t
ok put t --key-format i64 -5 minus
ok put t --key-format i64 3 three
same "in order" "$("$hedgerow" scan t --key-format i64 --keys-only | tr '\n' ' ')" "-5 3 "
is 0 minus get t --key-format i64 -5
is 0 minus scan t --key-format i64 --from -7 --to -5
is 2 "no i64" get t --key-format i64 abc
is 3 "that are no u32" scan t --key-format u32
ok create int --order integer
ok put int --key-format native64 300 x
is 0 x get int --key-format native64 300
is 3 "3 bytes" get int abc
is 3 "3 bytes" put int abc x
is 3 "3 bytes" rank int abc
is 3 "3 bytes" delete int abc
is 2 "the store comes first" load - in.csv
gone - ./-

cd ..
