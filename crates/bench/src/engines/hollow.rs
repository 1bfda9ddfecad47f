//! An engine that does nothing: what a workload costs with it is the cost of its key generator and
//! its loop, to be subtracted.
//!
//! Every call hides its arguments from the optimiser, so that they are really made, and finds
//! nothing, except for a step of a scan, which gives the same entry without end.

use std::hint::black_box;
use std::path::Path;

use hedgerow::tree::Bytes;

use crate::engine::{Cursor, Engine, Paged, Pages, Promise, Reader, Result, Table, Writer};

/// The store and the transactions in one.
pub(crate) struct Hollow;

/// An entry: a key, which could have two pieces and has one, and a value.
struct Entry {
    shared: &'static [u8],
    rest: &'static [u8],
    value: &'static [u8],
}

/// A cursor with the one answer that it gives.
pub(crate) struct Answer(&'static Entry);

impl Engine for Hollow {
    type Reader<'e> = Hollow;
    type Writer<'e> = Hollow;

    fn open(_folder: &Path, _memory: Option<usize>) -> Result<Self> {
        Ok(Hollow)
    }

    fn read<T>(&self, _table: Table, work: impl FnOnce(&Hollow) -> Result<T>) -> Result<T> {
        work(&Hollow)
    }

    fn write<T>(
        &self,
        _table: Table,
        _promise: Promise,
        work: impl FnOnce(&mut Hollow) -> Result<T>,
    ) -> Result<T> {
        work(&mut Hollow)
    }
}

impl Paged for Hollow {
    fn pages(&self) -> Result<Pages> {
        Ok(Pages::default())
    }
}

impl Reader for Hollow {
    type Cursor<'r> = Answer;

    #[inline(always)]
    fn get<T>(&self, key: &[u8], _see: impl FnOnce(Bytes<'_>) -> T) -> Result<Option<T>> {
        black_box(key);
        Ok(None)
    }

    fn cursor(&self) -> Result<Answer> {
        const ENTRY: &Entry = &Entry { shared: &[0; 16], rest: &[], value: &[0; 64] };
        Ok(Answer(black_box(ENTRY)))
    }

    fn len(&self) -> Result<u64> {
        Ok(0)
    }

    /// There is nothing to read, and a scan by cursor has no end.
    fn scan(&self, _see: impl FnMut(Bytes<'_>, Bytes<'_>)) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn nth<T>(&self, n: u64, _see: impl FnOnce(Bytes<'_>, Bytes<'_>) -> T) -> Result<Option<T>> {
        black_box(n);
        Ok(None)
    }

    #[inline(always)]
    fn rank(&self, key: &[u8]) -> Result<u64> {
        black_box(key);
        Ok(0)
    }

    #[inline(always)]
    fn count_range(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        black_box((low, high));
        Ok(0)
    }

    #[inline(always)]
    fn count_keys(&self, low: &[u8], high: &[u8]) -> Result<u64> {
        black_box((low, high));
        Ok(0)
    }
}

impl Cursor for Answer {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        // What is in memory may have changed, for all that the optimiser knows: so the answer is
        // read in every step. Costs no instruction.
        black_box(());
        let Entry { shared, rest, value } = self.0;
        Ok(Some((Bytes::new(shared, rest), Bytes::from(*value))))
    }

    #[inline(always)]
    fn seek(&mut self, key: &[u8]) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        black_box(key);
        self.next()
    }

    #[inline(always)]
    fn each_value(&mut self, key: &[u8], _visit: impl FnMut(Bytes<'_>)) -> Result<u64> {
        black_box(key);
        Ok(0)
    }
}

impl Writer for Hollow {
    #[inline(always)]
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    #[inline(always)]
    fn delete(&mut self, key: &[u8]) -> Result<()> {
        black_box(key);
        Ok(())
    }

    #[inline(always)]
    fn delete_range(&mut self, low: &[u8], high: &[u8]) -> Result<()> {
        black_box((low, high));
        Ok(())
    }
}
