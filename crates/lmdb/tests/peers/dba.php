<?php
// Writes, walks and changes databases with PHP's dba, which goes through them with a read transaction
// that it resets and renews at each step; prints what it finds.
error_reporting(E_ALL);

function show(string $what, $value): void
{
    echo $what, ' ', var_export($value, true), "\n";
}

function walk($db): void
{
    $sum = '';
    $count = 0;
    // The bound ends a walk that does not get on.
    for ($key = dba_firstkey($db); $key !== false && $count < 5000; $key = dba_nextkey($db)) {
        $sum = md5("$sum|$key|" . dba_fetch($key, $db));
        $count++;
    }
    echo "$count entries, $sum\n";
}

foreach (['r', 'w', 'c', 'n', 'r', 'w'] as $mode) {
    $db = @dba_open('modes.db', $mode, 'lmdb');
    show("mode $mode", $db !== false);
    if ($db) {
        show('insert', @dba_insert('key', $mode, $db));
        show('fetch', dba_fetch('key', $db));
        dba_close($db);
    }
}
$db = dba_open('entries.db', 'c', 'lmdb', 0644, 16 << 20);
for ($i = 0; $i < 500; $i++) {
    dba_insert('key ' . $i * 7919 % 500, str_repeat("value $i ", $i % 50), $db);
}
show('again', dba_insert('key 1', 'other', $db));
show('replace', dba_replace('key 1', 'other', $db));
show('exists', [dba_exists('key 1', $db), dba_exists('no key', $db)]);
show('delete', [dba_delete('key 2', $db), @dba_delete('key 2', $db)]);
show('too long', @dba_insert(str_repeat('k', 512), 'value', $db));
show('binary', dba_insert("a\0b", "c\0d", $db));
walk($db);
show('sync', [dba_optimize($db), dba_sync($db)]);
dba_close($db);

// Four processes write at once, while this one reads.
$writers = [];
for ($n = 0; $n < 4; $n++) {
    $code = '$db = dba_open("entries.db", "w", "lmdb", 0644, 16 << 20);'
        . 'for ($i = 0; $i < 25; $i++) dba_insert("writer ' . $n . ' $i", "$i", $db);';
    $writers[] = proc_open([PHP_BINARY, '-r', $code], [], $pipes);
}
$db = dba_open('entries.db', 'r', 'lmdb');
for ($i = 0; $i < 50; $i++) {
    if (dba_fetch('key 1', $db) !== 'other') {
        echo "not there\n";
    }
}
foreach ($writers as $writer) {
    show('writer', proc_close($writer));
}
walk($db);
