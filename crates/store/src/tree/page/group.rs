//! Several values of one key inside a leaf.
//!
//! ```text
//! count u16, shared length u16, stride u16 | shared bytes | ends u16 x count, if stride is VARIED
//! | what follows (or precedes, VALUES_REVERSED) the shared bytes in each value, side by side
//! ```
//!
//! Where all values of a group have one length the stride is what each takes, and no ends are
//! stored.

use super::{Bytes, Page, VALUES_REVERSED};
use crate::coding::put_u16;

/// The stride of a group whose values have different lengths.
pub(crate) const VARIED: usize = 0xFFFF;
/// Count, shared length, stride.
pub(crate) const GROUP_HEADER: usize = 6;

/// A view of a group.
#[derive(Clone, Copy)]
pub(crate) struct Group<'a> {
    page: Page<'a>,
    count: usize,
    stride: usize,
    shared: &'a [u8],
    /// Where the ends stand, or would.
    ends: usize,
    /// Where the values stand.
    data: usize,
}

impl<'a> Group<'a> {
    /// The group at a byte offset of a page.
    #[inline(always)]
    pub(crate) fn at(page: Page<'a>, at: usize) -> Self {
        let count = page.half(at);
        let shared = page.half(at + 2);
        let stride = page.half(at + 4);
        let ends = at + GROUP_HEADER + shared;
        let data = if stride == VARIED { ends + 2 * count } else { ends };
        let shared = page.slice(at + GROUP_HEADER, shared);
        Self { page, count, stride, shared, ends, data }
    }

    #[inline(always)]
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// What value `i` has besides the shared bytes.
    #[inline(always)]
    pub(crate) fn rest(&self, i: usize) -> &'a [u8] {
        if self.stride != VARIED {
            return self.page.slice(self.data + i * self.stride, self.stride);
        }
        let start = if i == 0 { 0 } else { self.page.half(self.ends + 2 * (i - 1)) };
        self.page.slice(self.data + start, self.page.half(self.ends + 2 * i) - start)
    }

    /// Value `i`.
    #[inline(always)]
    pub(crate) fn value(&self, i: usize) -> Bytes<'a> {
        let rest = self.rest(i);
        if self.page.flags() & VALUES_REVERSED != 0 {
            Bytes::new(rest, self.shared)
        } else {
            Bytes::new(self.shared, rest)
        }
    }

    /// Length of the group in bytes.
    pub(crate) fn len(&self) -> usize {
        let values = if self.stride != VARIED {
            self.count * self.stride
        } else {
            self.page.half(self.ends + 2 * (self.count - 1))
        };
        GROUP_HEADER + self.shared.len() + (self.data - self.ends) + values
    }
}

/// What a group of values would take: fed value by value, in order.
#[derive(Clone, Copy, Default)]
pub(crate) struct GroupSize {
    pub(crate) count: usize,
    /// What all values share, in bytes.
    pub(crate) shared: usize,
    total: usize,
    first_len: usize,
    varied: bool,
}

impl GroupSize {
    /// Adds a value of `len` bytes that shares `shared` bytes with the group's first value.
    pub(crate) fn push(&mut self, len: usize, shared: usize) {
        if self.count == 0 {
            (self.shared, self.first_len) = (len, len);
        } else {
            // The length matters for a damaged page only.
            self.shared = self.shared.min(shared).min(len);
            self.varied |= len != self.first_len;
        }
        self.count += 1;
        self.total += len;
    }

    /// Bytes of the body of a group of two and more values.
    pub(crate) fn body(&self) -> usize {
        let ends = if self.varied { 2 * self.count } else { 0 };
        GROUP_HEADER + self.shared + ends + self.total - self.count * self.shared
    }

    pub(crate) fn stride(&self) -> usize {
        if self.varied { VARIED } else { self.first_len - self.shared }
    }

    /// The length of a single value.
    pub(crate) fn single(&self) -> usize {
        self.first_len
    }
}

/// Writes a group of values at `at`; `values` gives them in order. Returns its length.
pub(crate) fn put_group<'v>(
    out: &mut [u8],
    at: usize,
    size: &GroupSize,
    reversed: bool,
    values: impl Iterator<Item = Bytes<'v>>,
) -> usize {
    put_u16(out, at, size.count as u16);
    put_u16(out, at + 2, size.shared as u16);
    put_u16(out, at + 4, size.stride() as u16);
    let ends = at + GROUP_HEADER + size.shared;
    let data = if size.varied { ends + 2 * size.count } else { ends };
    let mut end = data;
    for (i, value) in values.enumerate() {
        if i == 0 {
            let shared = if reversed {
                value.sub(value.len() - size.shared, value.len())
            } else {
                value.sub(0, size.shared)
            };
            shared.write(out, at + GROUP_HEADER);
        }
        let rest = if reversed {
            value.sub(0, value.len() - size.shared)
        } else {
            value.sub(size.shared, value.len())
        };
        rest.write(out, end);
        end += rest.len();
        if size.varied {
            put_u16(out, ends + 2 * i, (end - data) as u16);
        }
    }
    end - at
}
