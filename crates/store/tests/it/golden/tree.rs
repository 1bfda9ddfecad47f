//! The files of the tree engine as docs/format.md describes them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use hedgerow::os::sim::SimSystem;
use hedgerow::tree::{Builder, Duplicates, Order, Snapshot, Store, TableOptions, WriteTxn};

use super::dump::Dump;

pub(super) const PATH: &str = "/disk/store";
const PAGE: usize = 4096;
/// Of the pages on one level of one tree this many are shown.
const SHOWN: usize = 2;
/// Of the records of a page this many. The checksum of the page stands for the others.
const RECORDS_SHOWN: usize = 16;

/// What a page is: the name of its tree, and how many of that level come before it.
type Known = BTreeMap<u64, (String, usize)>;

/// An extent: its first page, the length of what it holds.
type Extents = BTreeMap<u64, usize>;

pub(super) fn builder() -> Builder {
    Store::builder().page_size(PAGE as u32)
}

fn plain() -> TableOptions {
    TableOptions::new()
}

pub(super) fn custom() -> TableOptions {
    let compare = |a: &[u8], b: &[u8]| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    plain().order(Order::custom("by length", compare))
}

/// A table that is made here, with these pairs.
fn fill(txn: &mut WriteTxn, name: &str, options: &TableOptions, pairs: &[(&[u8], &[u8])]) {
    let table = txn.create_table(name, options).unwrap();
    for (key, value) in pairs {
        txn.put(table, key, value).unwrap();
    }
}

/// Bytes that begin so and go on with zeros, which take no room in a dump.
fn long(front: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = front.to_vec();
    bytes.resize(len, 0);
    bytes
}

/// Leaves of every form.
fn leaves(txn: &mut WriteTxn) {
    fill(
        txn,
        "prefixes",
        &plain(),
        &[(b"shared-1", b"a"), (b"shared-22", b""), (b"shared-3", b"c")],
    );
    let whole = plain().prefix_compression(false);
    let pairs: [(&[u8], &[u8]); 2] = [(b"shared-1", b"a"), (b"shared-22", b"b")];
    fill(txn, "whole", &whole.clone().aligned(false), &pairs);
    let middle = long(b"m", 130);
    let pairs: [(&[u8], &[u8]); 3] =
        [(b"12345678", b"abcdefgh"), (b"odd", b"value"), (b"z", &middle)];
    fill(txn, "aligned", &whole, &pairs);
    fill(
        txn,
        "reverse",
        &plain().order(Order::Reverse),
        &[(b"1.example", b"a"), (b"2.example", b"b")],
    );
    let integer = plain().order(Order::Integer).user_flags(7);
    fill(
        txn,
        "integer",
        &integer,
        &[(&7_u64.to_le_bytes(), b"seven"), (&8_u64.to_le_bytes(), b"eight")],
    );
    fill(txn, "custom", &custom(), &[(b"b", b"1"), (b"aa", b"2")]);
    let groups: [(&[u8], &[u8]); 6] = [
        (b"a", b"same-1"),
        (b"a", b"same-2"),
        (b"b", b"one"),
        (b"b", b"three"),
        (b"b", b"two-"),
        (b"c", b"1"),
    ];
    fill(txn, "duplicates", &plain().duplicates(), &groups);
    fill(
        txn,
        "fixed",
        &plain().fixed_duplicates(2),
        &[(b"k", b"ab"), (b"k", b"cd"), (b"k", b"ef")],
    );
    let aligned = whole.duplicates_in(Duplicates::Any { order: Order::Reverse });
    fill(txn, "aligned duplicates", &aligned, &groups);
}

/// Trees of several levels, values of one key in several leaves, long keys and values.
fn trees(txn: &mut WriteTxn) {
    let levels = txn.create_table("levels", &plain()).unwrap();
    // Two of them in a leaf, so that each separator is long.
    for i in 1..25_u8 {
        let mut key = long(&[i / 2], 450);
        key.push(i % 2);
        txn.put(levels, &key, &long(&[i], 1500)).unwrap();
    }
    let values = txn.create_table("many values", &plain().duplicates()).unwrap();
    for i in 0..16_u8 {
        txn.put(values, b"key", &long(&[i], 500)).unwrap();
    }
    let text = long(b"a long value", 5000);
    fill(txn, "long", &plain(), &[(b"value", &text), (&long(b"a long key", 600), b"v")]);
}

/// A store of every kind of page; none of its commits stands in a log.
pub(crate) fn pages(store: &Store) {
    let mut txn = store.begin_write().unwrap();
    leaves(&mut txn);
    trees(&mut txn);
    let gone = txn.create_table("gone", &plain()).unwrap();
    for i in 0..300_u16 {
        txn.put(gone, &i.to_be_bytes(), &[0; 2100]).unwrap();
    }
    txn.commit().unwrap();
    // Of these pages some are free, others are held by a pin.
    for from in [0, 2] {
        let mut txn = store.begin_write().unwrap();
        let gone = txn.table("gone").unwrap();
        for i in (from..300_u16).step_by(4) {
            txn.delete(gone, &i.to_be_bytes()).unwrap();
        }
        txn.commit().unwrap();
        if from == 0 {
            store.pin("a name").unwrap();
        }
    }
}

/// A store with records in its log, which is left as if its process had died.
pub(super) fn logged(store: &Store) {
    for i in 0..4_u8 {
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", &plain()).unwrap();
        for part in 0..4_u8 {
            txn.put(table, &long(&[part, i], 40), &long(&[i], 1200)).unwrap();
        }
        txn.commit().unwrap();
    }
}

fn content(disk: &Arc<SimSystem>) -> Vec<u8> {
    disk.content(Path::new(PATH)).unwrap()
}

#[test]
fn the_pages_of_a_store() {
    let disk = super::disk();
    let store = builder().log_size(0).system(disk.clone()).create(PATH).unwrap();
    pages(&store);
    drop(store);
    super::compare("tree-pages.txt", &dump(&content(&disk)));
}

#[test]
fn the_log_of_a_store() {
    let disk = super::disk();
    let store = builder().log_size(64 << 10).system(disk.clone()).create(PATH).unwrap();
    logged(&store);
    let bytes = content(&disk);
    assert!(Log::of(&bytes).is_some_and(|log| log.records(&bytes).count() > 1), "there is a log");
    super::compare("tree-log.txt", &dump_log(&bytes));
}

fn int(bytes: &[u8], at: usize, len: usize) -> usize {
    bytes[at..at + len].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// Where the newest of the three meta records stands.
fn newest(bytes: &[u8]) -> usize {
    let at = (0..3).map(|slot| slot * PAGE).max_by_key(|at| int(bytes, at + 24, 8));
    at.unwrap_or_default()
}

fn root_record(dump: &mut Dump<'_>) -> (u64, u64) {
    let page = dump.int(4, "root: page");
    let level = dump.int(4, "level");
    for name in ["keys", "values", "branch pages", "leaf pages", "overflow pages"] {
        dump.int(8, name);
    }
    (page, level)
}

fn meta(dump: &mut Dump<'_>) {
    dump.field(8, "magic");
    for (len, name) in [
        (4, "version"),
        (1, "page size"),
        (1, "kind"),
        (1, "evidence flag"),
        (1, ""),
        (8, "features"),
        (8, "commit"),
        (4, "end"),
        (4, "maximum"),
        (16, "store id"),
        (24, "evidence"),
        (8, "ready pages"),
        (8, "pending pages"),
    ] {
        dump.field(len, name);
    }
    for _ in 0..3 {
        root_record(dump);
    }
    for (len, name) in [
        (4, "runs"),
        (4, "recent runs"),
        (8, "digest"),
        (4, "sum of the front"),
        (4, ""),
        (512, "runs"),
        (3240, "recent runs"),
    ] {
        dump.field(len, name);
    }
    root_record(dump);
    for (len, name) in [(4, "log: page"), (4, "pages"), (8, "next record"), (8, "sum before")] {
        dump.field(len, name);
    }
    dump.field(4, "");
    dump.field(4, "sum");
}

fn dump(bytes: &[u8]) -> String {
    let mut dump = Dump::new(bytes);
    let at = newest(bytes);
    dump.heading(&format!("the newest meta record, page {}", at / PAGE));
    dump.go_to(at);
    meta(&mut dump);
    let mut known = Known::new();
    let mut extents = Extents::new();
    for (name, root) in [("catalog", 96), ("ready", 144), ("pending", 192), ("pins", 4016)] {
        if name != "pins" || int(bytes, at + 16, 8) & 4 != 0 {
            know(bytes, name, int(bytes, at + root, 4), &mut known);
        }
    }
    for (&number, (name, before)) in &known {
        if *before >= SHOWN {
            continue;
        }
        dump.go_to(number as usize * PAGE);
        let kind = if dump.peek(5)[4] == 1 { "leaf" } else { "branch" };
        dump.heading(&format!("{kind} of \"{name}\", page {number}"));
        let mut of_page = Extents::new();
        page(&mut dump, name, &mut of_page);
        extents.extend(of_page.into_iter().take(SHOWN));
    }
    for (page, len) in extents {
        dump.heading(&format!("extent, page {page}"));
        extent(&mut dump, page as usize, len);
    }
    dump.text()
}

/// Notes the pages of a tree, and those of the tables that a catalog names.
fn know(bytes: &[u8], name: &str, number: usize, known: &mut Known) {
    if number == 0xffff_ffff {
        return;
    }
    let start = number * PAGE;
    let (level, count) = (bytes[start + 5], int(bytes, start + 16, 2));
    let same = |page: &&u64| bytes[**page as usize * PAGE + 5] == level;
    let before = known.iter().filter(|(page, (other, _))| other == name && same(page)).count();
    known.insert(number as u64, (name.to_string(), before));
    let arrays = start + 24 + int(bytes, start + 18, 2).next_multiple_of(4) + 4 * count;
    for i in 0..count {
        if level > 0 {
            know(bytes, name, int(bytes, arrays + 4 * i, 4), known);
        } else if name == "catalog" {
            let record = start + int(bytes, arrays + 2 * i, 2);
            let (rest, value) =
                (usize::from(bytes[record]), record + 2 + usize::from(bytes[record]));
            let shared = &bytes[start + 24..start + 24 + int(bytes, start + 18, 2)];
            let table = [shared, &bytes[record + 2..record + 2 + rest]].concat();
            know(bytes, &String::from_utf8_lossy(&table), int(bytes, value, 4), known);
        }
    }
}

fn page(dump: &mut Dump<'_>, name: &str, extents: &mut Extents) {
    let start = dump.at();
    dump.field(4, "checksum");
    let is_leaf = dump.int(1, "kind") == 1;
    let level = dump.int(1, "level");
    let flags = dump.int(1, "flags");
    dump.field(1, "");
    dump.field(8, "birth");
    let count = dump.int(2, "count") as usize;
    let shared = dump.int(2, "shared length") as usize;
    let heap = dump.int(2, "heap") as usize;
    dump.field(2, "");
    dump.field(shared.next_multiple_of(4), "shared bytes");
    dump.field(4 * count, "heads");
    if !is_leaf {
        let total = if level == 1 { 4 } else { 8 };
        dump.field(4 * count, "children");
        dump.field(total * count, "keys below");
        if flags & 8 != 0 {
            dump.field(total * count, "values below");
        }
    }
    let is_aligned = flags & 32 != 0;
    let (slot, slots) = (if is_aligned { 4 } else { 2 }, dump.peek(4 * count));
    dump.field(slot * count, if is_aligned { "slots" } else { "records begin at" });
    let free = start + PAGE - heap - dump.at();
    dump.field(free, "free");
    let begin = |i: usize| (int(slots, i * slot, 2), i);
    let mut records: Vec<_> = (0..count).map(begin).collect();
    records.sort_unstable();
    for (offset, i) in records.into_iter().filter(|(at, _)| *at < PAGE).take(RECORDS_SHOWN) {
        dump.go_to(start + offset);
        let lens = if is_aligned {
            aligned_lens(dump, slots[i * slot + 2], slots[i * slot + 3])
        } else {
            [record_len(dump, "key's length"), record_len(dump, "behind")]
        };
        record(dump, lens, is_leaf, name, extents, is_aligned);
    }
}

/// A length of one or two bytes.
fn record_len(dump: &mut Dump<'_>, name: &str) -> usize {
    let is_long = dump.peek(1)[0] >= 128;
    let bytes = dump.field(if is_long { 2 } else { 1 }, name);
    let upper = usize::from(bytes[0] & 127);
    if is_long { upper << 8 | usize::from(bytes[1]) } else { upper }
}

/// What the two bytes of a slot and the record's prefix say.
fn aligned_lens(dump: &mut Dump<'_>, key: u8, behind: u8) -> [usize; 2] {
    let told = [key, behind].map(|byte| match byte {
        0..=0x7f => Some(usize::from(byte)),
        0x80..=0xef => Some(128 + 8 * usize::from(byte - 0x80)),
        0xf0..=0xfd => None,
        0xfe => Some(0x7ffe),
        0xff => Some(0x7fff),
    });
    let untold = told.iter().filter(|len| len.is_none()).count();
    if untold == 0 {
        return told.map(Option::unwrap_or_default);
    }
    let start = dump.at();
    let lens = told.map(|len| len.unwrap_or_else(|| dump.int(2, "length") as usize));
    // A group or an extent counts as a multiple of eight.
    if lens.iter().all(|len| len % 8 == 0 || *len >= 0x7ff0) {
        dump.field(start + 8 - dump.at(), "");
    }
    lens
}

fn cell(dump: &mut Dump<'_>, extents: &mut Extents) {
    let page = dump.int(4, "extent: page");
    let len = dump.int(4, "length");
    dump.field(4, "sum");
    extents.insert(page, len as usize);
}

fn record(
    dump: &mut Dump<'_>,
    [key, behind]: [usize; 2],
    is_leaf: bool,
    tree: &str,
    extents: &mut Extents,
    is_aligned: bool,
) {
    let odd = |len: usize| usize::from(is_aligned && len % 2 == 1);
    if key == 0x7fff {
        cell(dump, extents);
        let known = dump.int(2, "known bytes") as usize;
        dump.field(known, "key");
    } else {
        dump.field(key + odd(key), "key");
    }
    match behind {
        0x7ffe => group(dump, is_aligned),
        0x7fff => cell(dump, extents),
        len if !is_leaf => drop(dump.field(len.saturating_sub(1), "value")),
        _ if tree == "catalog" => {
            root_record(dump);
            dump.field(4, "orders, duplicates, form");
            dump.field(behind - 52, "sizes, flags, names");
        }
        len => drop(dump.field(len, "value")),
    }
}

fn group(dump: &mut Dump<'_>, is_aligned: bool) {
    let count = dump.int(2, "group: values") as usize;
    let shared = dump.int(2, "shared length") as usize;
    let stride = dump.int(2, "stride") as usize;
    if is_aligned {
        dump.field(2, "");
    }
    dump.field(shared, "shared");
    if stride != 0xffff {
        dump.field(count * stride, "values");
        return;
    }
    let width = if is_aligned { (2 * count).next_multiple_of(8) } else { 2 * count };
    let ends = dump.field(width, "ends");
    let mut start = 0;
    for i in 0..count {
        let end = int(ends, 2 * i, 2);
        let len = end - start;
        dump.field(len + usize::from(is_aligned && len % 2 == 1), "value");
        start = end;
    }
}

fn extent(dump: &mut Dump<'_>, page: usize, len: usize) {
    let sums = len.div_ceil(PAGE);
    let end = (page + (len + 8 + 4 * sums).div_ceil(PAGE)) * PAGE;
    dump.go_to(page * PAGE);
    dump.field(len, "bytes");
    dump.go_to(end - 8 - 4 * sums);
    dump.field(8, "commit");
    dump.field(4 * sums, "sums");
}

/// Where a log lies.
struct Log {
    start: usize,
    end: usize,
}

impl Log {
    fn of(bytes: &[u8]) -> Option<Self> {
        let meta = newest(bytes);
        let at = int(bytes, meta + 4064, 4) * PAGE;
        let end = at + int(bytes, meta + 4068, 4) * PAGE;
        (at > 0).then_some(Self { start: at, end })
    }

    /// The places of its records.
    fn records<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = usize> + use<'a> {
        (self.start..self.end).step_by(PAGE).filter(|at| bytes[*at..].starts_with(b"HDGREDO"))
    }
}

/// The meta record and the records of the log.
fn dump_log(bytes: &[u8]) -> String {
    let mut dump = Dump::new(bytes);
    let at = newest(bytes);
    dump.heading(&format!("the newest meta record, page {}", at / PAGE));
    dump.go_to(at);
    meta(&mut dump);
    let records = Log::of(bytes).into_iter().flat_map(|log| log.records(bytes));
    for at in records {
        dump.heading(&format!("record of the log, page {}", at / PAGE));
        dump.go_to(at);
        dump.field(8, "magic");
        dump.field(4, "length");
        let entries = dump.int(4, "entries");
        for name in ["commit", "follows", "place", "sum before", "sum"] {
            dump.field(8, name);
        }
        for _ in 0..entries {
            dump.field(4, "entry: page");
            dump.field(4, "made from");
            let len = dump.int(4, "length") as usize;
            let is_moved = len & 1 << 31 != 0;
            dump.field(len & !(1 << 31), if is_moved { "parts" } else { "difference" });
        }
    }
    dump.text()
}
