//! The words that all processes share in the lock file: which one means what, and what stands in
//! them.

/// Shared word: number and meta page of the newest commit, see [`word_of`].
pub(crate) const WORD_LATEST: usize = 0;
/// Shared word: number and meta page of the newest commit on stable storage.
pub(crate) const WORD_DURABLE: usize = 1;
/// Shared word: [`DIRTY`] while a meta page may hold a record that was not published, [`NEW`] or
/// [`CLEAN`].
pub(crate) const WORD_DIRTY: usize = 2;
/// Shared word: the greatest number that any commit was ever given.
pub(crate) const WORD_NUMBER: usize = 3;
/// Shared word: 1 if a flush failed; nothing more is written before all have closed the store.
pub(crate) const WORD_POISON: usize = 4;
/// Shared word: the greatest size that [`Store::share_max_size`](super::Store::share_max_size) was
/// given; 0 for none.
pub(crate) const WORD_MAX_SIZE: usize = 5;
/// Shared word: a part of the store's id, by which an opener sees that the others have the same
/// store open, and not one that had its name before; 0 if it is not known.
pub(crate) const WORD_ID: usize = 6;

/// In the dirty word: every meta page that holds no published record may be written over.
pub(crate) const CLEAN: u64 = 0;
/// In the dirty word: before it is written the file is to be flushed, the meta pages looked at.
pub(crate) const DIRTY: u64 = 1;
/// In the dirty word: as [`CLEAN`], but what its maker wrote was not flushed, and there is nothing
/// else in the store. Its empty commit counts as durable; until the first flush it is not.
pub(crate) const NEW: u64 = 2;

/// A commit in a shared word: its number and its meta page.
pub(crate) fn word_of(number: u64, slot: u32) -> u64 {
    number << 2 | u64::from(slot)
}

/// The number of the commit in a shared word.
pub(crate) fn number_of(word: u64) -> u64 {
    word >> 2
}

/// The meta page of the commit in a shared word.
pub(crate) fn slot_of(word: u64) -> u32 {
    (word & 3) as u32
}

/// What a reader slot's word says when it pins nothing.
pub(crate) const NOT_PINNED: u64 = u64::MAX;
