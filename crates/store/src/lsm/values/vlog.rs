//! Values in segments: reading one, and finding where collected ones went. This module knows no
//! tables.

use std::sync::atomic::Ordering::Relaxed;

use super::place::ValuePlace;
use crate::lsm::entry::Pointer;
use crate::lsm::levels::version::{Segment, Version};
use crate::{Error, Result};

/// The place of the value that a pointer leads to.
///
/// # Errors
/// If there is no such place.
pub(crate) fn find(version: &Version, pointer: Pointer) -> Result<ValuePlace<'_>> {
    let Some((segment, offset)) = version.resolve(pointer)? else {
        let name = crate::lsm::files::Name::Segment(pointer.segment);
        let path = version.directory().file(name);
        return Err(Error::corrupt_at(
            &path,
            pointer.offset,
            "a table points to a value not there",
        ));
    };
    let end = offset.checked_add(u64::from(pointer.len));
    // In a segment that is still written to, a read that finds too few bytes reports it.
    let limit = segment.sealed.map_or(u64::MAX, |sealed| sealed.len);
    if end.is_none_or(|end| end > limit) {
        let path = segment.handle().path();
        return Err(Error::corrupt_at(path, offset, "a table points behind the end of a segment"));
    }
    Ok(place(segment, pointer, offset))
}

/// A value at that place of a segment.
pub(crate) fn place(
    segment: &Segment,
    Pointer { len, sum, .. }: Pointer,
    offset: u64,
) -> ValuePlace<'_> {
    let (handle, grows) = (segment.handle(), segment.sealed.is_none());
    ValuePlace { handle, segment: segment.identity.number, offset, len, sum, grows }
}

/// The value that a pointer leads to, from the disk.
///
/// # Errors
/// If it cannot be read, or the bytes there are not that value.
pub(crate) fn read_value(version: &Version, pointer: Pointer) -> Result<Vec<u8>> {
    let place = find(version, pointer)?;
    version.directory().reads.values.fetch_add(1, Relaxed);
    place.piece().read(|bytes| place.open(bytes).map(<[u8]>::to_vec))
}
