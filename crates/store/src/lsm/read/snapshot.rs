//! Reading at one moment: the newest view, and the snapshots that users hold.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::readable::Readable;
use super::readable::sealed::Sealed;
use super::view::View;
use crate::lsm::engine::Inner;

impl View {
    /// Everything that is committed. The files are taken first: a merge that ended before knew of
    /// no later reader than this one.
    pub(crate) fn now(inner: &Inner) -> Self {
        let current = inner.current();
        Self { current, at: inner.clock.visible.load(Ordering::Acquire) }
    }
}

/// The store as it was when the snapshot was taken. Holding a snapshot keeps what it sees on the
/// disk.
///
/// ```
/// # let folder = tempfile::tempdir()?;
/// # let db = hedgerow::lsm::Options::new().create(true).open(folder.path().join("db"))?;
/// use hedgerow::lsm::Readable;
///
/// let people = db.keyspace("people", Default::default())?;
/// db.put(&people, b"1", b"Ada")?;
/// let before = db.snapshot();
/// db.delete(&people, b"1")?;
/// assert_eq!(before.get(&people, b"1")?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!(db.get(&people, b"1")?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Snapshot {
    pub(crate) inner: Arc<Inner>,
    seq: u64,
}

impl Snapshot {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        let seq = inner.clock.pin();
        Self { inner, seq }
    }

    /// Of a commit that something else keeps.
    pub(crate) fn at(inner: &Arc<Inner>, seq: u64) -> Self {
        inner.clock.pin_at(seq);
        Self { inner: Arc::clone(inner), seq }
    }

    /// Whether it is one of this open store.
    pub(crate) fn is_of(&self, inner: &Arc<Inner>) -> bool {
        Arc::ptr_eq(&self.inner, inner)
    }
}

impl Snapshot {
    /// The number of the commit that it sees: of its last operation.
    pub fn id(&self) -> u64 {
        self.seq
    }
}

impl Sealed for Snapshot {
    fn store(&self) -> u64 {
        self.inner.catalog.store
    }

    #[expect(private_interfaces, reason = "the trait is sealed")]
    fn view(&self) -> View {
        View { current: self.inner.current(), at: self.seq }
    }
}

impl Readable for Snapshot {}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.inner.directory.is_ours() {
            self.inner.clock.unpin(self.seq);
        }
    }
}
