//! What an entry of the engine is: a user key, a sequence number, a kind and what belongs to it.
//! Pure data; knows no file.

/// What an entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The value stands in the entry.
    Inline = 1,
    /// The entry holds a [`Pointer`] to the value, which stands in a log segment.
    Separated = 2,
    /// The key was deleted.
    Tombstone = 3,
}

impl Kind {
    /// The kind of a byte that was read; `None` if there is no such kind.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::Inline),
            2 => Some(Self::Separated),
            3 => Some(Self::Tombstone),
            _ => None,
        }
    }
}
