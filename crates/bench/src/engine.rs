//! The interface that the measurements use: one small adapter implements it for each engine.
//!
//! Only traits, plain data, and the slow ways of an engine that lacks a call. Keys and values pass
//! as [`Bytes`], which a plain slice becomes for free, so that no adapter has to copy. All calls
//! are statically dispatched: an adapter that is inlined adds next to nothing to what is measured.

use std::fmt;
use std::path::Path;

use hedgerow::tree::Bytes;

/// Any error, with its own words.
pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// A result of this package.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// An engine does not have what a measurement needs.
#[derive(Debug)]
pub(crate) struct Unsupported(pub(crate) &'static str);

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the engine has no {}", self.0)
    }
}

impl std::error::Error for Unsupported {}

/// A library or a tool that is not installed, and how to install it.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// What a commit promises when it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// It is on stable storage.
    Durable,
    /// It survives the death of the process, not that of the machine.
    Unsynced,
}

/// A table by name; a transaction works on one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Table {
    /// Its name.
    pub(crate) name: &'static str,
    /// Whether a key may have several values.
    pub(crate) duplicates: bool,
}

/// The pages of one table, in the engine's own words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pages {
    /// Levels of the tree.
    pub(crate) depth: u64,
    /// Branch pages.
    pub(crate) branch: u64,
    /// Leaf pages.
    pub(crate) leaf: u64,
    /// Overflow pages.
    pub(crate) overflow: u64,
    /// Pairs of a key and a value.
    pub(crate) entries: u64,
}

/// An open store of one engine, with pages of 4 KiB where it lets one choose.
pub(crate) trait Engine: Sized + Sync {
    /// A read transaction with its table.
    type Reader<'e>: Reader
    where
        Self: 'e;
    /// A write transaction with its table.
    type Writer<'e>: Writer
    where
        Self: 'e;

    /// Opens the store in a folder, making it if it is not there. `memory`: how many bytes the
    /// engine may take for what it caches and has not yet written; as many as it wants if not said.
    fn open(folder: &Path, memory: Option<usize>) -> Result<Self>;

    /// Does something in a read transaction. The table exists.
    fn read<T>(&self, table: Table, work: impl FnOnce(&Self::Reader<'_>) -> Result<T>)
    -> Result<T>;

    /// Does something in a write transaction and commits it. Makes the table if it is not there.
    fn write<T>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Self::Writer<'_>) -> Result<T>,
    ) -> Result<T>;

    /// As [`Engine::write`], for little that is written while other threads do the same: the way
    /// that the engine has for that, if it has one.
    fn write_beside<T: Send>(
        &self,
        table: Table,
        promise: Promise,
        work: impl FnOnce(&mut Self::Writer<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        self.write(table, promise, work)
    }

    /// Makes the files as small as the engine can, in the way that its users would.
    fn compact(self, folder: &Path) -> Result<Self> {
        let _ = folder;
        Err(Unsupported("compaction").into())
    }

    /// Waits for what the engine does in the background, so that it disturbs no measurement.
    fn settle(&self) -> Result<()> {
        Ok(())
    }
}

/// A read transaction on one table.
pub(crate) trait Reader {
    /// A cursor of this transaction.
    type Cursor<'r>: Cursor
    where
        Self: 'r;

    /// Shows the (first) value of a key; none if there is no such key.
    fn get<T>(&self, key: &[u8], see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>>;

    /// A cursor that stands before the first entry.
    fn cursor(&self) -> Result<Self::Cursor<'_>>;

    /// How many entries (pairs of a key and a value) there are.
    fn len(&self) -> Result<u64>;

    /// Shows the values of several keys in their order, the way that the engine does it best.
    fn get_many(&self, keys: &[&[u8]], mut see: impl FnMut(Option<Bytes<'_>>)) -> Result<()> {
        for key in keys {
            if self.get(key, |value| see(Some(value)))?.is_none() {
                see(None);
            }
        }
        Ok(())
    }

    /// Shows all entries in order, the way that the engine does it best.
    fn scan(&self, mut see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        let mut cursor = self.cursor()?;
        while let Some((key, value)) = cursor.next()? {
            see(key, value);
        }
        Ok(())
    }

    /// Shows all entries backwards.
    fn scan_back(&self, see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        let _ = see;
        Err(Unsupported("scan backwards").into())
    }

    /// Shows the entry with exactly `n` entries before it.
    fn nth<T>(&self, n: u64, see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T) -> Result<Option<T>> {
        let mut cursor = self.cursor()?;
        for _ in 0..n {
            cursor.next()?;
        }
        Ok(cursor.next()?.map(|(key, value)| see(key, value)))
    }

    /// Shows `n` entries at even distances, the first one among them.
    fn sample(&self, n: u64, mut see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        let all = self.len()?;
        let mut cursor = self.cursor()?;
        let mut next = 0;
        for at in 0..all {
            let Some((key, value)) = cursor.next()? else { break };
            if at == next * all / n {
                see(key, value);
                next += 1;
            }
        }
        Ok(())
    }

    /// How many entries come before a key.
    fn rank(&self, key: &[u8]) -> Result<u64> {
        let mut cursor = self.cursor()?;
        let mut before = 0;
        while cursor.next()?.is_some_and(|(at, _)| at.cmp_slice(key).is_lt()) {
            before += 1;
        }
        Ok(before)
    }

    /// How many entries lie between two keys (the second not included).
    fn count_range(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        let mut cursor = self.cursor()?;
        let mut values = 0;
        let mut at = cursor.seek(low)?;
        while at.is_some_and(|(key, _)| key.cmp_slice(high).is_lt()) {
            values += 1;
            at = cursor.next()?;
        }
        Ok(values)
    }

    /// Shows `take` entries of the range from a key on, after its first `skip` ones: by the
    /// engine's iterator, if it has one.
    fn page(
        &self,
        from: &[u8],
        skip: u64,
        take: u64,
        mut see: impl FnMut(Bytes<'_>, Bytes<'_>),
    ) -> Result<()> {
        let mut cursor = self.cursor()?;
        let mut at = cursor.seek(from)?;
        for n in 0..skip + take {
            let Some((key, value)) = at else { break };
            if n >= skip {
                see(key, value);
            }
            at = if n + 1 < skip + take { cursor.next()? } else { None };
        }
        Ok(())
    }

    /// How many entries the range from a key on has: by the engine's iterator, if it has one.
    fn iterated(&self, from: &[u8]) -> Result<u64> {
        let mut cursor = self.cursor()?;
        let mut entries = u64::from(cursor.seek(from)?.is_some());
        while entries > 0 && cursor.next()?.is_some() {
            entries += 1;
        }
        Ok(entries)
    }

    /// How many distinct keys lie between two keys (the second not included).
    fn count_keys(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        let mut cursor = self.cursor()?;
        let (mut keys, mut last) = (0, Vec::new());
        let mut at = cursor.seek(low)?;
        while let Some((key, _)) = at.filter(|(key, _)| key.cmp_slice(high).is_lt()) {
            if keys == 0 || key != last {
                key.copy_to(&mut last);
                keys += 1;
            }
            at = cursor.next()?;
        }
        Ok(keys)
    }
}

/// A transaction that knows the pages of its table.
pub(crate) trait Paged {
    /// The pages and entries of the table.
    fn pages(&self) -> Result<Pages>;
}

/// A place in a table.
pub(crate) trait Cursor {
    /// Steps to the next pair of a key and a value.
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>>;

    /// Goes to the first entry whose key is not less.
    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>>;

    /// Shows every value of a key in order, the way that the engine does it best; returns how many
    /// there were.
    fn each_value(&mut self, key: &[u8], visit: impl FnMut(Bytes<'_>)) -> Result<u64> {
        let _ = (key, visit);
        Err(Unsupported("several values of a key").into())
    }
}

/// A write transaction on one table.
pub(crate) trait Writer {
    /// Stores an entry, or adds a pair to a table with duplicates.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;

    /// Stores an entry that comes after all others, the way that the engine does it best.
    #[inline(always)]
    fn append(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }

    /// Puts another value in the place of the one that a key has.
    #[inline(always)]
    fn replace(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.put(key, value)
    }

    /// Removes a key with all of its values.
    fn delete(&mut self, key: &[u8]) -> Result<()>;

    /// Removes all entries between two keys (the second not included), the way that the engine
    /// does it best.
    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()>;
}
