//! Little-endian loads and stores at byte offsets, and strings that are often empty. An offset out
//! of range panics: callers that read bytes from a disk check lengths first.

/// The 16 bits at `at`.
#[inline(always)]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut raw = [0; 2];
    raw.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(raw)
}

/// The 32 bits at `at`.
#[inline(always)]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut raw = [0; 4];
    raw.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(raw)
}

/// The 64 bits at `at`.
#[inline(always)]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut raw = [0; 8];
    raw.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(raw)
}

/// Stores 16 bits at `at`.
#[inline(always)]
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Stores 32 bits at `at`.
#[inline(always)]
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// Stores 64 bits at `at`.
#[inline(always)]
pub(crate) fn put_u64(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

/// Whether two strings are the same, for those that are often empty: `memcmp` of glibc looks at
/// where they would be, and for an empty `Vec`, which is nowhere, the processor takes 140 ns.
#[inline]
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && (a.is_empty() || a == b)
}

/// The string at a place that there is, also if it is empty; see [`same`].
#[inline]
pub(crate) fn placed(string: &[u8]) -> &[u8] {
    static SOMEWHERE: [u8; 1] = [0];
    if string.is_empty() { &SOMEWHERE[..0] } else { string }
}
