//! The segments of the log: the one that is written to, with the state of its writer, those before
//! it that are not sealed, and the next one.

use std::sync::{Arc, PoisonError};

use crate::lsm::buffer::Buffer;
use crate::lsm::log::wal::{Ended, Log, NewSegment};
use crate::lsm::log::warm::Warm;
use crate::sync::{Mutex, MutexGuard};

/// What a commit writes to.
pub(crate) struct Writer {
    pub(crate) log: Log,
    pub(crate) next_seq: u64,
    /// The buffer that readers see as the newest.
    pub(crate) active: Arc<Buffer>,
    /// Whether a segment is made before this one is full.
    pub(crate) has_asked: bool,
    /// About how many bytes were added since it was last looked whether there is room.
    pub(crate) unlooked: u64,
}

/// The segments of the log.
pub(crate) struct Logs {
    /// The segment that is written to, and the state of its writer.
    pub(crate) writer: Mutex<Writer>,
    /// The segments before it that the manifest does not call ended, in the order of the log.
    pub(super) ended: Mutex<Vec<Ended>>,
    /// The one in which the log goes on. The lock is held while it is made, so that numbers ascend.
    pub(super) spare: Mutex<Option<NewSegment>>,
    /// Held by the thread that seals.
    pub(crate) sealing: Mutex<()>,
    /// What the system's cache keeps of them.
    pub(crate) warm: Warm,
}

impl Logs {
    pub(crate) fn new(writer: Writer, warm: Warm) -> Self {
        let (writer, ended) = (Mutex::new(writer), Mutex::default());
        Self { writer, ended, spare: Mutex::default(), sealing: Mutex::default(), warm }
    }

    pub(super) fn ended(&self) -> MutexGuard<'_, Vec<Ended>> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes of the segments that have ended, of which the version does not know yet.
    pub(crate) fn unsealed_bytes(&self) -> u64 {
        self.ended().iter().map(|ended| ended.len).sum()
    }

    pub(super) fn spare(&self) -> MutexGuard<'_, Option<NewSegment>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
