//! The end of the log that is not written yet: readers find here the bytes that do not stand in a
//! segment yet. This module knows bytes and places only.

use std::sync::Arc;

use crate::sync::{Mutex, MutexGuard, locked};

/// The end of the log, shared by the writer and the readers, which never wait while something is
/// written.
#[derive(Default)]
pub(crate) struct Held(Mutex<Tail>);

/// Bytes that will stand in a segment.
#[derive(Default)]
pub(crate) struct Tail {
    segment: u32,
    /// Where the first one will stand.
    offset: u64,
    /// The thread that hands them to the system has them, too.
    bytes: Arc<Vec<u8>>,
}

impl Held {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Tail> {
        locked(&self.0)
    }

    /// All that is here, with its place: the segment, and the offset in it.
    pub(crate) fn all(&self) -> (u32, u64, Arc<Vec<u8>>) {
        let tail = self.lock();
        (tail.segment, tail.offset, tail.bytes())
    }

    /// `len` bytes from a place on, if they are here; otherwise they stand in the segment.
    pub(crate) fn get(&self, segment: u32, offset: u64, len: usize) -> Option<Vec<u8>> {
        let tail = self.lock();
        let before = offset.checked_sub(tail.offset).filter(|_| tail.segment == segment)?;
        let from = usize::try_from(before).ok()?;
        tail.bytes.get(from..from.checked_add(len)?).map(<[u8]>::to_vec)
    }
}

impl Tail {
    /// Where what is held of a segment begins.
    pub(crate) fn begin_in(&self, segment: u32) -> Option<u64> {
        (self.segment == segment).then_some(self.offset)
    }

    /// Nothing is held from there on.
    pub(crate) fn begin(&mut self, segment: u32, offset: u64) {
        (self.segment, self.offset) = (segment, offset);
        Arc::make_mut(&mut self.bytes).clear();
    }

    pub(crate) fn push(&mut self, parts: [&[u8]; 2]) {
        let bytes = Arc::make_mut(&mut self.bytes);
        parts.iter().for_each(|part| bytes.extend_from_slice(part));
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        Arc::make_mut(&mut self.bytes).truncate(len);
    }

    /// The held bytes. They are let go before something is added.
    pub(crate) fn bytes(&self) -> Arc<Vec<u8>> {
        Arc::clone(&self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_found_by_its_place() {
        let held = Held::default();
        assert_eq!(held.get(3, 0, 1), None);
        held.lock().begin(3, 100);
        held.lock().push([b"abc", b"def"]);
        assert_eq!(held.get(3, 102, 3).as_deref(), Some(&b"cde"[..]));
        assert_eq!(held.get(3, 100, 6).as_deref(), Some(&b"abcdef"[..]));
        for elsewhere in [(4, 102, 3), (3, 99, 3), (3, 104, 3), (3, u64::MAX, 1)] {
            assert_eq!(held.get(elsewhere.0, elsewhere.1, elsewhere.2), None, "{elsewhere:?}");
        }
        let bytes = held.lock().bytes();
        assert_eq!(held.get(3, 102, 1).as_deref(), Some(&b"c"[..]), "also while it is written");
        drop(bytes);
        held.lock().truncate(2);
        assert_eq!(held.get(3, 102, 1), None);
        held.lock().begin(3, 106);
        assert_eq!(held.get(3, 100, 1), None);
    }
}
