//! Where the values of a collected segment stood before.

use std::sync::Arc;

use crate::checksum::crc32c;
use crate::coding::u32_at;
use crate::lsm::files::charge::Charge;
use crate::lsm::files::memory::Part;
use crate::lsm::files::piece::Piece;
use crate::lsm::levels::version::Segment;
use crate::lsm::varint::{self, Reader};
use crate::{Error, Result};

/// What a line of a remap takes on the disk, about: old segments and offsets as what they are
/// beyond those of the line before, new offsets whole.
pub(crate) const LINE_BYTES: usize = 1 + 3 + 4;

/// The former places of the values of a collected segment: pointers of tables still name them.
#[derive(Debug)]
pub(crate) struct Remap {
    /// (segment, offset) before, offset now; ascending.
    lines: Vec<(u32, u64, u64)>,
    /// Of its memory.
    charge: Option<Charge>,
}

impl Remap {
    /// The bytes after the groups of a segment that hold this list.
    pub(crate) fn encode(salt: u64, lines: &mut [(u32, u64, u64)]) -> Vec<u8> {
        lines.sort_unstable();
        let mut bytes = Vec::with_capacity(lines.len() * LINE_BYTES + 4);
        let mut last = (0, 0);
        for &mut (segment, before, now) in lines {
            let base = if segment == last.0 { last.1 } else { 0 };
            varint::push(&mut bytes, u64::from(segment - last.0));
            varint::push(&mut bytes, before - base);
            varint::push(&mut bytes, now);
            last = (segment, before);
        }
        let sum = crc32c(salt, &bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The remap of these bytes, all of which it is; `None` if it is none.
    pub(crate) fn decode(salt: u64, bytes: &[u8]) -> Option<Self> {
        let (content, _) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
        if crc32c(salt, content) != u32_at(bytes, content.len()) {
            return None;
        }
        let mut reader = Reader::new(content);
        let mut lines = Vec::with_capacity(content.len() / LINE_BYTES);
        let mut last = (0_u32, 0_u64);
        while !reader.is_empty() {
            let further = u32::try_from(reader.number()?).ok()?;
            let base = if further == 0 { last.1 } else { 0 };
            last = (last.0.checked_add(further)?, base.checked_add(reader.number()?)?);
            lines.push((last.0, last.1, reader.number()?));
        }
        Some(Self { lines, charge: None })
    }

    /// Reads it from the end of a segment.
    ///
    /// # Errors
    /// If it cannot be read or is damaged.
    pub(crate) fn read(segment: &Segment) -> Result<Self> {
        let path = segment.handle().path();
        let Some(sealed) = segment.sealed.filter(|sealed| sealed.remap_len > 0) else {
            return Ok(Self { lines: Vec::new(), charge: None });
        };
        let damaged = || Error::corrupt_at(path, sealed.len, "the list of moved values is damaged");
        let len = segment.handle().len()?;
        if sealed.len.checked_add(sealed.remap_len) != Some(len) {
            return Err(damaged());
        }
        let (handle, len) = (segment.handle(), sealed.remap_len as usize);
        let piece = Piece { handle, offset: sealed.len, len, grows: false };
        let salt = segment.identity.salt;
        let mut remap = piece.read(|bytes| Self::decode(salt, bytes).ok_or_else(damaged))?;
        let directory = Arc::downgrade(segment.handle().directory());
        let mut charge = Charge::new(directory, Part::Moved);
        charge.set(remap.memory());
        remap.charge = Some(charge);
        Ok(remap)
    }

    /// Where a value stands now.
    pub(crate) fn find(&self, segment: u32, offset: u64) -> Option<u64> {
        let at = self.lines.partition_point(|line| (line.0, line.1) < (segment, offset));
        let line = self.lines.get(at)?;
        ((line.0, line.1) == (segment, offset)).then_some(line.2)
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.lines.len() * size_of::<(u32, u64, u64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_values_are_found() {
        let far = (u32::MAX, u64::MAX, u64::MAX);
        let mut lines = vec![(9, 64, 500), (2, 80, 64), far, (0, 0, 1), (2, 70, 300)];
        let bytes = Remap::encode(5, &mut lines);
        let remap = Remap::decode(5, &bytes).unwrap();
        assert_eq!(remap.find(2, 80), Some(64));
        assert_eq!(remap.find(9, 64), Some(500));
        assert_eq!(remap.find(9, 65), None);
        assert_eq!(remap.find(0, 0), Some(1));
        assert_eq!(remap.find(far.0, far.1), Some(far.2));
        assert!(Remap::decode(6, &bytes).is_none());
        for bit in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(Remap::decode(5, &changed).is_none());
        }
    }
}
