//! Memory for reads and writes: aligned, of a fixed size, taken from a pool and given back to it.
#![expect(unsafe_code, reason = "aligned memory, lent to the system")]

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use crate::sync::{Mutex, locked};

/// When a file is read past the system's cache ([`set_direct`]), addresses in memory, offsets and
/// lengths must be multiples of this.
///
/// [`set_direct`]: crate::os::DataFile::set_direct
pub const ALIGN: usize = 4096;

/// One piece of aligned memory, zeroed when it was made.
struct Memory {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it owns its memory, which holds only bytes.
unsafe impl Send for Memory {}
// SAFETY: by itself it gives no access to the memory but the address.
unsafe impl Sync for Memory {}

impl Memory {
    fn new(len: usize) -> Self {
        let layout = Layout::from_size_align(len.max(1), ALIGN).expect("a length that can be had");
        // SAFETY: the length is not zero.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else { alloc::handle_alloc_error(layout) };
        Self { start, layout }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout; buffers hold it alive as long as they exist.
        unsafe { alloc::dealloc(self.start.as_ptr(), self.layout) };
    }
}

/// What the buffers of a pool share.
struct Shared {
    memory: Memory,
    len: usize,
    /// The numbers of the unused buffers.
    free: Mutex<Vec<u32>>,
}

/// Buffers of one length in one piece of memory. Clones are the same pool; it lives as long as any
/// of its buffers.
#[derive(Clone)]
pub struct Pool(Arc<Shared>);

impl Pool {
    /// `count` buffers of `len` bytes each.
    ///
    /// # Panics
    ///
    /// When `len` is zero or no multiple of [`ALIGN`], or all of them do not fit in memory.
    pub fn new(len: usize, count: usize) -> Self {
        assert!(len > 0 && len.is_multiple_of(ALIGN), "buffers of {len} bytes");
        let numbers = u32::try_from(count).expect("fewer than 2^32 buffers");
        let bytes = len.checked_mul(count).expect("buffers that fit in memory");
        let free = Mutex::new((0..numbers).rev().collect());
        Self(Arc::new(Shared { memory: Memory::new(bytes), len, free }))
    }

    /// A buffer of the full length; `None` if all are taken. Its bytes are those of its last use.
    pub fn take(&self) -> Option<Buffer> {
        let number = locked(&self.0.free).pop()?;
        // SAFETY: `number` is less than the count of buffers, so that it lies in the memory.
        let start = unsafe { self.0.memory.start.add(number as usize * self.0.len) };
        let home = Home::Pool(Arc::clone(&self.0), number);
        Some(Buffer { start, len: self.0.len, capacity: self.0.len, home })
    }

    /// Where all its buffers lie: the address of the first byte, and how many there are.
    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    pub(super) fn span(&self) -> (NonNull<u8>, usize) {
        (self.0.memory.start, self.0.memory.layout.size())
    }
}

/// Bytes at an address that is a multiple of [`ALIGN`].
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    capacity: usize,
    home: Home,
}

/// What keeps the memory of a buffer.
enum Home {
    Pool(Arc<Shared>, u32),
    /// Memory of its own, freed with it.
    Own(#[expect(dead_code, reason = "kept to be dropped")] Memory),
}

// SAFETY: a buffer alone has its part of the memory: a pool gives each number to one at a time.
unsafe impl Send for Buffer {}
// SAFETY: through a shared reference the bytes can only be read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of its own, of any length: zeros.
    pub fn new(len: usize) -> Self {
        let memory = Memory::new(len);
        Self { start: memory.start, len, capacity: len, home: Home::Own(memory) }
    }

    /// How long it can be made.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Makes it shorter, or longer again.
    ///
    /// # Panics
    ///
    /// When it was made for less.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity, "{len} bytes in a buffer for {}", self.capacity);
        self.len = len;
    }

    /// The address of a byte of it, for the system.
    #[cfg(all(target_os = "linux", target_pointer_width = "64", target_endian = "little"))]
    pub(super) fn address(&mut self, at: usize) -> *mut u8 {
        self[at..].as_mut_ptr()
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `len` is at most the capacity; all of that lies in the memory, which `home` keeps
        // alive, was initialised when it was made, and belongs to this buffer alone.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `self` is borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Home::Pool(shared, number) = &self.home {
            locked(&shared.free).push(*number);
        }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a buffer of {} bytes", self.len)
    }
}

#[cfg(test)]
mod tests {
    //! Buffers are aligned, do not overlap, and come back.

    use super::*;

    #[test]
    fn a_pool_gives_each_buffer_to_one_at_a_time() {
        let pool = Pool::new(ALIGN, 3);
        let mut taken: Vec<Buffer> = (0..3).map(|_| pool.take().unwrap()).collect();
        assert!(pool.take().is_none());
        for (number, buffer) in taken.iter_mut().enumerate() {
            assert!(buffer.as_ptr().addr().is_multiple_of(ALIGN));
            buffer.fill(number as u8);
        }
        assert!(taken.iter().enumerate().all(|(n, buffer)| buffer[..] == [n as u8; ALIGN]));
        taken.remove(1);
        let again = pool.take().unwrap();
        drop(pool);
        assert_eq!(again[..], [1; ALIGN]);
    }

    #[test]
    fn a_buffer_of_its_own_has_any_length() {
        for len in [0, 1, 10_000] {
            let mut buffer = Buffer::new(len);
            assert!(buffer.as_ptr().addr().is_multiple_of(ALIGN));
            assert_eq!(buffer[..], vec![0; len]);
            buffer.set_len(len / 2);
            assert_eq!(buffer.len(), len / 2);
        }
    }

    #[test]
    #[should_panic(expected = "2 bytes in a buffer for 1")]
    fn a_buffer_does_not_grow() {
        Buffer::new(1).set_len(2);
    }
}
