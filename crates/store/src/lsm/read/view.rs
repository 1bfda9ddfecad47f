//! What a reader sees: buffers and files as they were at one moment, and up to where. Data only.

use std::sync::Arc;

use crate::lsm::buffer::Buffer;
use crate::lsm::levels::version::Version;

/// A buffer that is not written to any more.
#[derive(Clone)]
pub(crate) struct Frozen {
    pub(crate) buffer: Arc<Buffer>,
    /// The last sequence number in it.
    pub(crate) last_seq: u64,
}

/// What a reader reads.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) active: Arc<Buffer>,
    /// The newest first.
    pub(crate) frozen: Vec<Frozen>,
    pub(crate) version: Arc<Version>,
}

impl Current {
    /// What is in memory, the newest first.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        std::iter::once(&self.active).chain(self.frozen.iter().map(|frozen| &frozen.buffer))
    }
}

/// What a reader sees: files and buffers as they were, and entries up to a sequence number.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) current: Arc<Current>,
    pub(crate) at: u64,
}

impl View {
    pub(crate) fn version(&self) -> &Version {
        &self.current.version
    }
}
