//! A second reader of the log-structured engine's files: which bytes a checksum covers, and how it
//! is made right again after a change.

use std::ops::Range;

use crate::hostile::format::crc32c;

/// Headers of files, and the footer of a table.
const HEADER_BYTES: usize = 64;
const HEADER_SUM: usize = 60;
const GROUP_HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 8;

/// How a checksum is made.
#[derive(Clone, Copy, Debug)]
enum Sum {
    /// From a number over the bytes.
    From(u64),
    /// That of a group: from a number over the rest of its header, then from that and the place.
    Group(u64),
}

/// Bytes under one checksum.
#[derive(Clone, Debug)]
pub struct Piece {
    /// What it is.
    pub what: &'static str,
    /// The bytes.
    pub content: Range<usize>,
    /// Where the checksum stands.
    sum_at: usize,
    sum: Sum,
}

impl Piece {
    /// Where it begins: its length and checksum may stand before its content.
    pub fn start(&self) -> usize {
        let ahead = if self.sum_at < self.content.start { 8 } else { 0 };
        self.content.start.saturating_sub(ahead)
    }

    /// Makes the checksum right.
    pub fn seal(&self, bytes: &mut [u8]) {
        let content = &bytes[self.content.clone()];
        let sum = match self.sum {
            Sum::From(start) => crc32c(start, content),
            Sum::Group(start) => {
                let (header, body) = content.split_at(GROUP_HEADER_BYTES - 4);
                let offset = self.sum_at as u64;
                let head = crc32c(start.wrapping_add(offset), header);
                crc32c(u64::from(head) << 32 | offset & 0xffff_ffff, body)
            }
        };
        bytes[self.sum_at..self.sum_at + 4].copy_from_slice(&sum.to_le_bytes());
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Takes a number of seven bits a byte.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// The pieces of a sound file of that name, from the front.
pub fn pieces(name: &str, bytes: &[u8]) -> Vec<Piece> {
    let mut pieces = Vec::new();
    // Ends early where the file is not what its name says: of a sound one nothing is left out.
    let _ = match name.rsplit_once('.') {
        None if name == "MANIFEST" => manifest(bytes, &mut pieces),
        Some((_, "log")) => segment(bytes, &mut pieces),
        Some((number, "table")) => table(number.parse().unwrap_or(0), bytes, &mut pieces),
        _ => None,
    };
    pieces
}

fn header(what: &'static str, at: usize, start: u64) -> Piece {
    let content = at..at + HEADER_SUM;
    Piece { what, content, sum_at: at + HEADER_SUM, sum: Sum::From(start) }
}

fn manifest(bytes: &[u8], pieces: &mut Vec<Piece>) -> Option<()> {
    let salt = u64_at(bytes, 16)?;
    pieces.push(header("header of the manifest", 0, 0));
    let mut at = HEADER_BYTES;
    while at + RECORD_HEADER_BYTES <= bytes.len() {
        let end = at + u32_at(bytes, at + 4)? as usize;
        let sum = Sum::From(salt.wrapping_add(at as u64));
        bytes.get(at..end)?;
        let what = "record of the manifest";
        pieces.push(Piece { what, content: at + 4..end, sum_at: at, sum });
        at = end;
    }
    Some(())
}

fn segment(bytes: &[u8], pieces: &mut Vec<Piece>) -> Option<()> {
    let (number, salt) = (u32_at(bytes, 12)?, u64_at(bytes, 16)?);
    pieces.push(header("header of a segment", 0, u64::from(number)));
    let mut at = HEADER_BYTES;
    loop {
        let len = u64_at(bytes, at + 8).and_then(|len| usize::try_from(len).ok());
        let end = len.filter(|&len| len >= GROUP_HEADER_BYTES).and_then(|len| at.checked_add(len));
        let piece =
            |end| Piece { what: "group", content: at + 4..end, sum_at: at, sum: Sum::Group(salt) };
        let is_group = |end: &usize| {
            let mut copy = bytes.get(..*end).map(<[u8]>::to_vec).unwrap_or_default();
            let is_inside = copy.len() == *end;
            if is_inside {
                piece(*end).seal(&mut copy);
            }
            is_inside && copy[at..] == bytes[at..*end]
        };
        let Some(end) = end.filter(is_group) else { break };
        pieces.push(piece(end));
        at = end;
    }
    if at + 4 <= bytes.len() {
        let (content, sum_at) = (at..bytes.len() - 4, bytes.len() - 4);
        pieces.push(Piece { what: "list of moved values", content, sum_at, sum: Sum::From(salt) });
    }
    Some(())
}

/// Where the pending groups end: after the last one that follows the one before it. Older groups
/// may follow.
pub fn pending_end(bytes: &[u8]) -> usize {
    let (mut at, mut next) = (HEADER_BYTES, None);
    loop {
        let (count, len) = (u32_at(bytes, at + 4), u64_at(bytes, at + 8));
        let (Some(count), Some(len), Some(seq)) = (count, len, u64_at(bytes, at + 16)) else {
            break;
        };
        let follows = next.is_none_or(|next| next == seq) && count > 0;
        if !follows || len > (bytes.len() - at) as u64 {
            break;
        }
        (at, next) = (at + len as usize, Some(seq + u64::from(count)));
    }
    at.min(bytes.len())
}

fn table(number: u32, bytes: &[u8], pieces: &mut Vec<Piece>) -> Option<()> {
    let footer = bytes.len().checked_sub(HEADER_BYTES)?;
    let place = |offset, len| {
        let (offset, len) = (u64_at(bytes, footer + offset)?, u32_at(bytes, footer + len)?);
        Some((offset as usize, len as usize))
    };
    let index = place(16, 24)?;
    for (from, len) in data_blocks(bytes.get(index.0..index.0 + index.1)?)? {
        pieces.push(block("data block", number, from, len));
    }
    let (ranges, filter) = (place(40, 48)?, place(32, 28)?);
    for (what, (from, len)) in [("range tombstones", ranges), ("filter", filter), ("index", index)]
    {
        if len > 0 {
            pieces.push(block(what, number, from, len));
        }
    }
    pieces.push(header("footer of a table", footer, u64::from(number)));
    Some(())
}

fn block(what: &'static str, number: u32, from: usize, len: usize) -> Piece {
    let sum = Sum::From(u64::from(number).rotate_left(40) ^ from as u64);
    Piece { what, content: from..from + len - 4, sum_at: from + len - 4, sum }
}

/// Where the blocks stand that an index names.
fn data_blocks(index: &[u8]) -> Option<Vec<(usize, usize)>> {
    let count = u32_at(index, index.len().checked_sub(9)?)?;
    let (mut rest, mut blocks) = (index, Vec::new());
    for _ in 0..count {
        let (_, more, value, _) =
            (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
        let mut place = rest.get(more as usize..(more + value) as usize)?;
        rest = &rest[(more + value) as usize..];
        blocks.push((number(&mut place)? as usize, number(&mut place)? as usize));
    }
    Some(blocks)
}
