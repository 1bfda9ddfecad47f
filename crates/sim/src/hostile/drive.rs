//! Makes every call that reads and writes, on a store with any content. Errors are expected; a
//! panic, a signal, an endless loop and unbounded memory are not allowed.

use std::io::{Read, Seek, SeekFrom};
use std::ops::Bound;
use std::path::Path;

use hedgerow::Durability;
use hedgerow::tree::{
    Builder, CopyOptions, Cursor, Entry, ReadTxn, Snapshot, Store, Table, Update, WriteTxn,
};
use hedgerow::{Error, Result};

use super::template::Kind;
use crate::rng::Rng;

/// The most entries that a store may give: a table with more is an endless loop.
const ENTRIES_MAX: u64 = 20_000_000;

/// Drives a store.
pub struct Driver<'d> {
    folder: &'d Path,
    rng: &'d mut Rng,
    page_size: usize,
    /// Calls that succeeded, and calls that were refused.
    pub done: u64,
    /// See [`Self::done`].
    pub refused: u64,
}

impl<'d> Driver<'d> {
    /// A driver that puts copies into `folder`.
    pub fn new(folder: &'d Path, rng: &'d mut Rng) -> Self {
        Self { folder, rng, page_size: 4096, done: 0, refused: 0 }
    }

    /// Counts the result of a call.
    fn note<T>(&mut self, result: Result<T>) -> Option<T> {
        match result {
            Ok(answer) => {
                self.done += 1;
                Some(answer)
            }
            Err(error) => {
                // Its text is made too.
                self.refused += u64::from(!error.to_string().is_empty());
                None
            }
        }
    }

    /// Opens the store and does everything with it.
    pub fn run(&mut self, builder: &Builder, path: &Path) {
        let Some(store) = self.open(builder, path) else { return };
        self.reads(&store);
        self.whole(&store);
        for _ in 0..2 {
            self.writes(&store);
        }
        let compacted = store.compact(&mut |_, _| {});
        self.note(compacted);
        self.reads(&store);
        let checked = store.check(&mut |_, _| {});
        self.note(checked);
    }

    /// Opens the store and does most things with it, each a few times.
    pub fn run_briefly(&mut self, builder: &Builder, path: &Path) {
        let Some(store) = self.open(builder, path) else { return };
        self.reads(&store);
        let checked = store.check(&mut |_, _| {});
        self.note(checked);
        self.writes(&store);
        let Some(txn) = self.note(store.begin_read()) else { return };
        for (table, kind) in self.tables(&txn) {
            self.scans(&txn, table, kind);
        }
    }

    fn open(&mut self, builder: &Builder, path: &Path) -> Option<Store> {
        let store = self.note(builder.open(path))?;
        self.page_size = store.page_size() as usize;
        Some(store)
    }

    /// Questions about the store as a whole.
    fn whole(&mut self, store: &Store) {
        let stat = store.stat();
        self.note(stat);
        let readers = store.readers();
        self.note(readers);
        let checked = store.check(&mut |_, _| {});
        self.note(checked);
        for compact in [false, true] {
            let copy = self.folder.join("copy");
            let copied = store.copy_to(&copy, CopyOptions { compact }, &mut |_, _| {});
            if self.note(copied).is_some()
                && let Some(copy) = self.open(&Builder::new().read_only(true), &copy)
            {
                self.reads(&copy);
            }
            for name in ["copy", "copy-lock"] {
                // Not there, if the copy failed.
                let _ = std::fs::remove_file(self.folder.join(name));
            }
        }
    }

    /// The tables that can be opened, with their kinds.
    fn tables<S: Snapshot>(&mut self, txn: &S) -> Vec<(Table, Kind)> {
        let listed = txn.tables();
        self.note(listed);
        let mut found = Vec::new();
        for kind in Kind::ALL {
            let plain = txn.table(kind.name());
            let table = match self.note(plain) {
                Some(table) => Some(table),
                None => {
                    let with = txn.table_with(kind.name(), &kind.options());
                    self.note(with)
                }
            };
            found.extend(table.map(|table| (table, kind)));
        }
        found
    }

    fn reads(&mut self, store: &Store) {
        let Some(mut txn) = self.note(store.begin_read()) else { return };
        for (table, kind) in self.tables(&txn) {
            self.read_table(&txn, table, kind);
        }
        txn.reset();
        let renewed = txn.renew();
        self.note(renewed);
    }

    fn read_table(&mut self, txn: &ReadTxn, table: Table, kind: Kind) {
        self.look_ups(txn, table, kind);
        self.ranks(txn, table, kind);
        self.scans(txn, table, kind);
        let shape = txn.table_shape(table);
        self.note(shape);
        if let Some(mut cursor) = self.note(txn.cursor(table)) {
            for _ in 0..24 {
                self.step(txn, &mut cursor, kind);
            }
        }
    }

    fn entry(&mut self, kind: Kind) -> (Vec<u8>, Vec<u8>) {
        let n = self.rng.below(700);
        let (mut key, value) = kind.entry(n, self.page_size);
        if kind != Kind::Integer && self.rng.chance(1, 4) {
            key.truncate(self.rng.index(key.len() + 1));
        }
        (key, value)
    }

    fn look_ups<S: Snapshot>(&mut self, txn: &S, table: Table, kind: Kind) {
        let entries: Vec<_> = (0..12).map(|_| self.entry(kind)).collect();
        for (key, value) in &entries {
            let got = txn.get(table, key).map(|found| found.map(|bytes| bytes.to_vec()));
            self.note(got);
            let contains = txn.contains_pair(table, key, value);
            self.note(contains);
            let mut bytes = 0;
            let values = txn.for_each_value(table, key, |value| bytes += value.len());
            self.note(values);
            if let Some(Some(mut reader)) = self.note(txn.value_reader(table, key)) {
                let mut part = [0; 3000];
                // An error of the stream is a result like any other.
                let _ = reader.read(&mut part);
                let _ = reader.seek(SeekFrom::End(-100));
                let _ = reader.read(&mut part);
            }
        }
        let keys: Vec<&[u8]> = entries.iter().map(|(key, _)| &key[..]).collect();
        let mut found = Vec::new();
        let many = txn.get_many(table, &keys, &mut found);
        self.note(many);
    }

    fn ranks<S: Snapshot>(&mut self, txn: &S, table: Table, kind: Kind) {
        let counted = txn.count(table);
        let total = self.note(counted).unwrap_or_default();
        for _ in 0..6 {
            let ((a, v), (b, w)) = (self.entry(kind), self.entry(kind));
            let ranked = txn.rank(table, &a);
            self.note(ranked);
            let ranked = txn.rank_pair(table, &a, &v);
            self.note(ranked);
            let counted =
                txn.count_range(table, (Bound::Included(&a[..]), Bound::Excluded(&b[..])));
            self.note(counted);
            let counted = txn.count_pairs(
                table,
                Bound::Excluded((&a[..], &v[..])),
                Bound::Included((&b[..], &w[..])),
            );
            self.note(counted);
            let counted = txn.count_values(table, &a);
            self.note(counted);
            for n in [0, self.rng.below(total.values), total.values.wrapping_sub(1), u64::MAX] {
                let nth = txn.nth(table, n).map(|entry| entry.map(size));
                self.note(nth);
                let nth = txn.nth_key(table, n).map(|entry| entry.map(size));
                self.note(nth);
            }
        }
        let sampled = txn.sample(table, 20).map(|entries| entries.into_iter().map(size).max());
        self.note(sampled);
        let sampled = txn.sample_random(table, 20, 1).map(|entries| entries.len());
        self.note(sampled);
        let split = txn.split(table, 9).map(|entries| entries.len());
        self.note(split);
    }

    /// The whole table in both directions, and ranges from both ends.
    fn scans<S: Snapshot>(&mut self, txn: &S, table: Table, kind: Kind) {
        for forward in [true, false] {
            let Some(mut cursor) = self.note(txn.cursor(table)) else { return };
            let mut count = 0;
            loop {
                let step = if forward { cursor.next(txn) } else { cursor.prev(txn) };
                let step = step.map(|entry| entry.map(size));
                if self.note(step).flatten().is_none() {
                    break;
                }
                count += 1;
                assert!(count < ENTRIES_MAX, "a scan of {kind:?} does not end");
            }
        }
        let ((a, _), (b, _)) = (self.entry(kind), self.entry(kind));
        for (low, high) in [
            (Bound::Unbounded, Bound::Unbounded),
            (Bound::Included(&a[..]), Bound::Excluded(&b[..])),
            (Bound::Excluded(&b[..]), Bound::Included(&a[..])),
        ] {
            let Some(mut range) = self.note(txn.range(table, (low, high))) else { continue };
            let mut count = 0;
            let mut back = false;
            while let Some(entry) = if back { range.next_back() } else { range.next() } {
                self.note(entry.map(size));
                back = !back && self.rng.chance(1, 3);
                count += 1;
                assert!(count < ENTRIES_MAX, "a range of {kind:?} does not end");
            }
        }
    }

    /// One step of a cursor.
    fn step<S: Snapshot>(&mut self, txn: &S, cursor: &mut Cursor, kind: Kind) {
        let (key, value) = self.entry(kind);
        let entry = match self.rng.below(18) {
            0 => cursor.next(txn),
            1 => cursor.prev(txn),
            2 => cursor.first(txn),
            3 => cursor.last(txn),
            4 => cursor.current(txn),
            5 => cursor.next_key(txn),
            6 => cursor.prev_key(txn),
            7 => cursor.next_value(txn),
            8 => cursor.prev_value(txn),
            9 => cursor.first_value(txn),
            10 => cursor.last_value(txn),
            11 => cursor.seek(txn, &key),
            12 => cursor.seek_at_or_after(txn, &key),
            13 => cursor.seek_at_or_before(txn, &key),
            14 => cursor.seek_pair(txn, &key, &value),
            15 => cursor.seek_value_at_or_after(txn, &key, &value),
            16 => cursor.seek_nth(txn, self.rng.below(2000)),
            _ => {
                let counted = cursor.value_count(txn);
                self.note(counted);
                return;
            }
        };
        self.note(entry.map(|entry| entry.map(size)));
    }

    /// One write transaction, with all its calls, to one of its ends.
    fn writes(&mut self, store: &Store) {
        let Some(mut txn) = self.note(store.begin_write()) else { return };
        let tables = self.tables(&txn);
        for _ in 0..60 {
            if tables.is_empty() {
                break;
            }
            let (table, kind) = self.rng.pick(&tables);
            self.write(&mut txn, table, kind);
        }
        if let (Some((table, kind)), true) = (tables.first(), self.rng.chance(1, 4)) {
            self.scans(&txn, *table, *kind);
        }
        let end = match self.rng.below(5) {
            0 => {
                txn.abort();
                Ok(())
            }
            1 => txn.commit_with(Durability::None),
            2 => txn.commit_with(Durability::Eventual),
            _ => txn.commit(),
        };
        self.note(end);
    }

    fn write(&mut self, txn: &mut WriteTxn, table: Table, kind: Kind) {
        let (key, value) = self.entry(kind);
        let result = match self.rng.below(24) {
            0..5 => txn.put(table, &key, &value),
            5 => txn.put_new(table, &key, &value).map(drop),
            6 => txn.put_pair(table, &key, &value).map(drop),
            7 => txn.replace(table, &key, &value).map(drop),
            8 => txn.append(table, &[0xFF; 12], &value),
            9 => txn.reserve(table, &key, value.len()).map(|place| place.fill(3)),
            10 => self.value_writer(txn, table, &key),
            11 => txn.update(table, &key, |_| Update::Put(value)),
            12..15 => txn.delete(table, &key).map(drop),
            15 => txn.delete_pair(table, &key, &value).map(drop),
            16 => {
                let (other, _) = self.entry(kind);
                let high = Bound::Excluded(&other[..]);
                txn.delete_range(table, (Bound::Included(&key[..]), high)).map(drop)
            }
            17 if self.rng.chance(1, 4) => txn.clear_table(table),
            18 if self.rng.chance(1, 4) => txn.drop_table(kind.name()).map(drop),
            19 => txn.rename_table(kind.name(), b"renamed"),
            20 => txn.create_table("new", &kind.options()).map(drop),
            21 => self.nested(txn, table, kind),
            _ => self.at_cursor(txn, table, kind),
        };
        self.note(result);
    }

    fn value_writer(&mut self, txn: &mut WriteTxn, table: Table, key: &[u8]) -> Result<()> {
        let mut writer = txn.value_writer(table, key, 9000)?;
        let written = std::io::Write::write_all(&mut writer, &[9; 9000]);
        written.map_err(|e| Error::Argument { reason: e.to_string() })?;
        writer.finish()
    }

    fn nested(&mut self, txn: &mut WriteTxn, table: Table, kind: Kind) -> Result<()> {
        let savepoint = txn.savepoint()?;
        for _ in 0..6 {
            let (key, value) = self.entry(kind);
            let put = txn.put(table, &key, &value);
            self.note(put);
            let deleted = txn.delete(table, &self.entry(kind).0);
            self.note(deleted);
        }
        if self.rng.chance(1, 2) { txn.rollback_to(savepoint) } else { txn.release(savepoint) }
    }

    fn at_cursor(&mut self, txn: &mut WriteTxn, table: Table, kind: Kind) -> Result<()> {
        let mut cursor = txn.cursor(table)?;
        for _ in 0..4 {
            self.step(txn, &mut cursor, kind);
        }
        let (key, value) = self.entry(kind);
        match self.rng.below(4) {
            0 => cursor.put(txn, &key, &value),
            1 => cursor.put_current(txn, &value),
            2 => cursor.delete(txn).map(drop),
            _ => cursor.delete_key(txn).map(drop),
        }
    }
}

/// Reads all bytes of an entry.
fn size(entry: Entry<'_>) -> u64 {
    let bytes = entry.key.iter().chain(entry.value.iter());
    bytes.fold(0, |sum, byte| sum + u64::from(byte))
}
