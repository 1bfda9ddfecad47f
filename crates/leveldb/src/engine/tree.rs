//! A database on the tree engine: one table of one file, an iterator being a cursor in a read
//! transaction.

use std::cmp::Ordering;
use std::fs;
use std::ops::Bound;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use hedgerow::Durability;
use hedgerow::tree::{
    Builder, Bytes, CopyOptions, Cursor, Interrupt, Loss, Order, ReadTxn, Snapshot as _, Store,
    Table, TableInfo, TableOptions, TableStat, WriteTxn,
};

use super::flusher::{DELAY, Flusher};
use super::{Here, LEVELS, Level, Move, NAME, Str};
use crate::batch::Op;
use crate::folder::{FILE_MODE, TREE};
use crate::options::Options;
use crate::status::{Result, Status};

/// The longest name of an order that the engine stores.
const NAME_BYTES_MAX: usize = 64;
/// What the name of a table that was found without its name begins with.
const LOST: &[u8] = b"lost page ";
/// A place has room for a key of this many bytes from the beginning: most need no more.
const KEY_ROOM: usize = 64;
/// This many places are kept for others at most.
const SPARE_MAX: usize = 8;
/// A batch of at least this many operations is applied in the order of its keys.
const SORT_FROM: usize = 16;

/// An open store.
pub(crate) struct Tree {
    // Before the store, which its thread uses.
    flusher: Option<Flusher>,
    spare: Arc<Spare>,
    store: Store,
    table: TableOptions,
    is_custom: bool,
    /// Whether the one file is shown in a lower level, as LevelDB's are after a compaction.
    is_compacted: AtomicBool,
}

/// The options of the table, and whether its order is a caller's function.
fn table_options(options: &Options) -> (TableOptions, bool) {
    let table = TableOptions::new();
    let Some(compare) = &options.comparator.compare else { return (table, false) };
    let compare = Arc::clone(compare);
    let full = String::from_utf8_lossy(&options.comparator.name);
    let mut name = String::new();
    // CURRENT has the whole name, which is the one that is compared.
    for letter in full.chars() {
        if name.len() + letter.len_utf8() <= NAME_BYTES_MAX {
            name.push(letter);
        }
    }
    (table.order(Order::custom(name, move |a, b| compare(a, b))), true)
}

impl Tree {
    pub(crate) fn create(folder: &Path, options: &Options) -> Result<Self> {
        let mut builder = Store::builder().file_mode(FILE_MODE);
        if options.in_memory {
            builder = builder.durability(Durability::None);
        }
        Self::make(builder, &folder.join(TREE[0]), options)
    }

    /// Makes a store, with a builder that may have another system.
    pub(super) fn make(builder: Builder, path: &Path, options: &Options) -> Result<Self> {
        let tree = Self::new(builder.create(path)?, options);
        tree.store.write(|txn| txn.create_table(NAME, &tree.table).map(drop))?;
        Ok(tree)
    }

    pub(crate) fn open(folder: &Path, options: &Options) -> Result<Self> {
        let store = Store::builder().file_mode(FILE_MODE).open(folder.join(TREE[0]))?;
        let tree = Self::new(store, options);
        // A table of another order is refused now.
        tree.view()?;
        Ok(tree)
    }

    /// A table whose name is not known any more can only be the one that there is: of several, the
    /// one with the most entries. An older catalog may name it as it was before the first entry.
    /// Where there is none, it is made.
    fn adopt(&self) -> Result<()> {
        self.store.write(|txn| {
            let tables = txn.tables()?;
            let (named, others): (Vec<_>, Vec<_>) =
                tables.iter().partition(|info| info.name == NAME.as_bytes());
            let is_lost = |info: &&TableInfo| {
                info.count.values > 0 && !info.duplicates && info.name.starts_with(LOST)
            };
            let lost = others.iter().copied().filter(is_lost);
            let largest = lost.max_by_key(|info| info.count.values);
            match (named.as_slice(), largest) {
                ([named], Some(lost)) if named.count.values == 0 && !self.is_custom => {
                    txn.drop_table(NAME)?;
                    txn.rename_table(&lost.name, NAME)
                }
                ([_, ..], _) => Ok(()),
                ([], Some(lost)) => txn.rename_table(&lost.name, NAME),
                ([], None) => txn.create_table(NAME, &self.table).map(drop),
            }
        })?;
        // A table of another order is refused.
        self.view().map(drop)
    }

    pub(super) fn new(store: Store, options: &Options) -> Self {
        let (table, is_custom) = table_options(options);
        let flushed = store.clone();
        let flusher = (!options.in_memory).then(|| Flusher::new(DELAY, move || flushed.sync()));
        let (spare, is_compacted) = (Arc::default(), AtomicBool::new(false));
        Self { flusher, spare, store, table, is_custom, is_compacted }
    }

    pub(crate) fn view(&self) -> Result<View> {
        let txn = self.store.begin_read()?;
        Ok(View { table: self.table_in(&txn)?, txn })
    }

    fn table_in(&self, txn: &ReadTxn) -> hedgerow::Result<Table> {
        match self.is_custom {
            false => txn.table(NAME),
            true => txn.table_with(NAME, &self.table),
        }
    }

    /// A place in a view, or in the database as it is now.
    pub(crate) fn place(&self, view: Option<&Arc<View>>) -> Result<Place> {
        let at = match view {
            Some(view) => Box::new(At::new(Arc::clone(view))?),
            None => self.newest()?,
        };
        Ok(Place { at: Some(at), value: Str::NONE, spare: Arc::clone(&self.spare) })
    }

    /// A place in the database as it is now.
    fn newest(&self) -> Result<Box<At>> {
        if let Some(mut at) = self.spare.take()
            && at.renew(self)?
        {
            return Ok(at);
        }
        Ok(Box::new(At::new(Arc::new(self.view()?))?))
    }

    pub(crate) fn write(&self, ops: &[Op<'_>], sync: bool) -> Result<()> {
        if ops.is_empty() {
            return if sync { Ok(self.store.sync()?) } else { Ok(()) };
        }
        let sorted = (ops.len() >= SORT_FROM && !self.is_custom).then(|| in_order(ops));
        let ops = sorted.as_deref().unwrap_or(ops);
        // The engine would flush an `Eventual` commit within milliseconds: much writing for callers
        // that do not ask for it.
        let durability = if sync { Durability::Durable } else { Durability::None };
        self.store.write_with(durability, |txn| self.apply(txn, ops))?;
        if !sync && let Some(flusher) = &self.flusher {
            flusher.note();
        }
        Ok(())
    }

    fn apply(&self, txn: &mut WriteTxn, ops: &[Op<'_>]) -> hedgerow::Result<()> {
        let table = match self.is_custom {
            false => txn.table(NAME)?,
            true => txn.table_with(NAME, &self.table)?,
        };
        for op in ops {
            // Of keys that are equal in the caller's order the newest one is kept.
            if self.is_custom && op.value.is_some() {
                txn.delete(table, op.key)?;
            }
            match op.value {
                Some(value) => txn.put(table, op.key, value)?,
                None => txn.delete(table, op.key).map(drop)?,
            }
        }
        Ok(())
    }

    /// The part of the table's pages that the part of its entries takes.
    pub(crate) fn bytes_between(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        let View { txn, table } = self.view()?;
        let keys = (Bound::Included(from), Bound::Excluded(to));
        let part = txn.count_range(table, keys)?.keys;
        let stat = txn.table_stat(table)?;
        let bytes = self.bytes_of(&stat);
        let all = u128::from(stat.count.keys.max(1));
        Ok((u128::from(bytes) * u128::from(part) / all) as u64)
    }

    fn bytes_of(&self, stat: &TableStat) -> u64 {
        let pages = stat.branch_pages + stat.leaf_pages + stat.overflow_pages;
        pages * u64::from(self.store.page_size())
    }

    pub(crate) fn compact(&self) -> Result<()> {
        self.store.compact(&mut |_, _| {})?;
        self.is_compacted.store(true, Relaxed);
        Ok(())
    }

    pub(crate) fn levels(&self) -> Result<[Level; LEVELS]> {
        let View { txn, table } = self.view()?;
        let bytes = self.bytes_of(&txn.table_stat(table)?);
        let mut levels = [Level::default(); LEVELS];
        let level = if self.is_compacted.load(Relaxed) { 2 } else { 0 };
        levels[level] = Level { files: u64::from(bytes > 0), bytes };
        Ok(levels)
    }

    /// The engine keeps pages in the system's cache: of its own it has little.
    pub(crate) fn memory(&self) -> u64 {
        const ABOUT: u64 = 64 << 10;
        ABOUT
    }

    pub(crate) fn check(&self) -> Result<Vec<String>> {
        let report = self.store.check(&mut |_, _| {})?;
        Ok(report.problems)
    }

    pub(crate) fn copy_to(&self, folder: &Path) -> Result<()> {
        let to = folder.join(TREE[0]);
        Ok(self.store.copy_to(to, CopyOptions { compact: true }, &mut |_, _| {})?)
    }
}

/// The operations of a batch in bytewise order of their keys, of each key the last one.
fn in_order<'b>(ops: &[Op<'b>]) -> Vec<Op<'b>> {
    let head = |key: &[u8]| {
        let mut head = [0; 8];
        let len = key.len().min(8);
        head[..len].copy_from_slice(&key[..len]);
        u64::from_be_bytes(head)
    };
    let mut order: Vec<(u64, usize)> =
        ops.iter().enumerate().map(|(index, op)| (head(op.key), index)).collect();
    let compare = |a: &(u64, usize), b: &(u64, usize)| -> Ordering {
        a.0.cmp(&b.0).then_with(|| ops[a.1].key.cmp(ops[b.1].key)).then(a.1.cmp(&b.1))
    };
    order.sort_unstable_by(compare);
    let mut sorted: Vec<Op<'b>> = Vec::with_capacity(ops.len());
    for (_, index) in order {
        let op = ops[index];
        match sorted.last_mut() {
            Some(last) if last.key == op.key => *last = op,
            _ => sorted.push(op),
        }
    }
    sorted
}

/// A read transaction with its table.
pub(crate) struct View {
    txn: ReadTxn,
    table: Table,
}

impl View {
    #[inline]
    pub(crate) fn get<R>(&self, key: &[u8], see: impl FnOnce(Option<&[u8]>) -> R) -> Result<R> {
        let found = self.txn.get(self.table, key)?;
        Ok(match found {
            None => see(None),
            Some(value) => see(Some(&value.to_cow())),
        })
    }

    pub(crate) fn count(&self) -> Result<u64> {
        Ok(self.txn.count(self.table)?.keys)
    }
}

/// A cursor with the view that it is in.
struct At {
    cursor: Cursor,
    view: Arc<View>,
    /// Room for a key and a value that are not stored in one piece.
    joined: [Vec<u8>; 2],
}

/// A place that an iterator has; then it is left for another one.
pub(crate) struct Place {
    /// There until it is dropped.
    at: Option<Box<At>>,
    /// The value of the entry here.
    value: Str,
    spare: Arc<Spare>,
}

/// Places that nobody has, with a view of nothing: to begin with one of them takes less than to
/// make one.
#[derive(Default)]
#[expect(clippy::vec_box, reason = "one is moved for each iterator, and is large")]
struct Spare(Mutex<Vec<Box<At>>>);

impl Spare {
    fn take(&self) -> Option<Box<At>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn leave(&self, mut at: Box<At>) {
        if at.rest() {
            let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if spare.len() < SPARE_MAX {
                spare.push(at);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(at) = self.at.take() {
            self.spare.leave(at);
        }
    }
}

/// Where some bytes stand in one piece: in a page of the view, or as a copy at the beginning of
/// `joined`.
#[inline(always)]
fn in_one_piece(bytes: &Bytes<'_>, joined: &mut Vec<u8>) -> Str {
    if let Some(bytes) = bytes.as_slice() {
        return Str::of(bytes);
    }
    let (first, second) = bytes.parts();
    let len = first.len() + second.len();
    if joined.len() < len {
        joined.resize(len, 0);
    }
    let (begin, end) = joined[..len].split_at_mut(first.len());
    begin.copy_from_slice(first);
    end.copy_from_slice(second);
    Str::of(&joined[..len])
}

impl At {
    fn new(view: Arc<View>) -> Result<Self> {
        let cursor = view.txn.cursor(view.table)?;
        let joined = [vec![0; KEY_ROOM], Vec::new()];
        Ok(Self { cursor, view, joined })
    }

    /// Lets the view go, where nobody else has it; whether it did.
    fn rest(&mut self) -> bool {
        let view = Arc::get_mut(&mut self.view);
        let is_own = view.map(|view| view.txn.reset()).is_some();
        for bytes in &mut self.joined {
            bytes.truncate(KEY_ROOM);
            bytes.shrink_to_fit();
        }
        is_own
    }

    /// After a rest sees the database as it is now; whether it does.
    fn renew(&mut self, tree: &Tree) -> Result<bool> {
        let Some(view) = Arc::get_mut(&mut self.view) else { return Ok(false) };
        if !view.txn.refresh()? {
            view.table = tree.table_in(&view.txn)?;
            self.cursor = view.txn.cursor(view.table)?;
        }
        Ok(true)
    }

    /// Moves to an entry, whose value is `value` then.
    #[inline(always)]
    fn go(&mut self, to: Move<'_>, value: &mut Str) -> Result<Option<Here>> {
        let Self { cursor, view, joined: [joined_key, joined_value] } = self;
        let txn = &view.txn;
        let found = match to {
            Move::Next => cursor.next(txn)?,
            Move::Prev => cursor.prev(txn)?,
            Move::Seek(key) => cursor.seek_at_or_after(txn, key)?,
            Move::First => cursor.first(txn)?,
            Move::Last => cursor.last(txn)?,
        };
        Ok(found.map(|found| {
            *value = in_one_piece(&found.value, joined_value);
            Here { key: in_one_piece(&found.key, joined_key), value: Some(*value) }
        }))
    }
}

impl Place {
    #[inline(always)]
    pub(crate) fn go(&mut self, to: Move<'_>) -> Result<Option<Here>> {
        match &mut self.at {
            Some(at) => at.go(to, &mut self.value),
            None => Ok(None),
        }
    }

    #[inline]
    pub(crate) fn value(&self) -> Str {
        self.value
    }
}

/// See [`super::salvage`].
pub(super) fn salvage(old: &Path, new: &Path, options: &Options) -> Result<Vec<String>> {
    let (old, new) = (old.join(TREE[0]), new.join(TREE[0]));
    let report = Store::salvage(&old, &new, &Interrupt::default(), &mut |_, _| {})?;
    let tree = Tree::new(Store::builder().open(&new)?, options);
    tree.adopt()?;
    let like_old = fs::metadata(&old).and_then(|old| fs::set_permissions(&new, old.permissions()));
    like_old.map_err(|error| Status::io(&new, &error))?;
    let in_words = |loss: &Loss| {
        let count = loss.entries.map_or("some".to_owned(), |count| count.to_string());
        let key = |key: &Option<Vec<u8>>| match key {
            Some(key) => format!("\"{}\"", key.escape_ascii()),
            None => "an end".to_owned(),
        };
        let (from, to) = (key(&loss.from), key(&loss.to));
        format!("{count} entries are lost from {from} to {to}: {}", loss.reason)
    };
    Ok(report.losses.iter().map(in_words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_each_key_the_last_operation_counts_and_keys_ascend() {
        let keys: [&[u8]; 6] = [b"bbbbbbbbb", b"a", b"bbbbbbbba", b"a\0", b"", b"a"];
        let values: Vec<Vec<u8>> = (0..6).map(|index| vec![index]).collect();
        let ops: Vec<Op<'_>> = keys
            .iter()
            .zip(&values)
            .map(|(key, value)| Op { key, value: (value[0] != 5).then_some(value.as_slice()) })
            .collect();
        let sorted = in_order(&ops);
        let found: Vec<_> = sorted.iter().map(|op| (op.key, op.value.map(|v| v[0]))).collect();
        let expected: [(&[u8], _); 5] = [
            (b"", Some(4)),
            (b"a", None),
            (b"a\0", Some(3)),
            (b"bbbbbbbba", Some(2)),
            (b"bbbbbbbbb", Some(0)),
        ];
        assert_eq!(found, expected);
    }
}
