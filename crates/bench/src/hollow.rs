//! An engine that does nothing: what a workload costs with it is the cost of its key generator and
//! its loop, to be subtracted.
//!
//! Every call hides its arguments from the optimiser, so that they are really made, and answers
//! that nothing is there; but for a step of a scan, which answers the same entry without end.

use std::hint::black_box;
use std::path::Path;

use hedgerow::tree::Bytes;

use crate::engine::{Counting, Cursor, Engine, Pages, Reader, Result, Writer};

/// The store and the transactions in one.
pub(crate) struct Hollow;

/// An entry: a key in two pieces and a value.
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

    fn create(_folder: &Path) -> Result<Self> {
        Ok(Hollow)
    }

    fn open(_folder: &Path) -> Result<Self> {
        Ok(Hollow)
    }

    fn read(&self) -> Result<Hollow> {
        Ok(Hollow)
    }

    fn write(&self) -> Result<Hollow> {
        Ok(Hollow)
    }
}

impl Reader for Hollow {
    type Table = ();
    type Cursor<'r> = Answer;

    fn table(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn get(&self, _table: (), key: &[u8]) -> Result<Option<Bytes<'_>>> {
        black_box(key);
        Ok(None)
    }

    fn cursor(&self, _table: ()) -> Result<Answer> {
        const ENTRY: &Entry = &Entry { shared: &[0; 1], rest: &[0; 15], value: &[0; 64] };
        Ok(Answer(black_box(ENTRY)))
    }

    fn pages(&self, _table: ()) -> Result<Pages> {
        Ok(Pages::default())
    }

    /// There is nothing to read, and a scan has no end.
    fn warm(&self, _table: ()) -> Result<()> {
        Ok(())
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
    fn each_value(&mut self, key: &[u8], _visit: impl FnMut(Bytes<'_>)) -> Result<u64> {
        black_box(key);
        Ok(0)
    }
}

impl Counting for Hollow {
    #[inline(always)]
    fn nth(&self, _table: (), n: u64) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        black_box(n);
        Ok(None)
    }

    #[inline(always)]
    fn rank(&self, _table: (), key: &[u8]) -> Result<u64> {
        black_box(key);
        Ok(0)
    }

    #[inline(always)]
    fn count_range(&self, _table: (), low: &[u8], high: &[u8]) -> Result<(u64, u64)> {
        black_box((low, high));
        Ok((0, 0))
    }
}

impl Writer for Hollow {
    type Table = ();

    fn create_table(&mut self, _name: &str, _duplicates: bool) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn put(&mut self, _table: (), key: &[u8], value: &[u8]) -> Result<()> {
        black_box((key, value));
        Ok(())
    }

    #[inline(always)]
    fn append_all<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        &mut self,
        _table: (),
        entries: impl Iterator<Item = (K, V)>,
    ) -> Result<()> {
        for (key, value) in entries {
            black_box((key.as_ref(), value.as_ref()));
        }
        Ok(())
    }

    fn pages(&self, _table: ()) -> Result<Pages> {
        Ok(Pages::default())
    }

    fn commit(self) -> Result<()> {
        Ok(())
    }
}
