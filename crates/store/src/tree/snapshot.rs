//! What a read and a write transaction answer alike.

use std::ops::Bound;

use super::catalog::{self, OpenTable};
use super::entry::{Count, Entry, Rank, Table, TableInfo};
use super::page::ValueCell;
use super::page_ref::ExtentRef;
use super::pages::Pages;
use super::{Bytes, Cursor, Order, Range, TableOptions, TableShape, TableStat, rank, search};
use crate::key::KeyRange;
use crate::{Error, Result};

pub(crate) mod sealed {
    //! What the engine knows of a transaction and its users do not.

    use super::super::catalog::{OpenTable, Opened};
    use super::super::pages::Pages;
    use super::super::tree::Tree;
    use crate::tree::entry::Table;
    use crate::{Error, Result};

    /// The inside of a transaction.
    pub trait Sealed {
        /// Whether keys and values live only until the next write.
        #[doc(hidden)]
        const WRITES: bool;
        /// Where pages come from.
        #[doc(hidden)]
        #[expect(private_bounds, reason = "the trait is sealed")]
        type Source: Pages;
        #[doc(hidden)]
        fn pages(&self) -> &Self::Source;
        /// Unlike that of any other transaction of the process; 0 if there is no snapshot.
        #[doc(hidden)]
        fn unique(&self) -> u64;
        /// How often the transaction has changed something, and one more.
        #[doc(hidden)]
        fn changes(&self) -> u64;
        /// Whether no page of a table has been changed or moved since there were `since` changes.
        #[doc(hidden)]
        fn is_unchanged(&self, table: Table, since: u64) -> bool;
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn opened(&self) -> &Opened;
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn opened_mut(&mut self) -> &mut Opened;
        #[doc(hidden)]
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn catalog(&self) -> Tree;

        /// The table of a handle.
        #[doc(hidden)]
        #[inline(always)]
        #[expect(private_interfaces, reason = "the trait is sealed")]
        fn open_table(&self, table: Table) -> Result<&OpenTable> {
            if table.txn == self.unique() as u32
                && let Some(open) = self.opened().get(table.index as usize)
                && !open.gone
            {
                return Ok(open);
            }
            Err(self.refusal())
        }

        /// Why a handle is refused.
        #[doc(hidden)]
        #[cold]
        fn refusal(&self) -> Error {
            Error::WrongTransaction
        }

        /// A handle for the open table of an index.
        #[doc(hidden)]
        fn handle(&self, index: usize) -> Table {
            Table { index: index as u32, txn: self.unique() as u32 }
        }
    }
}

/// Opens a table of any transaction.
fn open<S: Snapshot>(txn: &S, name: &[u8], options: Option<&TableOptions>) -> Result<Table> {
    if txn.unique() == 0 {
        return Err(txn.refusal());
    }
    if let Some(index) = txn.opened().find(name) {
        if let (Some(options), Some(table)) = (options, txn.opened().get(index)) {
            table.expect(options)?;
        }
        return Ok(txn.handle(index));
    }
    match catalog::load(txn.pages(), &txn.catalog(), name, options)? {
        Some(table) => Ok(txn.handle(txn.opened().add(table)?)),
        None => Err(Error::NoTable { name: name.to_vec() }),
    }
}

/// The reading interface that read and write transactions share.
///
/// Keys, values and entries that are handed out borrow the transaction: of a
/// [`ReadTxn`](crate::tree::ReadTxn) they live as long as it, of a
/// [`WriteTxn`](crate::tree::WriteTxn) until its next write. Every call may fail with
/// [`Error::Corrupt`] (a damaged page), [`Error::Interrupted`] and, given a handle of another
/// transaction, [`Error::WrongTransaction`]; only further errors are named below.
pub trait Snapshot: sealed::Sealed + Sized {
    /// Opens a table; one with custom orders needs [`Snapshot::table_with`].
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::TableOptions`] for a custom order.
    fn table(&self, name: impl AsRef<[u8]>) -> Result<Table> {
        open(self, name.as_ref(), None)
    }

    /// Opens a table, giving the functions of its custom orders; all options are checked.
    ///
    /// # Errors
    /// [`Error::NoTable`]; [`Error::TableOptions`] if an option differs.
    fn table_with(&self, name: impl AsRef<[u8]>, options: &TableOptions) -> Result<Table> {
        open(self, name.as_ref(), Some(options))
    }

    /// Gives an open table other functions for its custom orders, which keep their names and must
    /// order its entries as the old ones did.
    ///
    /// # Errors
    /// [`Error::TableOptions`] if an option differs.
    fn set_order_functions(&mut self, table: Table, options: &TableOptions) -> Result<()> {
        self.open_table(table)?.expect(options)?;
        match self.opened_mut().get_mut(table.index as usize) {
            Some(open) => open.set_order_functions(options),
            None => Err(Error::WrongTransaction),
        }
    }

    /// All tables in bytewise order of their names.
    fn tables(&self) -> Result<Vec<TableInfo>> {
        if self.unique() == 0 {
            return Err(self.refusal());
        }
        let mut all = Vec::new();
        catalog::for_each(self.pages(), &self.catalog(), |name, root, stored| {
            let open = self.opened().find(name).and_then(|index| self.opened().get(index));
            all.push(open.map_or_else(|| stored.info(name, &root), OpenTable::info));
        })?;
        Ok(all)
    }

    /// Name, options and size of the table of a name, whatever its orders; `None` if there is none.
    fn find_table(&self, name: impl AsRef<[u8]>) -> Result<Option<TableInfo>> {
        let name = name.as_ref();
        if let Some(open) = self.opened().find(name).and_then(|index| self.opened().get(index)) {
            return Ok(Some(open.info()));
        }
        catalog::info_of(self.pages(), &self.catalog(), name)
    }

    /// A table without custom orders that is open already, the caller's own bits of it, and whether
    /// it has prefix compression: also one that the write transaction before has left open. Looks
    /// at no page, and `None` says nothing about the table.
    fn table_if_open(&self, name: impl AsRef<[u8]>) -> Option<(Table, u32, bool)> {
        let index = self.opened().find(name.as_ref()).filter(|_| self.unique() != 0)?;
        let open = self.opened().get(index)?;
        let (bits, compressed) = (open.stored.user_flags, !open.tree.form.is_whole());
        (!open.stored.has_custom_orders()).then(|| (self.handle(index), bits, compressed))
    }

    /// How many tables there are. O(1).
    fn table_count(&self) -> u64 {
        self.catalog().root.count.keys
    }

    /// Pages and depth of the catalog, the table of tables.
    fn catalog_stat(&self) -> TableStat {
        TableStat::of(&self.catalog().root)
    }

    /// Name, options and size of a table.
    fn table_info(&self, table: Table) -> Result<TableInfo> {
        self.open_table(table).map(OpenTable::info)
    }

    /// The options with which a table was created: with them, another store gets a table of the
    /// same kind. Functions of custom orders are those with which this transaction has opened it.
    fn table_options(&self, table: Table) -> Result<TableOptions> {
        self.open_table(table).map(OpenTable::options)
    }

    /// The order of a table's keys.
    fn order(&self, table: Table) -> Result<Order> {
        Ok(self.open_table(table)?.order.clone())
    }

    /// Pages by kind and depth of a table.
    fn table_stat(&self, table: Table) -> Result<TableStat> {
        Ok(TableStat::of(&self.open_table(table)?.tree.root))
    }

    /// Pages, entries and bytes in use of a table, level by level. This reads every page of the
    /// table except overflow pages.
    fn table_shape(&self, table: Table) -> Result<TableShape> {
        TableShape::of(self.pages(), &self.open_table(table)?.tree.root)
    }

    /// The value of a key; its first one if it has several.
    #[inline(always)]
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes<'_>>> {
        search::get(self.pages(), &self.open_table(table)?.tree, key)
    }

    /// Whether a pair is there.
    fn contains_pair(&self, table: Table, key: &[u8], value: &[u8]) -> Result<bool> {
        search::contains_pair(self.pages(), &self.open_table(table)?.tree, key, value)
    }

    /// The (first) values of many keys; their cache misses overlap. `found` is cleared first.
    fn get_many<'t>(
        &'t self,
        table: Table,
        keys: &[&[u8]],
        found: &mut Vec<Option<Bytes<'t>>>,
    ) -> Result<()> {
        search::get_many(self.pages(), &self.open_table(table)?.tree, keys, found)
    }

    /// Calls `f` with every value of a key in order; returns how many there were.
    fn for_each_value<'t>(
        &'t self,
        table: Table,
        key: &[u8],
        f: impl FnMut(Bytes<'t>),
    ) -> Result<u64> {
        search::for_each_value(self.pages(), &self.open_table(table)?.tree, key, f)
    }

    /// A reader over one large value, which need not fit in memory.
    fn value_reader(&self, table: Table, key: &[u8]) -> Result<Option<ValueReader<'_>>> {
        let found = search::find(self.pages(), &self.open_table(table)?.tree, key)?;
        Ok(found.map(|(page, slot)| ValueReader {
            pages: self.pages(),
            value: page.leaf_record(slot).value(0),
            at: 0,
        }))
    }

    /// A cursor; it stands nowhere yet.
    fn cursor(&self, table: Table) -> Result<Cursor> {
        Cursor::new(self, table)
    }

    /// Iterates over the entries whose keys lie in a range, from both ends.
    fn range(&self, table: Table, keys: impl KeyRange) -> Result<Range<'_, Self>> {
        Range::new(self, table, &keys)
    }

    /// All entries of a table. O(1).
    fn count(&self, table: Table) -> Result<Count> {
        Ok(self.open_table(table)?.tree.root.count)
    }

    /// The entries whose keys lie in a range. Two descents, whatever its length.
    fn count_range(&self, table: Table, keys: impl KeyRange) -> Result<Count> {
        rank::count_range(self.pages(), &self.open_table(table)?.tree, keys.low(), keys.high())
    }

    /// The entries between two pairs (key, value). Two descents.
    fn count_pairs(
        &self,
        table: Table,
        low: Bound<(&[u8], &[u8])>,
        high: Bound<(&[u8], &[u8])>,
    ) -> Result<u64> {
        rank::count_pairs(self.pages(), &self.open_table(table)?.tree, low, high)
    }

    /// How many values a key has.
    fn count_values(&self, table: Table, key: &[u8]) -> Result<u64> {
        rank::count_values(self.pages(), &self.open_table(table)?.tree, key)
    }

    /// The entry with exactly `n` entries before it. One descent.
    #[inline]
    fn nth(&self, table: Table, n: u64) -> Result<Option<Entry<'_>>> {
        nth(self, table, n, false)
    }

    /// The first entry of the key with exactly `n` distinct keys before it. One descent.
    fn nth_key(&self, table: Table, n: u64) -> Result<Option<Entry<'_>>> {
        nth(self, table, n, true)
    }

    /// Where a key stands or would stand. One descent; two for an absent key of a table with
    /// duplicates.
    fn rank(&self, table: Table, key: &[u8]) -> Result<Rank> {
        rank::rank_key(self.pages(), &self.open_table(table)?.tree, key)
    }

    /// Where a pair stands or would stand.
    fn rank_pair(&self, table: Table, key: &[u8], value: &[u8]) -> Result<Rank> {
        rank::rank_pair(self.pages(), &self.open_table(table)?.tree, key, value)
    }

    /// `n` entries at even distances, the first one among them (all entries, if there are no more
    /// than `n`).
    fn sample(&self, table: Table, n: usize) -> Result<Vec<Entry<'_>>> {
        let total = self.count(table)?.values;
        let n = total.min(n as u64);
        (0..n).filter_map(|i| self.nth(table, part(total, i, n)).transpose()).collect()
    }

    /// `n` entries drawn at random, with repetition; the same seed draws the same places.
    fn sample_random(&self, table: Table, n: usize, seed: u64) -> Result<Vec<Entry<'_>>> {
        let total = self.count(table)?.values;
        let mut state = seed;
        let mut draw =
            move || ((u128::from(split_mix(&mut state)) * u128::from(total)) >> 64) as u64;
        (0..n).filter_map(|_| self.nth(table, draw()).transpose()).collect()
    }

    /// At most `n - 1` entries that cut the table into `n` parts whose numbers of entries differ by
    /// at most one: part `i` begins with the `i`-th of them. A table of fewer than `n` entries has
    /// empty parts, for which no entry is answered.
    fn split(&self, table: Table, n: usize) -> Result<Vec<Entry<'_>>> {
        let total = self.count(table)?.values;
        let n = total.min(n as u64);
        (1..n).filter_map(|i| self.nth(table, part(total, i, n)).transpose()).collect()
    }
}

/// Where part `i` of `n` begins.
fn part(total: u64, i: u64, n: u64) -> u64 {
    (u128::from(total) * u128::from(i) / u128::from(n)) as u64
}

/// The next number of the SplitMix64 sequence (Steele, Lea, Flood 2014).
pub(crate) fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}

#[inline(always)]
fn nth<S: Snapshot>(txn: &S, table: Table, n: u64, by_keys: bool) -> Result<Option<Entry<'_>>> {
    let tree = &txn.open_table(table)?.tree;
    match rank::nth(txn.pages(), tree, n, by_keys, |_, _| {})? {
        Some(nth) => {
            search::entry(txn.pages(), &nth.page.leaf_record(nth.slot), nth.value).map(Some)
        }
        None => Ok(None),
    }
}

/// Reads one large value in parts (`io::Read` and `io::Seek`), checking only the pages it touches.
pub struct ValueReader<'t> {
    pages: &'t dyn Pages,
    value: ValueCell<'t>,
    at: u64,
}

impl ValueReader<'_> {
    /// The length of the value in bytes.
    pub fn len(&self) -> u64 {
        match &self.value {
            ValueCell::Inline(bytes) => bytes.len() as u64,
            ValueCell::Extent(ExtentRef { len, .. }) => u64::from(*len),
        }
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl std::io::Read for ValueReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let left = self.len().saturating_sub(self.at);
        let n = out.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        match &self.value {
            ValueCell::Inline(bytes) => {
                let from = self.at.min(bytes.len() as u64) as usize;
                bytes.sub(from, from + n).write(out, 0);
            }
            ValueCell::Extent(extent) if n > 0 => {
                let part = self.pages.extent_part(extent, self.at, &mut out[..n]);
                part.map_err(std::io::Error::other)?;
            }
            ValueCell::Extent(_) => {}
        }
        self.at += n as u64;
        Ok(n)
    }
}

impl std::io::Seek for ValueReader<'_> {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        let (base, by) = match to {
            std::io::SeekFrom::Start(at) => (0, i64::try_from(at).ok()),
            std::io::SeekFrom::End(by) => (self.len(), Some(by)),
            std::io::SeekFrom::Current(by) => (self.at, Some(by)),
        };
        let at = by.and_then(|by| base.checked_add_signed(by));
        self.at = at.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
