//! A place among the entries of a block, with the whole key of the entry there.

use std::ops::Range;

use super::passed::Passed;
use super::{Block, Header, MALFORMED, RESTART_EVERY, Spot};
use crate::lsm::entry::{Entry, Kind};

/// A place in a block: the key of an entry, and where its value stands. The block is passed to
/// every call; it must be the same one until a `seek`, `first` or `last`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    key: Vec<u8>,
    seq: u64,
    kind: Option<Kind>,
    value: Range<usize>,
    start: usize,
    next: usize,
    /// The entries before this one, as far as they are known: steps back lead there.
    passed: Passed,
}

impl Place {
    /// The entry here; `None` if the place is before the first or after the last one.
    pub(crate) fn entry<'a>(&'a self, block: &'a Block) -> Option<Entry<'a>> {
        let kind = self.kind?;
        let value = &block.bytes[self.value.clone()];
        Some(Entry { key: &self.key, seq: self.seq, kind, value })
    }

    /// Where the entry begins.
    pub(super) fn start(&self) -> usize {
        self.start
    }

    /// Whether there is an entry.
    #[inline]
    pub(crate) fn is_entry(&self) -> bool {
        self.kind.is_some()
    }

    pub(crate) fn first(&mut self, block: &Block) -> Result<(), &'static str> {
        self.go_to(block, 0)
    }

    pub(crate) fn last(&mut self, block: &Block) -> Result<(), &'static str> {
        if block.restarts == 0 {
            return self.go_to(block, block.end);
        }
        self.pass_to(block, block.restarts - 1, block.end)
    }

    /// Moves to the entry that begins at `at`, at a restart.
    fn go_to(&mut self, block: &Block, at: usize) -> Result<(), &'static str> {
        self.key.clear();
        self.next = at;
        self.next(block)
    }

    /// Moves from a restart to the last entry that begins before `end`.
    fn pass_to(&mut self, block: &Block, restart: usize, end: usize) -> Result<(), &'static str> {
        self.go_to(block, block.restart(restart))?;
        while self.next < end && self.kind.is_some() {
            self.passed.push(self.start, &self.key);
            self.decode(block).ok_or(MALFORMED)?;
        }
        Ok(())
    }

    /// To the next entry.
    #[inline]
    pub(crate) fn next(&mut self, block: &Block) -> Result<(), &'static str> {
        self.passed.clear();
        if self.next >= block.end {
            self.kind = None;
            return Ok(());
        }
        self.decode(block).ok_or(MALFORMED)
    }

    /// Becomes the entry after this one, of which the key is still the one here.
    #[inline]
    fn decode(&mut self, block: &Block) -> Option<()> {
        let Header { shared, rest, value, tag } = block.header(self.next)?;
        if shared > self.key.len() {
            return None;
        }
        self.kind = Some(Kind::from_byte((tag & 3) as u8)?);
        self.key.truncate(shared);
        self.key.extend_from_slice(&block.bytes[rest]);
        self.seq = tag >> 2;
        (self.start, self.next) = (self.next, value.end);
        self.value = value;
        Some(())
    }

    /// To the entry before.
    pub(crate) fn prev(&mut self, block: &Block) -> Result<(), &'static str> {
        let here = self.start;
        if let Some(start) = self.passed.pop(&mut self.key) {
            return self.stand_at(block, start).ok_or(MALFORMED);
        }
        let Some(restart) = self.restart_before(block, here) else {
            self.kind = None;
            return Ok(());
        };
        self.pass_to(block, restart, here)?;
        // Restarts that do not ascend must not lead round in a circle.
        if self.kind.is_some() && self.start >= here { Err(MALFORMED) } else { Ok(()) }
    }

    /// Becomes the entry that begins at `start`, whose key is already here.
    fn stand_at(&mut self, block: &Block, start: usize) -> Option<()> {
        let Header { value, tag, .. } = block.header(start)?;
        self.kind = Some(Kind::from_byte((tag & 3) as u8)?);
        self.seq = tag >> 2;
        (self.start, self.next) = (start, value.end);
        self.value = value;
        Some(())
    }

    /// The last restart before a byte.
    fn restart_before(&self, block: &Block, at: usize) -> Option<usize> {
        let (mut low, mut high) = (0, block.restarts);
        while low < high {
            let middle = (low + high) / 2;
            if block.restart(middle) < at { low = middle + 1 } else { high = middle }
        }
        low.checked_sub(1)
    }

    /// Moves to the entry that has `number` entries before it; after the last one if there are
    /// fewer.
    pub(crate) fn nth(&mut self, block: &Block, number: u32) -> Result<(), &'static str> {
        let restart = (number / RESTART_EVERY) as usize;
        let (from, steps) = if restart < block.restarts {
            (block.restart(restart), number % RESTART_EVERY)
        } else {
            (block.end, 0)
        };
        self.go_to(block, from)?;
        (0..steps).try_for_each(|_| self.next(block))
    }

    /// Moves to the first entry that is not before (`key`, `seq`).
    pub(crate) fn seek(&mut self, block: &Block, key: &[u8], seq: u64) -> Result<(), &'static str> {
        self.passed.clear();
        self.key.clear();
        let Some(Spot { seq, kind, start, shared, rest, value, .. }) = block.find(key, seq)? else {
            (self.kind, self.next) = (None, block.end);
            return Ok(());
        };
        // Keys of a table are often of one length.
        self.key.reserve(key.len());
        self.key.extend_from_slice(&key[..shared]);
        self.key.extend_from_slice(&block.bytes[rest]);
        (self.seq, self.kind) = (seq, Some(kind));
        (self.start, self.next) = (start, value.end);
        self.value = value;
        Ok(())
    }
}

impl Block {
    /// How many entries have keys before `key`.
    ///
    /// # Errors
    /// If the entries make no sense.
    pub(crate) fn rank(&self, key: &[u8]) -> Result<u32, &'static str> {
        let mut place = Place::default();
        let mut low = 0;
        let mut high = self.restarts;
        while low < high {
            let middle = (low + high) / 2;
            place.go_to(self, self.restart(middle))?;
            let before = place.kind.is_some() && place.key.as_slice() < key;
            if before { low = middle + 1 } else { high = middle }
        }
        let Some(last) = low.checked_sub(1) else { return Ok(0) };
        let mut rank = last as u32 * RESTART_EVERY;
        place.go_to(self, self.restart(last))?;
        while place.kind.is_some() && place.key.as_slice() < key {
            rank += 1;
            place.next(self)?;
        }
        Ok(rank)
    }
}
