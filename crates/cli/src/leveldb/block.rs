//! A block of a table: entries whose keys share their beginnings with the key before, and at the
//! end the offsets of entries that share nothing, which are not needed to read it from its start.

use super::coding::Reader;

/// A key and its value, or why there is none.
pub(super) type Pair<'b> = Result<(&'b [u8], &'b [u8]), &'static str>;

/// The entries of a block, in order.
pub(super) struct Entries {
    block: Vec<u8>,
    at: usize,
    end: usize,
    key: Vec<u8>,
}

impl Entries {
    /// The entries of a block; `None` if its end makes no sense.
    pub(super) fn new(block: Vec<u8>) -> Option<Self> {
        let restarts = u32::from_le_bytes(*block.last_chunk()?) as usize;
        let end = block.len().checked_sub(restarts.checked_add(1)?.checked_mul(4)?)?;
        Some(Self { block, at: 0, end, key: Vec::new() })
    }

    /// The next key and the place of its value; `None` at the end, and an error where the block
    /// makes no sense.
    pub(super) fn next(&mut self) -> Option<Pair<'_>> {
        if self.at >= self.end {
            return None;
        }
        Some(self.read().ok_or("an entry that makes no sense").map(|value| {
            let value = &self.block[value];
            (&self.key[..], value)
        }))
    }

    fn read(&mut self) -> Option<std::ops::Range<usize>> {
        let mut reader = Reader(&self.block[self.at..self.end]);
        let (shared, rest, len) = (reader.size()?, reader.size()?, reader.size()?);
        if shared > self.key.len() {
            self.at = self.end;
            return None;
        }
        let Some(rest) = reader.take(rest) else {
            self.at = self.end;
            return None;
        };
        self.key.truncate(shared);
        self.key.extend_from_slice(rest);
        let begin = self.end - reader.0.len();
        self.at = self.end;
        reader.take(len)?;
        self.at = begin + len;
        Some(begin..begin + len)
    }
}
