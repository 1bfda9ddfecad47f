//! What the streams need of an engine.

use super::scan::{Ends, Position, Scan};
use crate::Result;
use crate::tree::Bytes;

pub(super) mod sealed {
    /// Only the engines of this library are sources.
    pub trait Sealed {}
    impl Sealed for crate::tree::Store {}
    impl Sealed for crate::tree::ReadTxn {}
    impl Sealed for crate::lsm::Db {}
    impl Sealed for crate::lsm::Snapshot {}
    impl Sealed for std::sync::Arc<crate::lsm::Reader> {}
}

/// A store that streams come out of: [`tree::Store`](crate::tree::Store),
/// [`lsm::Db`](crate::lsm::Db), or a shared [`lsm::Reader`](crate::lsm::Reader).
pub trait Source: sealed::Sealed + Clone + Send + Sync + 'static {
    /// What it is read through.
    type Snapshot: Snapshot;

    /// The store as it is now.
    ///
    /// # Errors
    /// As [`Store::begin_read`](crate::tree::Store::begin_read).
    fn begin(&self) -> Result<Self::Snapshot>;

    /// The number of the newest commit.
    fn newest_commit(&self) -> u64;

    /// Whether a snapshot keeps at least this many pages that the newest commit does not use, and
    /// at how many pieces of space it took a look to tell; `None` where the engine cannot.
    #[doc(hidden)]
    fn is_holding(&self, snapshot: &Self::Snapshot, pages: u64) -> Result<Option<(bool, u32)>>;

    /// What no other store has, for its whole life.
    ///
    /// # Errors
    /// If it cannot be read.
    fn store_id(&self) -> Result<[u8; 16]>;
}

/// A store at one moment: [`tree::ReadTxn`](crate::tree::ReadTxn),
/// [`lsm::Snapshot`](crate::lsm::Snapshot), or a shared [`lsm::Reader`](crate::lsm::Reader), whose
/// store does not change.
pub trait Snapshot: sealed::Sealed + Send + Sync + 'static {
    /// A pair of it.
    type Item<'t>: Item + Send + Sync;
    /// A way through it.
    type Walk<'t>: Walk<'t, Given = Self::Item<'t>, Item = Result<Self::Item<'t>>>;

    /// Whether its pairs lie in it, so that many of them are kept without a copy.
    #[doc(hidden)]
    const LENDS: bool;

    /// The number of the commit that it sees.
    fn commit(&self) -> u64;

    /// Whether the keys of a table are in bytewise order.
    #[doc(hidden)]
    fn is_bytewise(&self, _table: &[u8]) -> Result<bool> {
        Ok(true)
    }

    /// A way through what a scan asks for, without the pairs up to the ends that were reached.
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn walk<'t>(&'t self, scan: &Scan, ends: &Ends) -> Result<Self::Walk<'t>>;
}

/// A key and a value of a stream.
pub trait Item {
    /// The key.
    fn key(&self) -> Bytes<'_>;
    /// The value.
    fn value(&self) -> Bytes<'_>;

    /// How many bytes both have.
    #[doc(hidden)]
    #[inline]
    fn bytes(&self) -> u64 {
        (self.key().len() + self.value().len()) as u64
    }
}

/// A way through the pairs of a snapshot, from both ends.
pub trait Walk<'t>: DoubleEndedIterator<Item = Result<Self::Given>> + Send {
    /// What it gives.
    type Given: Item;

    /// The next pair in the order of the keys, if that is quick to tell: short enough to be
    /// inlined. `None` says nothing, and nothing has changed.
    #[doc(hidden)]
    #[inline(always)]
    fn next_here(&mut self) -> Option<Self::Given> {
        None
    }

    /// Shows the next pair, in the order of the keys or backwards, without a copy where it can be.
    #[doc(hidden)]
    fn see<T>(
        &mut self,
        backwards: bool,
        see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T,
    ) -> Option<Result<T>>;

    /// Adds the next pairs to some that are there, so that these become as many as a number, or
    /// have as many bytes; each is shown to `see`. How many bytes were added, and whether it was
    /// over before.
    #[doc(hidden)]
    fn gather(
        &mut self,
        backwards: bool,
        pairs: &mut Vec<Self::Given>,
        (most, bytes): (usize, u64),
        mut see: impl FnMut(&Self::Given),
    ) -> Result<(u64, bool)> {
        let mut size = 0;
        while pairs.len() < most && size < bytes {
            let next = if backwards { self.next_back() } else { self.next() };
            let Some(pair) = next.transpose()? else { return Ok((size, true)) };
            see(&pair);
            size += pair.bytes();
            pairs.push(pair);
        }
        Ok((size, false))
    }

    /// How many pairs are left, where the engine can tell: exact, and without walking them.
    fn remaining(&self) -> Option<u64>;

    /// The last pair that was taken in the order of the keys, or backwards; `None` if there is none
    /// yet.
    ///
    /// # Errors
    /// As the store's reads.
    fn reached(&self, backwards: bool) -> Result<Option<Position>>;
}
