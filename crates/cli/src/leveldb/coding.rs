//! Varints, checksums, and keys with their numbers, as LevelDB writes them. Little-endian.

use crc_fast::{CrcAlgorithm, checksum};

/// A key's number: eight bytes at the end of what tables hold as its key.
pub(super) const NUMBER_BYTES: usize = 8;
/// What is added to a checksum that is stored beside its data.
const MASK: u32 = 0xa282_ead8;

/// What an entry says about its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Deletion,
    Value,
}

/// Whether bytes have a checksum, which is stored masked: rotated, and something added.
pub(super) fn has_sum(parts: [&[u8]; 2], stored: u32) -> bool {
    masked_sum(parts) == stored
}

/// The checksum of bytes in two parts, CRC-32C, masked.
pub(super) fn masked_sum(parts: [&[u8]; 2]) -> u32 {
    let sum = match parts {
        [only, []] | [[], only] => checksum(CrcAlgorithm::Crc32Iscsi, only),
        _ => {
            let mut digest = crc_fast::Digest::new(CrcAlgorithm::Crc32Iscsi);
            parts.iter().for_each(|part| digest.update(part));
            digest.finalize()
        }
    } as u32;
    sum.rotate_right(15).wrapping_add(MASK)
}

/// A number of 64 bits, seven at a time, the lowest first.
pub(super) fn put_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A string with its length in front.
pub(super) fn put_string(bytes: &mut Vec<u8>, string: &[u8]) {
    put_varint(bytes, string.len() as u64);
    bytes.extend_from_slice(string);
}

/// Reads from the beginning of some bytes.
#[derive(Clone, Debug)]
pub(super) struct Reader<'b>(pub(super) &'b [u8]);

impl<'b> Reader<'b> {
    pub(super) fn varint(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for (index, &byte) in self.0.iter().take(10).enumerate() {
            number |= u64::from(byte & 0x7f).checked_shl(7 * index as u32)?;
            if byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Some(number);
            }
        }
        None
    }

    pub(super) fn size(&mut self) -> Option<usize> {
        usize::try_from(self.varint()?).ok()
    }

    pub(super) fn take(&mut self, len: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(super) fn string(&mut self) -> Option<&'b [u8]> {
        let len = self.size()?;
        self.take(len)
    }

    pub(super) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|byte| byte[0])
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}

/// A key with its sequence number and kind, as tables hold it.
pub(super) fn numbered(key: &[u8], sequence: u64, kind: Kind) -> Vec<u8> {
    let mut full = Vec::with_capacity(key.len() + NUMBER_BYTES);
    full.extend_from_slice(key);
    full.extend_from_slice(&(sequence << 8 | kind as u64).to_le_bytes());
    full
}

/// A key of a table in its parts: the user's key, the sequence number, and what it says.
pub(super) fn parts_of(full: &[u8]) -> Option<(&[u8], u64, Kind)> {
    let (key, number) = full.split_last_chunk::<NUMBER_BYTES>()?;
    let number = u64::from_le_bytes(*number);
    let kind = match number & 0xff {
        0 => Kind::Deletion,
        1 => Kind::Value,
        _ => return None,
    };
    Some((key, number >> 8, kind))
}
