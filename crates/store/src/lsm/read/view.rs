//! What a reader sees: buffers and files as they were at one moment, and up to where. Data only.

use std::any::Any;
use std::sync::Arc;

use crate::lsm::buffer::Buffer;
use crate::lsm::levels::version::Version;
use crate::sync::{Mutex, locked};

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
    pub(crate) spare: Spare,
}

/// What a cursor over all of it left for the next one: making its sources takes longer than to go
/// to a place. It is gone together with what it goes over.
#[derive(Default)]
pub(crate) struct Spare(Mutex<Option<Box<dyn Any + Send>>>);

impl Clone for Spare {
    /// Another store state has nothing to spare yet.
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl Spare {
    pub(crate) fn take<T: 'static>(&self) -> Option<Box<T>> {
        locked(&self.0).take()?.downcast().ok()
    }

    pub(crate) fn leave<T: Send + 'static>(&self, spare: Box<T>) {
        let before = locked(&self.0).replace(spare);
        drop(before);
    }
}

impl Current {
    /// What is in memory, the newest first.
    pub(crate) fn buffers(&self) -> impl Iterator<Item = &Arc<Buffer>> {
        std::iter::once(&self.active).chain(self.frozen.iter().map(|frozen| &frozen.buffer))
    }

    /// The last sequence number before those of the active buffer.
    pub(crate) fn before_active(&self) -> u64 {
        self.frozen.first().map_or(self.version.flushed, |frozen| frozen.last_seq)
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
