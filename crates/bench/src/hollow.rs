//! An engine that does nothing: what a workload costs with it is the cost of its key generator and
//! its loop, to be subtracted.
//!
//! Every call hides its arguments from the optimiser, so that they are really made, and answers
//! that nothing is there.

use std::hint::black_box;
use std::path::Path;

use hedgerow::tree::Bytes;

use crate::engine::{Counting, Cursor, Engine, Pages, Reader, Result, Writer};

/// The store, the transactions and the cursor in one.
pub(crate) struct Hollow;

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
    type Cursor<'r> = Hollow;

    fn table(&self, _name: &str) -> Result<()> {
        Ok(())
    }

    #[inline(always)]
    fn get(&self, _table: (), key: &[u8]) -> Result<Option<Bytes<'_>>> {
        black_box(key);
        Ok(None)
    }

    fn cursor(&self, _table: ()) -> Result<Hollow> {
        Ok(Hollow)
    }

    fn pages(&self, _table: ()) -> Result<Pages> {
        Ok(Pages::default())
    }
}

impl Cursor for Hollow {
    #[inline(always)]
    fn next(&mut self) -> Result<Option<(Bytes<'_>, Bytes<'_>)>> {
        Ok(None)
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
