//! Pairs that are collected and then put with one call.

/// Pairs that are put with one call of the store, and about how many bytes.
const PAIRS_AT_ONCE: usize = 1024;
const BYTES_AT_ONCE: usize = 1 << 20;

/// Pairs as bytes, to be put.
#[derive(Default)]
pub(crate) struct Pairs {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Pairs {
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let end = self.bytes.len();
        self.bytes.extend_from_slice(value);
        self.ends.push((end, self.bytes.len()));
    }

    pub(crate) fn is_full(&self) -> bool {
        self.ends.len() >= PAIRS_AT_ONCE || self.bytes.len() >= BYTES_AT_ONCE
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let pairs = starts.zip(&self.ends);
        pairs.map(|(start, (key, end))| (&self.bytes[start..*key], &self.bytes[*key..*end]))
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}
