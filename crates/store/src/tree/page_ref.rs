//! How pages are named: by number in the file, by slot among changed ones, in runs, and as extents
//! that hold one long key or value. Plain data, which every part of the engine hands on.

/// The number of a page in the file; pages are counted from 0.
pub(crate) type PageNo = u32;

/// The first page that is not a meta page.
pub(crate) const FIRST_PAGE: PageNo = 3;

/// The first page number that does not exist: numbers have 31 bits.
pub(crate) const PAGE_NO_END: u32 = 1 << 31;

/// The bytes of the smallest pages.
pub(crate) const PAGE_BYTES_MIN: usize = 4096;

/// A page: one in the file by number, or a changed one by slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PageRef(pub(crate) u32);

impl PageRef {
    const CHANGED: u32 = 1 << 31;
    /// No page: the root of an empty tree.
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn slot(slot: usize) -> Self {
        Self(slot as u32 | Self::CHANGED)
    }

    #[inline(always)]
    pub(crate) fn is_changed(self) -> bool {
        self.0 & Self::CHANGED != 0
    }

    pub(crate) fn is_none(self) -> bool {
        self == Self::NONE
    }

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        (self.0 & !Self::CHANGED) as usize
    }
}

/// A run of neighbouring pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: PageNo,
    pub(crate) len: u32,
}

/// Pages that a transaction no longer refers to: used by the snapshots from `birth` up to (but not
/// including) the transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Freed {
    pub(crate) run: Run,
    pub(crate) birth: u64,
}

/// Names an extent: a run of pages that holds one long key or value.
///
/// The bytes stand at the start of the run, in one piece. The last bytes of the run are the
/// trailer: a CRC-32C for each page that holds bytes (those of the trailer itself, from its first
/// byte to the end of its page, are covered by `sum`), and the birth number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExtentRef {
    pub(crate) first: PageNo,
    /// Bytes.
    pub(crate) len: u32,
    /// CRC-32C of the trailer.
    pub(crate) sum: u32,
}
