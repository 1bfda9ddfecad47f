//! The entries of a block that led to a place, so that steps back need not look for them.

/// Not more bytes of keys of entries that were passed are known.
const PASSED_BYTES_MAX: usize = 1 << 16;

/// Entries that follow each other, of one block.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed {
    /// Where each begins, and where its key ends in `keys`.
    entries: Vec<(usize, usize)>,
    keys: Vec<u8>,
}

impl Passed {
    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.keys.clear();
    }

    /// Adds the entry after those.
    pub(super) fn push(&mut self, start: usize, key: &[u8]) {
        if self.keys.len() + key.len() > PASSED_BYTES_MAX {
            self.clear();
        }
        self.keys.extend_from_slice(key);
        self.entries.push((start, self.keys.len()));
    }

    /// Takes the last one: its key goes to `key`, and it begins at what it gives.
    pub(super) fn pop(&mut self, key: &mut Vec<u8>) -> Option<usize> {
        let (start, end) = self.entries.pop()?;
        let begin = self.entries.last().map_or(0, |(_, end)| *end);
        key.clear();
        key.extend_from_slice(&self.keys[begin..end]);
        self.keys.truncate(begin);
        Some(start)
    }
}
