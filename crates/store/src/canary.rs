//! Planted bugs, to show that the testers find them: one at a time, in a build with the feature
//! `canary`, and only if the variable `HEDGEROW_CANARY` names it. In every other build
//! [`is_planted`] is the constant `false`.
//!
//! The code here does nothing wrong: the places that ask it do.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// A commit is said to be durable without a flush.
    SkippedFlush,
    /// Pages that a protected snapshot uses are written.
    ReusedPage,
    /// An entry is not counted in the branches above it.
    CounterNotRaised,
    /// A commit whose pages, or a group of the log whose bytes, did not all arrive is taken.
    ChecksumNotChecked,
    /// A run of freed pages is noted nowhere.
    WrongFreeList,
    /// Replaying the log ends after its first record.
    ShortReplay,
    /// A record of the log is believed although its sum is wrong or it does not follow.
    UnchainedRecord,
    /// A checkpoint lets records of the log go before the pages are flushed.
    LogFreedEarly,
    /// A reader that pins a commit does not look whether it was in time.
    UncheckedPin,
    /// A merge forgets that keys were deleted while older entries of them lie below.
    TombstoneDropped,
    /// A collection keeps only the newest value of a key, whatever snapshots see.
    SnapshotNotServed,
    /// After recovery sequence numbers are given a second time.
    SequenceRepeated,
    /// Opening removes files before the manifest that does not name them is in its place.
    OrphanRemovedEarly,
    /// What a failed write of the log left is not cut off.
    RemainsNotCut,
}

/// The variable that names the bug.
#[cfg(feature = "canary")]
const VARIABLE: &str = "HEDGEROW_CANARY";

/// Whether this build has the bug.
#[cfg(not(feature = "canary"))]
#[inline(always)]
pub(crate) const fn is_planted(_bug: Bug) -> bool {
    false
}

/// Whether this build has the bug.
#[cfg(feature = "canary")]
pub(crate) fn is_planted(bug: Bug) -> bool {
    static PLANTED: std::sync::LazyLock<Option<Bug>> = std::sync::LazyLock::new(named);
    *PLANTED == Some(bug)
}

/// The bug that the variable names. Any other value is a mistake of the user, and ends the process.
#[cfg(feature = "canary")]
fn named() -> Option<Bug> {
    let name = std::env::var(VARIABLE).ok()?;
    let bug = match name.as_str() {
        "skipped-flush" => Bug::SkippedFlush,
        "reused-page" => Bug::ReusedPage,
        "counter-not-raised" => Bug::CounterNotRaised,
        "checksum-not-checked" => Bug::ChecksumNotChecked,
        "wrong-free-list" => Bug::WrongFreeList,
        "short-replay" => Bug::ShortReplay,
        "unchained-record" => Bug::UnchainedRecord,
        "log-freed-early" => Bug::LogFreedEarly,
        "unchecked-pin" => Bug::UncheckedPin,
        "tombstone-dropped" => Bug::TombstoneDropped,
        "snapshot-not-served" => Bug::SnapshotNotServed,
        "sequence-repeated" => Bug::SequenceRepeated,
        "orphan-removed-early" => Bug::OrphanRemovedEarly,
        "remains-not-cut" => Bug::RemainsNotCut,
        other => panic!("{VARIABLE} names no bug that can be planted: {other}"),
    };
    eprintln!("hedgerow: this build has a planted bug ({name}); it loses data");
    Some(bug)
}
