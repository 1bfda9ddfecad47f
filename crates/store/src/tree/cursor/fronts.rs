//! How a cursor is used; and cursors that give of long values only what stands in the first page:
//! the rest is read in parts ([`Snapshot::value_reader`]).

use super::Cursor;
use crate::tree::Snapshot;
use crate::tree::pages::Pages;

/// How a cursor is used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// How many searches near the place have failed one after the other, and then how many have not
    /// been tried ([`Cursor::seek_beside`]).
    pub(super) strayed: u8,
    /// Of a value that is longer only the first page is given. No less than a page.
    pub(super) whole_max: u32,
}

impl Habits {
    pub(super) const NEW: Self = Self { strayed: 0, whole_max: u32::MAX };
}

#[doc(hidden)]
impl Cursor {
    /// From now on gives, of a value that is longer than so many bytes and than a page, only the
    /// first bytes: as many as a page has. Only these are read then, and verified.
    pub fn give_fronts<S: Snapshot>(&mut self, txn: &S, whole_max: u32) {
        self.habits.whole_max = whole_max.max(txn.pages().page_size() as u32);
    }

    /// The length of the value that was given just now, if that was only the first bytes of it.
    pub fn len_of_front<S: Snapshot>(&mut self, txn: &S) -> Option<u32> {
        if !self.stands(txn) {
            return None;
        }
        self.catch_up();
        let extent = self.page().leaf_record(self.slot).value_extent()?;
        (extent.len > self.habits.whole_max).then_some(extent.len)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _, SeekFrom};

    use super::*;
    use crate::Error;
    use crate::tree::page_ref::PageNo;
    use crate::tree::snapshot::sealed::Sealed as _;
    use crate::tree::{Entry, ReadTxn, Store, Table, TableOptions};

    const LONG: usize = 1 << 20;

    /// The bytes of a value; no two pages of it are equal.
    fn content(len: usize, seed: usize) -> Vec<u8> {
        (0..len).map(|i| ((i >> 12) * 31 + i * 7 + seed) as u8).collect()
    }

    /// A store with values of several lengths, and how long they are.
    fn store(path: &std::path::Path) -> (Store, Vec<usize>) {
        let store = Store::create(path).unwrap();
        let lens = vec![LONG, 10, 4096, 0, 8192, 8193, 3000, LONG + 1];
        let mut txn = store.begin_write().unwrap();
        let table = txn.create_table("t", &TableOptions::new()).unwrap();
        for (i, len) in lens.iter().enumerate() {
            txn.put(table, &[i as u8], &content(*len, i)).unwrap();
        }
        txn.commit().unwrap();
        (store, lens)
    }

    /// Whether an entry is what a cursor with fronts of values of more than 8,192 bytes gives.
    fn is_right(entry: &Entry<'_>, front: Option<u32>, lens: &[usize]) -> bool {
        let i = usize::from(entry.key.to_vec()[0]);
        let (whole, is_front) = (content(lens[i], i), lens[i] > 8192);
        front == is_front.then_some(lens[i] as u32)
            && entry.value == whole[..if is_front { 4096 } else { lens[i] }]
    }

    /// All ways to an entry.
    fn walk<S: Snapshot>(txn: &S, table: Table, lens: &[usize]) {
        let mut cursor = txn.cursor(table).unwrap();
        cursor.give_fronts(txn, 8192);
        for back in [false, true, false] {
            let mut count = 0;
            while let Some(entry) =
                if back { cursor.prev(txn).unwrap() } else { cursor.next(txn).unwrap() }
            {
                let front = cursor.len_of_front(txn);
                assert!(is_right(&entry, front, lens), "{entry:?}");
                count += 1;
            }
            assert_eq!(count, lens.len() - usize::from(count < lens.len()));
        }
        for i in 0..lens.len() {
            for way in 0..3 {
                let entry = match way {
                    0 => cursor.seek(txn, &[i as u8]).unwrap().unwrap(),
                    1 => cursor.seek_nth(txn, i as u64).unwrap().unwrap(),
                    _ => cursor.current(txn).unwrap().unwrap(),
                };
                let front = cursor.len_of_front(txn);
                assert!(is_right(&entry, front, lens), "{entry:?}");
            }
        }
    }

    #[test]
    fn a_cursor_gives_the_first_bytes_of_long_values() {
        let folder = tempfile::tempdir().unwrap();
        let (store, lens) = store(&folder.path().join("store"));
        let reader = store.begin_read().unwrap();
        walk(&reader, reader.table("t").unwrap(), &lens);
        let mut writer = store.begin_write().unwrap();
        let table = writer.table("t").unwrap();
        walk(&writer, table, &lens);
        for i in [0, 3] {
            writer.put(table, &[i as u8], &content(lens[i], i)).unwrap();
        }
        walk(&writer, table, &lens);
    }

    /// The pages of the value of a key, and how many of them were verified.
    fn verified(txn: &ReadTxn, table: Table, key: &[u8]) -> (Vec<PageNo>, usize) {
        let tree = &txn.open_table(table).unwrap().tree;
        let (page, slot) = crate::tree::search::find(txn.pages(), tree, key).unwrap().unwrap();
        let extent = page.leaf_record(slot).value_extent().unwrap();
        let run = crate::tree::extent::run_of(&extent, txn.pages().page_size());
        let all: Vec<_> = (run.start..run.start + run.len).collect();
        let count = all.iter().filter(|no| txn.pages().file.is_extent_checked(**no)).count();
        (all, count)
    }

    #[test]
    fn only_what_is_given_is_verified_and_all_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let (made, lens) = store(&path);
        let reader = made.begin_read().unwrap();
        let (pages, _) = verified(&reader, reader.table("t").unwrap(), &[0]);
        drop(reader);
        drop(made);
        let mut file = std::fs::read(&path).unwrap();
        for no in &pages[100..200] {
            file[*no as usize * 4096 + 5] ^= 1;
        }
        std::fs::write(&path, file).unwrap();
        let store = Store::open(&path).unwrap();
        let txn = store.begin_read().unwrap();
        let table = txn.table("t").unwrap();
        walk(&txn, table, &lens);
        assert_eq!(verified(&txn, table, &[0]).1, 1);
        assert_eq!(verified(&txn, table, &[7]).1, 1);
        let read = |from: usize, len: usize| {
            let mut part = vec![0; len];
            let mut reader = txn.value_reader(table, &[0]).unwrap().unwrap();
            reader.seek(SeekFrom::Start(from as u64)).unwrap();
            reader.read_exact(&mut part).map(|()| assert_eq!(part, content(LONG, 0)[from..][..len]))
        };
        for (from, len) in [(0, 5000), (99 * 4096, 4096), (200 * 4096, 1), (LONG - 10, 10)] {
            read(from, len).unwrap();
        }
        assert_eq!(verified(&txn, table, &[0]).1, 5);
        for (from, len) in [(0, LONG), (99 * 4096, 4097), (150 * 4096 + 9, 2)] {
            assert!(read(from, len).is_err());
        }
        assert!(matches!(txn.get(table, &[0]), Err(Error::Corrupt { .. })));
        assert_eq!(verified(&txn, table, &[7]).1, 1);
        txn.get(table, &[7]).unwrap();
        assert_eq!(verified(&txn, table, &[7]).1, LONG / 4096 + 1);
    }
}
