//! The segments of the log: the active one, those before it that are not sealed yet, and the next
//! one. What is done with them stands in `rotate`.
//!
//! ```text
//!   ended              active             spare
//!   being sealed       commits go here    empty; the manifest names it
//! ```

use std::sync::Arc;

use crate::lsm::buffer::Buffer;
use crate::lsm::log::wal::{Ended, Log, SegmentFile};
use crate::lsm::log::warm::Warm;
use crate::sync::{Mutex, locked};

/// What a commit writes to.
pub(crate) struct Writer {
    /// The active segment.
    pub(crate) log: Log,
    /// The next sequence number.
    pub(crate) next_seq: u64,
    /// The buffer that readers see as the newest.
    pub(crate) active: Arc<Buffer>,
    /// Whether the thread of the log was asked for a spare segment.
    pub(crate) has_asked: bool,
    /// About how many bytes were added since it was last looked whether there is room.
    pub(crate) unlooked: u64,
}

/// The segments of the log.
pub(crate) struct Logs {
    /// The writer's lock.
    pub(crate) writer: Mutex<Writer>,
    /// The segments that the manifest does not call sealed yet, in the order of the log.
    pub(super) ended: Mutex<Vec<Ended>>,
    /// The segment in which the log goes on. The lock is held while one is made, so that numbers
    /// ascend.
    pub(super) spare: Mutex<Option<SegmentFile>>,
    /// Held by the thread that seals.
    pub(crate) sealing: Mutex<()>,
    /// What the system's cache keeps of the log.
    pub(crate) warm: Warm,
}

impl Logs {
    pub(crate) fn new(writer: Writer, warm: Warm) -> Self {
        let (writer, ended) = (Mutex::new(writer), Mutex::default());
        Self { writer, ended, spare: Mutex::default(), sealing: Mutex::default(), warm }
    }

    /// The bytes of the ended segments, which the version does not know.
    pub(crate) fn unsealed_bytes(&self) -> u64 {
        locked(&self.ended).iter().map(|ended| ended.len).sum()
    }
}
