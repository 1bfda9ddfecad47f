//! Files that nothing changes any more, mapped as a whole, and bytes that stand in such a map or in
//! memory of their own.
#![expect(unsafe_code, reason = "bytes are read where the map of a file has them")]

use std::fmt;
use std::ops::Deref;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use super::file::{Access, DataFile, Map};

/// The map of a file that nothing changes any more, neither now nor later.
pub(crate) struct Mapped {
    map: Map,
    /// The length of the file: what lies behind it must not be touched.
    len: u64,
}

// SAFETY: the memory of the map is only read, and the owner of the map may go to other threads.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a file that is whole: what wrote it is done, nothing writes to it again or makes it
    /// shorter, though its name may go. `None` where the system maps no files or refuses: reading
    /// serves then.
    pub(crate) fn of(file: &dyn DataFile) -> Option<Arc<Self>> {
        // Where address space is short it is left to others.
        let len = if cfg!(target_pointer_width = "64") { file.len().ok()? } else { return None };
        let map = file.map(0, Access::Read).ok()??;
        map.owner.expect_random();
        (len <= map.reserved).then(|| Arc::new(Self { map, len }))
    }

    /// A part of the file; `None` if it reaches beyond its end.
    pub(crate) fn bytes(self: &Arc<Self>, offset: u64, len: usize) -> Option<Bytes> {
        let end = offset.checked_add(len as u64)?;
        if end > self.len {
            return None;
        }
        // SAFETY: the part lies inside the file, and so inside the map, whose length fits the
        // address space.
        let start = unsafe { self.map.base.add(offset as usize) };
        let start = NonNull::new(start.cast_mut())?;
        Some(Bytes { start, len, owner: Owner::Map(Arc::clone(self)) })
    }
}

/// Bytes that do not change.
pub(crate) struct Bytes {
    start: NonNull<u8>,
    len: usize,
    owner: Owner,
}

/// What keeps bytes where they are.
enum Owner {
    /// They stand in it; it is never written to.
    Memory(Vec<u8>),
    /// They stand in the map of a file.
    Map(Arc<Mapped>),
}

// SAFETY: the bytes are only read, and both kinds of owner may go to other threads.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// How much memory of the process they take.
    pub(crate) fn memory(&self) -> usize {
        match &self.owner {
            Owner::Memory(memory) => memory.len(),
            Owner::Map(map) => {
                debug_assert!(self.len as u64 <= map.len);
                0
            }
        }
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(memory: Vec<u8>) -> Self {
        let start = NonNull::new(memory.as_ptr().cast_mut()).unwrap_or(NonNull::dangling());
        Self { start, len: memory.len(), owner: Owner::Memory(memory) }
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the owner keeps this many bytes there for as long as it lives: what a `Vec` that
        // nothing changes has on the heap stays where it is when it is moved. The bytes of a map
        // lie inside its file, which nobody changes any more.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len)
    }
}

#[cfg(test)]
mod tests {
    //! Bytes of a map outlive the file's name and handle, and end with the file.

    use std::path::Path;

    use super::super::sim::{Config, SimSystem};
    use super::super::{Open, System};
    use super::*;

    #[test]
    fn bytes_are_those_of_the_file_and_stay() {
        if cfg!(not(target_pointer_width = "64")) {
            return;
        }
        let system = SimSystem::new(1, Config::default());
        let path = Path::new("whole");
        let file = system.open_data(path, Open::Create, 0o600).unwrap();
        file.write_at(&[std::io::IoSlice::new(b"0123456789")], 0).unwrap();
        let mapped = Mapped::of(&*file).unwrap();
        assert!(mapped.bytes(0, 11).is_none());
        assert!(mapped.bytes(u64::MAX, 2).is_none());
        assert!(mapped.bytes(10, 0).is_some_and(|bytes| bytes.is_empty()));
        let bytes = mapped.bytes(2, 5).unwrap();
        system.remove(path).unwrap();
        drop((file, mapped));
        assert_eq!((&*bytes, bytes.memory()), (&b"23456"[..], 0));
    }

    #[test]
    fn bytes_of_their_own_stay_when_they_are_moved() {
        let bytes = Box::new(Bytes::from(vec![1, 2, 3]));
        assert_eq!((&**bytes, bytes.memory()), (&[1, 2, 3][..], 3));
        assert_eq!(Bytes::from(Vec::new()).len(), 0);
    }
}
