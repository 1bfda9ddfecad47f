//! The records of logs and manifests: blocks of 32 KiB with pieces of records, each with a
//! checksum, a length and a kind. A piece does not cross the end of a block.

use std::path::Path;

use super::Damage;
use super::coding::{Reader, has_sum, masked_sum};

const BLOCK_BYTES: usize = 32 << 10;
/// Checksum, length and kind.
const HEADER_BYTES: usize = 7;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

const BEYOND: &str = "a record reaches beyond its block";

/// The records of a log.
pub(super) struct Records {
    /// Each with the offset at which it begins.
    pub(super) whole: Vec<(u64, Vec<u8>)>,
    /// What could not be read. The end of the last record that was being written is none.
    pub(super) damage: Vec<Damage>,
}

/// A piece of a record.
struct Piece<'b> {
    kind: u8,
    bytes: &'b [u8],
}

/// The piece at the beginning of a block's rest; `None` where the rest is empty or was never
/// written.
fn piece<'b>(rest: &mut Reader<'b>) -> Option<Result<Piece<'b>, &'static str>> {
    if rest.0.len() < HEADER_BYTES {
        return None;
    }
    let (sum, low, high, kind) = (rest.u32()?, rest.byte()?, rest.byte()?, rest.byte()?);
    let len = usize::from(u16::from_le_bytes([low, high]));
    if kind == 0 && len == 0 {
        // Space that was allocated in advance.
        return None;
    }
    let Some(bytes) = rest.take(len) else { return Some(Err(BEYOND)) };
    Some(match has_sum([&[kind], bytes], sum) {
        true => Ok(Piece { kind, bytes }),
        false => Err("a record has another checksum than it should"),
    })
}

/// Whether a piece that is too short, at the end of a log, was left so by a writer that was killed,
/// and does not only have a wrong length: then it would be whole with another one, or others would
/// follow.
fn is_torn(rest: &[u8]) -> bool {
    let is_whole = |at: usize| {
        let mut rest = Reader(&rest[at..]);
        matches!(piece(&mut rest), Some(Ok(Piece { kind: FULL..=LAST, .. })))
    };
    let mut header = Reader(rest);
    let (sum, _) = (header.u32(), header.take(2));
    let kind = header.byte();
    let is_to_the_end =
        matches!((sum, kind), (Some(sum), Some(kind)) if has_sum([&[kind], header.0], sum));
    !is_to_the_end && !(1..rest.len()).any(is_whole)
}

/// Reads a log. Where a block is damaged, its rest is left out.
pub(super) fn read(path: &Path, file: &[u8]) -> Records {
    let mut records = Records { whole: Vec::new(), damage: Vec::new() };
    let mut begun: Option<(u64, Vec<u8>)> = None;
    let last = file.len().div_ceil(BLOCK_BYTES);
    for (index, block) in file.chunks(BLOCK_BYTES).enumerate() {
        let mut rest = Reader(block);
        loop {
            let at = (index * BLOCK_BYTES + block.len() - rest.0.len()) as u64;
            let here = rest.0;
            let piece = match piece(&mut rest) {
                None => break,
                Some(Ok(piece)) => piece,
                Some(Err(what)) => {
                    begun = None;
                    if index + 1 < last || what != BEYOND || !is_torn(here) {
                        records.damage.push(Damage::new(path, at, what));
                    }
                    break;
                }
            };
            match (piece.kind, begun.take()) {
                (FULL, _) => records.whole.push((at, piece.bytes.to_vec())),
                (FIRST, _) => begun = Some((at, piece.bytes.to_vec())),
                (MIDDLE, Some((from, mut bytes))) => {
                    bytes.extend_from_slice(piece.bytes);
                    begun = Some((from, bytes));
                }
                (LAST, Some((from, mut bytes))) => {
                    bytes.extend_from_slice(piece.bytes);
                    records.whole.push((from, bytes));
                }
                // The beginning was in what could not be read.
                (MIDDLE | LAST, None) if !records.damage.is_empty() => {}
                (MIDDLE | LAST, None) => {
                    records.damage.push(Damage::new(path, at, "a record without a beginning"));
                }
                _ => records.damage.push(Damage::new(path, at, "a record of an unknown kind")),
            }
        }
    }
    records
}

/// A log of some records.
pub(super) fn write(records: &[Vec<u8>]) -> Vec<u8> {
    let mut log = Vec::new();
    for record in records {
        let (mut left, mut is_first) = (&record[..], true);
        loop {
            let room = BLOCK_BYTES - log.len() % BLOCK_BYTES;
            if room < HEADER_BYTES {
                log.resize(log.len() + room, 0);
                continue;
            }
            let (piece, rest) = left.split_at(left.len().min(room - HEADER_BYTES));
            let kind = match (is_first, rest.is_empty()) {
                (true, true) => FULL,
                (true, false) => FIRST,
                (false, false) => MIDDLE,
                (false, true) => LAST,
            };
            log.extend_from_slice(&masked_sum([&[kind], piece]).to_le_bytes());
            log.extend_from_slice(&(piece.len() as u16).to_le_bytes());
            log.push(kind);
            log.extend_from_slice(piece);
            (left, is_first) = (rest, false);
            if left.is_empty() {
                break;
            }
        }
    }
    log
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Vec<u8>> {
        let lens = [0, 1, 32_754, 32_761, 7, 100_000, 0, 32_768, 5];
        lens.iter().enumerate().map(|(index, &len)| vec![index as u8; len]).collect()
    }

    #[test]
    fn what_is_written_is_read() {
        let read = read(Path::new("log"), &write(&records()));
        assert!(read.damage.is_empty(), "{:?}", read.damage);
        let found: Vec<Vec<u8>> = read.whole.into_iter().map(|(_, bytes)| bytes).collect();
        assert_eq!(found, records());
    }

    #[test]
    fn a_torn_end_is_no_damage_and_a_flipped_byte_is() {
        let log = write(&records());
        for cut in [log.len() - 1, log.len() - 4, 100_000, 20, 5] {
            let read = read(Path::new("log"), &log[..cut]);
            assert!(read.damage.is_empty(), "{cut}: {:?}", read.damage);
            assert!(read.whole.len() < records().len());
        }
        // Lengths of the last two records, of the one before with others after it, and contents.
        let lengths = [5, 6].map(|at| log.len() - 5 - HEADER_BYTES + at);
        let before = lengths.map(|at| at - 32_768 - HEADER_BYTES);
        for at in [3, 10, 40_000, log.len() - 2].into_iter().chain(lengths).chain(before) {
            let mut flipped = log.clone();
            flipped[at] ^= 1;
            let read = read(Path::new("log"), &flipped);
            assert!(!read.damage.is_empty(), "{at}");
        }
    }
}
