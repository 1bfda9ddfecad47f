//! Where a separated value stands, and what it is known by.

use std::sync::Arc;

use crate::lsm::entry::value_sum;
use crate::lsm::files::Handle;
use crate::lsm::files::cache::BlockKey;
use crate::lsm::files::piece::Piece;
use crate::{Error, Result};

/// The place of a value, and its key in the cache.
#[derive(Clone, Copy)]
pub(crate) struct ValuePlace<'v> {
    pub(in crate::lsm) handle: &'v Arc<Handle>,
    pub(in crate::lsm) segment: u32,
    pub(in crate::lsm) offset: u64,
    pub(in crate::lsm) len: u32,
    pub(in crate::lsm) sum: u32,
    /// Whether the segment is still written to.
    pub(in crate::lsm) grows: bool,
}

impl<'v> ValuePlace<'v> {
    /// What the cache knows it by.
    pub(crate) fn key(&self) -> BlockKey {
        BlockKey { file: u64::from(self.segment), offset: self.offset }
    }

    /// The segment, where in it the value begins, and its length.
    pub(crate) fn span(&self) -> (u32, u64, u32) {
        (self.segment, self.offset, self.len)
    }

    pub(crate) fn piece(&self) -> Piece<'v> {
        let (handle, len) = (self.handle, self.len as usize);
        Piece { handle, offset: self.offset, len, grows: self.grows }
    }

    /// What is to stand there.
    pub(crate) fn expected(&self) -> Expected {
        Expected { offset: self.offset, len: self.len as usize, sum: self.sum }
    }

    /// The value, if it was not handed to the system yet.
    pub(crate) fn held(&self) -> Option<Vec<u8>> {
        let held = &self.handle.directory().held;
        self.grows.then(|| held.get(self.segment, self.offset, self.len as usize)).flatten()
    }

    /// The value, if these bytes are it.
    ///
    /// # Errors
    /// If they are not.
    pub(crate) fn open<'b>(&self, bytes: &'b [u8]) -> Result<&'b [u8]> {
        match value_sum(bytes) == self.sum {
            true => Ok(bytes),
            false => {
                let what = "the checksum of a value is wrong";
                Err(Error::corrupt_at(self.handle.path(), self.offset, what))
            }
        }
    }
}

/// What is to stand at a place of a segment.
pub(crate) struct Expected {
    offset: u64,
    len: usize,
    sum: u32,
}

impl Expected {
    /// The value, if it stands in what was read from `offset` on.
    pub(crate) fn cut<'b>(&self, offset: u64, bytes: &'b [u8]) -> Option<&'b [u8]> {
        let from = usize::try_from(self.offset.checked_sub(offset)?).ok()?;
        let value = bytes.get(from..)?.get(..self.len)?;
        (value_sum(value) == self.sum).then_some(value)
    }
}
