//! The files of the log-structured engine as docs/format-lsm.md describes them.

use std::path::Path;
use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, KeyspaceOptions, Options};
use hedgerow::os::sim::SimSystem;

use super::dump::Dump;

pub(super) const PATH: &str = "/disk/db";

/// Bytes of a group's header, of a segment's, and of a mark of a close.
const GROUP: usize = 32;
const SEGMENT: usize = 64;
const MARK: usize = 32;

/// So short that values are collected soon.
const SEGMENT_BYTES: u64 = 5000;

/// A store with every kind of file and of entry.
pub(crate) fn fill(db: &Db) {
    let small = db.keyspace("small", KeyspaceOptions::default()).unwrap();
    let separated = KeyspaceOptions { separation_threshold: 100, ..Default::default() };
    let large = db.keyspace("large", separated).unwrap();
    let value = |i: u8| [vec![i], vec![0; 1999]].concat();
    for round in 0..2 {
        let mut batch = Batch::new();
        for i in 0..18_u8 {
            batch.put(&small, format!("key-{i:02}").as_bytes(), &[round, i]).unwrap();
        }
        // What the first round puts is garbage after the second one, but for the first value.
        for i in round..4 {
            batch.put(&large, &[b'v', i], &value(16 * round + i)).unwrap();
        }
        db.write(batch).unwrap();
        db.flush().unwrap();
    }
    db.pin("a name").unwrap();
    db.pin("dropped").unwrap();
    db.drop_pin("dropped").unwrap();
    db.compact().unwrap();
    // Tables are merged by themselves, and then values are collected: one of three is needed.
    for round in 2..7 {
        for key in [[b'v', 0], [b'v', 1], [b'w', round]] {
            db.put(&large, &key, &value(16 * round)).unwrap();
        }
        db.flush().unwrap();
    }
    db.delete(&small, b"key-03").unwrap();
    db.delete_range(&small, &b"key-05"[..]..&b"key-08"[..]).unwrap();
    db.put(&large, b"later", &value(7)).unwrap();
    db.flush().unwrap();
    db.id().unwrap();
    db.put(&small, b"in the log", b"1").unwrap();
    db.put(&large, b"in the log", &value(8)).unwrap();
    db.delete(&small, b"key-09").unwrap();
    db.delete_range(&small, &b"key-10"[..]..&b"key-12"[..]).unwrap();
    let mut batch = Batch::new();
    batch.put(&small, b"pending", b"2").unwrap();
    db.write_with(batch, Durability::Eventual).unwrap();
}

pub(crate) fn options() -> Options {
    Options::new().create(true).segment_bytes(SEGMENT_BYTES)
}

/// The names of its files, in their order.
pub(super) fn files(disk: &Arc<SimSystem>) -> Vec<(String, Vec<u8>)> {
    let files = disk.files().into_iter().map(|path| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, disk.content(&path).unwrap())
    });
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

#[test]
fn the_files_of_a_store() {
    let disk = super::disk();
    let db = options().system(disk.clone()).open(PATH).unwrap();
    fill(&db);
    let pending = disk.content(&Path::new(PATH).join("PENDING")).unwrap();
    db.close().unwrap();
    let mut text = String::new();
    for (name, bytes) in files(&disk) {
        // Closing empties it.
        let bytes = if name == "PENDING" { &pending } else { &bytes };
        text.push_str(&file(&name, bytes));
    }
    super::compare("lsm-files.txt", &text);
}

fn file(name: &str, bytes: &[u8]) -> String {
    let mut dump = Dump::new(bytes);
    dump.heading(name);
    match name.rsplit('.').next() {
        Some("MANIFEST") => manifest(&mut dump),
        Some("log") => segment(&mut dump),
        Some("table") => table(&mut dump),
        Some("PENDING") => pending(&mut dump),
        _ => drop(dump.field(bytes.len(), "")),
    }
    dump.text()
}

/// Fields of known lengths.
fn fields<const N: usize>(dump: &mut Dump<'_>, fields: [(usize, &str); N]) {
    for (len, name) in fields {
        dump.field(len, name);
    }
}

fn segment(dump: &mut Dump<'_>) {
    let front =
        [(8, "magic"), (4, "version"), (4, "number"), (8, "salt"), (8, "first sequence number")];
    fields(dump, front);
    fields(dump, [(SEGMENT - 4 - 32, ""), (4, "sum")]);
    groups(dump);
    if dump.left() >= MARK && dump.peek(8)[4..] == [0; 4] && dump.peek(4) != [0; 4] {
        let mark = [(4, "mark: sum"), (4, "count"), (8, "length of the manifest"), (8, "its salt")];
        fields(dump, mark);
        fields(dump, [(8, "last sequence number")]);
    } else if dump.left() >= 4 && dump.peek(dump.left()).iter().any(|byte| *byte != 0) {
        while dump.left() > 4 {
            dump.numbers_as::<3>("from: segments further, offset; here");
        }
        dump.field(4, "sum of the lines");
    }
    dump.field(dump.left(), "behind the end");
}

/// Groups as far as there are any.
fn groups(dump: &mut Dump<'_>) {
    while dump.left() >= GROUP {
        let count = u32::from_le_bytes(dump.peek(8)[4..].try_into().unwrap());
        let len = u64::from_le_bytes(dump.peek(16)[8..].try_into().unwrap());
        let is_group = count > 0 && len > GROUP as u64 && len <= dump.left() as u64;
        // Lines of collected values are no group, whatever they say.
        if !is_group || !(1..=4).contains(&dump.peek(GROUP + 1)[GROUP]) {
            return;
        }
        fields(dump, [(4, "group: sum"), (4, "operations"), (8, "length")]);
        fields(dump, [(8, "sequence number"), (8, "flushed")]);
        for _ in 0..count {
            let [_, key, value] = dump.numbers_as("kind, lengths");
            dump.field(key as usize, "key");
            dump.field(value as usize, "value");
        }
    }
}

fn pending(dump: &mut Dump<'_>) {
    fields(dump, [(8, "magic"), (4, "version"), (4, "segment"), (8, "offset"), (8, "flushed")]);
    fields(dump, [(4, "sum of it"), (28, "")]);
    groups(dump);
}

fn table(dump: &mut Dump<'_>) {
    let end = dump.left() - 64;
    dump.go_to(end);
    fields(dump, [(8, "footer: magic"), (4, "version"), (4, "number")]);
    let index = dump.int(8, "index begins at") as usize;
    let index_len = dump.int(4, "its length") as usize;
    let filter_len = dump.int(4, "length of the filter") as usize;
    let filter = dump.int(8, "it begins at") as usize;
    let ranges = dump.int(8, "ranges begin at") as usize;
    let ranges_len = dump.int(4, "their length") as usize;
    fields(dump, [(8, "salt"), (4, "sum")]);
    dump.go_to(index);
    let places = block(dump, "index", index_len);
    for place in places {
        let mut place = Dump::new(place);
        let [at, len] = place.numbers_as("");
        dump.go_to(at as usize);
        block(dump, "data", len as usize);
    }
    dump.go_to(ranges);
    if ranges_len > 0 {
        let (body, tail) = body(dump, ranges_len);
        dump.heading("block of ranges");
        while dump.at() < body {
            dump.string("first key");
            dump.string("end");
            dump.number("sequence number");
        }
        block_tail(dump, tail);
    }
    dump.go_to(filter);
    if filter_len > 0 {
        let (body, tail) = body(dump, filter_len);
        dump.heading("block of the filter");
        dump.field(body - filter, "filter");
        block_tail(dump, tail);
    }
}

/// Where the body of a block ends, and how many restarts it has.
fn body(dump: &Dump<'_>, len: usize) -> (usize, usize) {
    let block = dump.peek(len);
    let restarts = u32::from_le_bytes(block[len - 13..len - 9].try_into().unwrap()) as usize;
    (dump.at() + len - 13 - 4 * restarts, restarts)
}

fn block_tail(dump: &mut Dump<'_>, restarts: usize) {
    dump.field(4 * restarts, "restarts");
    fields(dump, [(4, "their number"), (4, "entries"), (1, "codec"), (4, "sum")]);
}

/// A block of entries; returns their values.
fn block<'a>(dump: &mut Dump<'a>, name: &str, len: usize) -> Vec<&'a [u8]> {
    let (body, restarts) = body(dump, len);
    dump.heading(&format!("block of {name}"));
    let mut values = Vec::new();
    while dump.at() < body {
        let [_, rest, value, _] = dump.numbers_as("shared, lengths, sequence number and kind");
        dump.field(rest as usize, "key");
        values.push(dump.field(value as usize, "value"));
    }
    block_tail(dump, restarts);
    values
}

fn manifest(dump: &mut Dump<'_>) {
    fields(dump, [(8, "magic"), (4, "version"), (4, ""), (8, "salt"), (8, "features")]);
    fields(dump, [(1, "backup"), (7, ""), (8, "store"), (12, ""), (4, "sum")]);
    while dump.left() > 8 {
        dump.heading("record of the manifest");
        dump.field(4, "sum");
        let end = dump.at() - 4 + dump.int(4, "length") as usize;
        while dump.at() < end {
            edit(dump);
        }
    }
}

fn edit(dump: &mut Dump<'_>) {
    match dump.int(1, "edit") {
        1 => table_line(dump),
        2 | 6 | 8 => drop(dump.number("number")),
        3 => added(dump),
        4 => {
            dump.numbers_as::<4>("number, length, last sequence number, remap");
        }
        5 => {
            added(dump);
            dump.numbers_as::<3>("length, last sequence number, remap");
            for _ in 0..dump.number("count of segments named") {
                dump.number("number");
            }
        }
        7 => drop(dump.number("flushed up to")),
        9 => {
            dump.numbers_as::<2>("number, level");
        }
        10 => {
            dump.string("name of the pin");
            dump.numbers_as::<2>("commit, seconds");
        }
        11 => drop(dump.string("name of the pin")),
        tag => panic!("the manifest has an edit with the tag {tag} before {:x}", dump.at()),
    }
}

/// A segment that is added: number, salt, first sequence number.
fn added(dump: &mut Dump<'_>) {
    dump.number("number");
    dump.field(8, "salt");
    dump.number("first sequence number");
}

fn table_line(dump: &mut Dump<'_>) {
    dump.field(1, "level");
    dump.numbers_as::<4>("number, length, entries, tombstones");
    dump.numbers_as::<4>("ranges, kept for snapshots, sequence numbers from, to");
    dump.string("first key");
    dump.string("last key");
    dump.field(1, "excludes it");
    for _ in 0..dump.number("segments that it points to") {
        dump.numbers_as::<2>("number, bytes");
    }
}
