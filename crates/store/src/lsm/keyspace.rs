//! Keyspaces: named ranges of the one order of full keys. The names are stored in keyspace 0, the
//! user flags of those keyspaces that have some in the last one, which no name can get.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::varint::Reader;
use crate::sync::atomic::AtomicBool;

/// The keyspace of the names. The user's begin after it.
pub(crate) const CATALOG: u32 = 0;
/// Keyspace numbers end here, so that each has a successor.
pub(crate) const KEYSPACES_MAX: u32 = u32::MAX - 1;
/// The keyspace of the user flags, by name. Nobody is given this number, so builds that know of no
/// flags leave it alone.
pub(crate) const USER_FLAGS: u32 = u32::MAX;
/// The longest name.
pub(crate) const NAME_BYTES_MAX: usize = 1024;

/// The options of a new keyspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyspaceOptions {
    /// Values of at least this many bytes are written once, to the log, and stay there; tables
    /// point to them. A smaller threshold makes writing cheaper and scans dearer. The default is 4
    /// KiB.
    pub separation_threshold: u32,
    /// 32 bits of the caller's own, stored with the keyspace; the engine does not read them. A
    /// [`TypedKeyspace`](super::TypedKeyspace) holds its types there. The default is 0.
    pub user_flags: u32,
}

impl Default for KeyspaceOptions {
    fn default() -> Self {
        Self { separation_threshold: 4096, user_flags: 0 }
    }
}

/// A named set of keys of a [`Db`](super::Db), with an order of its own.
///
/// The handle stays usable after the keyspace was [dropped](super::Db::drop_keyspace): it then
/// reads as empty, except in earlier snapshots, and writing to it is an error.
#[derive(Clone, Debug)]
pub struct Keyspace(Arc<Inner>);

/// Fields that do not change, except the last. Each batch counts itself as a user: the alignment
/// keeps the fields that all threads read away from that count.
#[derive(Debug)]
#[repr(align(128))]
struct Inner {
    id: u32,
    name: Vec<u8>,
    options: KeyspaceOptions,
    store: u64,
    dropped: AtomicBool,
}

impl Keyspace {
    pub(crate) fn new(store: u64, name: &[u8], record: Record) -> Self {
        let Record { id, options } = record;
        let (name, dropped) = (name.to_vec(), AtomicBool::new(false));
        Self(Arc::new(Inner { id, name, options, store, dropped }))
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.0.name
    }

    /// Values of at least this many bytes stay in the log.
    pub fn separation_threshold(&self) -> u32 {
        self.0.options.separation_threshold
    }

    /// The caller's own 32 bits.
    pub fn user_flags(&self) -> u32 {
        self.0.options.user_flags
    }

    pub(crate) fn options(&self) -> KeyspaceOptions {
        self.0.options
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id
    }

    pub(crate) fn store(&self) -> u64 {
        self.0.store
    }

    /// Whether nothing may be written to it any more.
    pub(crate) fn is_dropped(&self) -> bool {
        self.0.dropped.load(Ordering::Acquire)
    }

    pub(crate) fn set_dropped(&self, yes: bool) {
        self.0.dropped.store(yes, Ordering::Release);
    }
}

/// What the catalog holds under a name; the user flags stand elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) id: u32,
    pub(crate) options: KeyspaceOptions,
}

impl Record {
    pub(crate) fn encode(&self) -> [u8; 8] {
        let mut bytes = [0; 8];
        bytes[..4].copy_from_slice(&self.id.to_le_bytes());
        bytes[4..].copy_from_slice(&self.options.separation_threshold.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let (id, separation_threshold) = (reader.u32()?, reader.u32()?);
        let fits = reader.is_empty() && (1..=KEYSPACES_MAX).contains(&id);
        let options = KeyspaceOptions { separation_threshold, ..KeyspaceOptions::default() };
        fits.then_some(Self { id, options })
    }
}
