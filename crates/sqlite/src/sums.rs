//! Checksums of rows: how they are stored, made and compared. Knows no store and no cursor.
//!
//! A checksum stands before the record in the value of a table's row, and alone in the value of an
//! index entry, where the record is the key. It begins with a byte that begins no record: a record
//! begins with the length of its header, in the fewest bytes, which is never 0.
//!
//! | bytes | |
//! |---|---|
//! | `00`, 8 bytes | `fast`: XXH3 of the record, mixed with the rowid |
//! | `80`, 2 or 3, 32 bytes | SHA3-256 or BLAKE3 of the rowid's key and the record |

use std::hash::{BuildHasher as _, RandomState};

use libsqlite3_sys as sys;
use sha3::Digest as _;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::code::{Answer, Code};

/// The code of a row that is not what its checksum says: `HG_CORRUPT_ROW` in `sums.c`.
pub(crate) const CORRUPT_ROW: Code = sys::SQLITE_CORRUPT | 0x72 << 8;

const FAST_MARK: u8 = 0;
const LONG_MARK: u8 = 0x80;
/// Bytes of a checksum as it is stored.
const FAST_LEN: usize = 1 + 8;
/// No checksum has more.
pub(crate) const LONG_LEN: usize = 2 + 32;

/// What `PRAGMA row_checksum` says: what rows that are written carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Off = 0,
    Fast = 1,
    Sha3 = 2,
    Blake3 = 3,
}

impl Kind {
    pub(crate) fn of(number: u32) -> Option<Self> {
        [Self::Off, Self::Fast, Self::Sha3, Self::Blake3].get(number as usize).copied()
    }

    fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Fast => "fast",
            Self::Sha3 => "sha3",
            Self::Blake3 => "blake3",
        }
    }

    /// What an entry of an index carries that is derived from rows.
    pub(crate) fn of_derived(self) -> Self {
        if self == Self::Off { Self::Off } else { Self::Fast }
    }

    fn len(self) -> usize {
        match self {
            Self::Off => 0,
            Self::Fast => FAST_LEN,
            Self::Sha3 | Self::Blake3 => LONG_LEN,
        }
    }
}

/// What a store says about the checksums of its rows: a word after SQLite's numbers, which only
/// a store has in which they were ever on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) kind: Kind,
    /// Every row carries one: they were on before the first row, or `VACUUM` has seen to it.
    pub(crate) is_complete: bool,
}

impl Setting {
    pub(crate) const OFF: Self = Self { kind: Kind::Off, is_complete: false };
    const COMPLETE: u32 = 0x100;

    pub(crate) fn encode(self) -> u32 {
        self.kind as u32 | if self.is_complete { Self::COMPLETE } else { 0 }
    }

    /// `None` for what a later version may have meant.
    pub(crate) fn decode(word: u32) -> Option<Self> {
        let kind = Kind::of(word & !Self::COMPLETE)?;
        Some(Self { kind, is_complete: word & Self::COMPLETE != 0 })
    }
}

/// What a record belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A row of a table.
    Row(i64),
    /// An entry of an index, which is known by nothing but its record.
    Entry,
}

/// How many bytes of a value belong to a checksum, which may be none.
#[inline(always)]
pub(crate) fn len_of(value: &[u8]) -> Answer<usize> {
    match value.first() {
        Some(&(FAST_MARK | LONG_MARK)) => len_of_marked(value),
        _ => Ok(0),
    }
}

fn len_of_marked(value: &[u8]) -> Answer<usize> {
    let len = match value {
        // The record that SQLite's b-tree takes for a row that is about to be deleted.
        [FAST_MARK] => return Ok(0),
        [FAST_MARK, ..] => FAST_LEN,
        [LONG_MARK, ..] => LONG_LEN,
        _ => return Ok(0),
    };
    if len <= value.len() { Ok(len) } else { Err(CORRUPT_ROW) }
}

/// The kind of a checksum, which may be none.
fn kind_of(sum: &[u8]) -> Answer<Kind> {
    match *sum {
        [] => Ok(Kind::Off),
        [FAST_MARK, ..] => Ok(Kind::Fast),
        [_, 2, ..] => Ok(Kind::Sha3),
        [_, 3, ..] => Ok(Kind::Blake3),
        _ => Err(CORRUPT_ROW),
    }
}

/// Whether a row carries what `kind` says.
pub(crate) fn is_of(kind: Kind, sum: &[u8]) -> bool {
    kind_of(sum) == Ok(kind)
}

/// A checksum as SQL reads it: its kind and its digits.
pub(crate) fn text_of(sum: &[u8]) -> Answer<Option<String>> {
    let kind = kind_of(sum)?;
    let digest = match kind {
        Kind::Off => return Ok(None),
        Kind::Fast => &sum[1..],
        Kind::Sha3 | Kind::Blake3 => &sum[2..],
    };
    let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Some(format!("{}:{digits}", kind.name())))
}

fn fast(owner: Owner, record: &[u8]) -> [u8; 8] {
    let mixed = match owner {
        // The factor is odd: no two rowids give the same.
        Owner::Row(rowid) => rowid.cast_unsigned().wrapping_mul(0x9E37_79B9_7F4A_7C15),
        Owner::Entry => 0,
    };
    (xxh3_64(record) ^ mixed).to_be_bytes()
}

fn sha3(owner: Owner, record: &[u8]) -> [u8; 32] {
    let mut hasher = sha3::Sha3_256::new();
    if let Owner::Row(rowid) = owner {
        hasher.update(rowid.to_be_bytes());
    }
    hasher.update(record);
    hasher.finalize().into()
}

fn blake3(owner: Owner, record: &[u8]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    if let Owner::Row(rowid) = owner {
        hasher.update(&rowid.to_be_bytes());
    }
    hasher.update(record);
    hasher.finalize().into()
}

/// Makes the checksum of a record and stores it in `to`, which is as long as it is.
fn fill(kind: Kind, owner: Owner, record: &[u8], to: &mut [u8]) {
    match kind {
        Kind::Off => {}
        Kind::Fast => {
            to[0] = FAST_MARK;
            to[1..].copy_from_slice(&fast(owner, record));
        }
        Kind::Sha3 | Kind::Blake3 => {
            to[..2].copy_from_slice(&[LONG_MARK, kind as u8]);
            let digest =
                if kind == Kind::Sha3 { sha3(owner, record) } else { blake3(owner, record) };
            to[2..].copy_from_slice(&digest);
        }
    }
}

/// Records whose SHA3-256 or BLAKE3 was right, by a fast hash of record and checksum together with
/// a secret of this connection: it takes the place of the slow one when the same bytes are read
/// again. A collision means that other bytes than those that were compared pass, one in 2^60.
///
/// It is looked for by where the row is in memory: rows that are read one after the other are in
/// few groups then. If it is not there, since the row has moved or was just written, it is looked
/// for by itself.
pub(crate) struct Known {
    secret: u64,
    /// Hashes, in the group that the address of the row says; 0 where there is none.
    near: Vec<Group>,
    /// How many of them had to give way to others since there are so many groups.
    displaced: usize,
    /// Hashes, in the group that their lowest bits say.
    groups: Vec<Group>,
    taken: usize,
}

/// How many bytes of rows a group of `near` is for, as a power of 2.
const NEAR_BITS: u32 = 9;

/// A line of a processor's cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Group([u64; 8]);

const GROUPS_MIN: usize = 1 << 7;
/// 8 MiB: a million records, twice.
const GROUPS_MAX: usize = 1 << 17;

impl Known {
    pub(crate) fn new() -> Self {
        let secret = RandomState::new().hash_one(0);
        Self { secret, near: Vec::new(), displaced: 0, groups: Vec::new(), taken: 0 }
    }

    fn hash(&self, owner: Owner, sum: &[u8], record: &[u8]) -> u64 {
        let mut seed = match owner {
            Owner::Row(rowid) => self.secret ^ rowid.cast_unsigned(),
            Owner::Entry => !self.secret,
        };
        for bytes in sum[2..].chunks_exact(8) {
            let word = bytes.try_into().map_or(0, u64::from_le_bytes);
            seed = (seed ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        }
        xxh3_64_with_seed(record, seed ^ u64::from(sum[1])) | 1 << 63
    }

    /// Whether a hash is known; `place` is the address of its row.
    #[inline]
    fn has(&mut self, hash: u64, place: usize) -> bool {
        let group = place >> NEAR_BITS & self.near.len().wrapping_sub(1);
        if self.near.get(group).is_some_and(|group| group.0.contains(&hash)) {
            return true;
        }
        let group = hash as usize & self.groups.len().wrapping_sub(1);
        let is_known = self.groups.get(group).is_some_and(|group| group.0.contains(&hash));
        if is_known {
            self.note_near(hash, place);
        }
        is_known
    }

    fn note_near(&mut self, hash: u64, place: usize) {
        if self.displaced >= self.near.len() && self.near.len() < GROUPS_MAX {
            let len = (4 * self.near.len()).clamp(GROUPS_MIN, GROUPS_MAX);
            self.near = vec![Group([0; 8]); len];
            self.displaced = 0;
        }
        let group = place >> NEAR_BITS & (self.near.len() - 1);
        self.displaced += usize::from(!self.near[group].put(hash));
    }

    fn note(&mut self, hash: u64) {
        // Half full, few groups are too full.
        if self.taken >= 4 * self.groups.len() && self.groups.len() < GROUPS_MAX {
            let len = (4 * self.groups.len()).clamp(GROUPS_MIN, GROUPS_MAX);
            let old = std::mem::replace(&mut self.groups, vec![Group([0; 8]); len]);
            self.taken = 0;
            let hashes = old.into_iter().flat_map(|group| group.0);
            hashes.filter(|hash| *hash != 0).for_each(|hash| self.place(hash));
        }
        self.place(hash);
    }

    fn place(&mut self, hash: u64) {
        let group = hash as usize & (self.groups.len() - 1);
        self.taken += usize::from(self.groups[group].put(hash));
    }
}

impl Group {
    /// Puts a hash; false if another one gives way to it, or it is there.
    fn put(&mut self, hash: u64) -> bool {
        if self.0.contains(&hash) {
            return false;
        }
        let free = self.0.iter().position(|place| *place == 0);
        // One that looks random: of more records than there is room for, some are known.
        self.0[free.unwrap_or((hash >> 40) as usize % 8)] = hash;
        free.is_some()
    }
}

/// Makes and compares the checksums of a connection.
pub(crate) struct Sums {
    known: Known,
    /// A value that is put together.
    value: Vec<u8>,
    /// What a store gets that has nothing in it yet.
    pub(crate) wanted: Kind,
}

impl Sums {
    pub(crate) fn new() -> Self {
        Self { known: Known::new(), value: Vec::new(), wanted: Kind::Off }
    }

    /// The value of a row: its checksum, its record, and zeros that belong to the record.
    pub(crate) fn row(&mut self, kind: Kind, rowid: i64, record: &[u8], zeros: usize) -> &[u8] {
        let len = kind.len();
        self.value.clear();
        self.value.resize(len, 0);
        self.value.extend_from_slice(record);
        self.value.resize(len + record.len() + zeros, 0);
        let (sum, record) = self.value.split_at_mut(len);
        Self::make(&mut self.known, kind, Owner::Row(rowid), record, sum);
        &self.value
    }

    /// The value of an index entry: its checksum.
    pub(crate) fn entry(&mut self, kind: Kind, record: &[u8]) -> &[u8] {
        if kind == Kind::Off {
            return &[];
        }
        self.value.clear();
        self.value.resize(kind.len(), 0);
        Self::make(&mut self.known, kind, Owner::Entry, record, &mut self.value);
        &self.value
    }

    fn make(known: &mut Known, kind: Kind, owner: Owner, record: &[u8], sum: &mut [u8]) {
        fill(kind, owner, record, sum);
        if matches!(kind, Kind::Sha3 | Kind::Blake3) {
            known.note(known.hash(owner, sum, record));
        }
    }

    /// Compares a record with its checksum, which may be none. `place` is the address at which the
    /// store has it.
    ///
    /// # Errors
    /// [`CORRUPT_ROW`] if it is another one.
    pub(crate) fn verify(
        &mut self,
        owner: Owner,
        sum: &[u8],
        record: &[u8],
        place: usize,
    ) -> Answer {
        let is_right = match kind_of(sum)? {
            Kind::Off => true,
            Kind::Fast => sum[1..] == fast(owner, record),
            kind => {
                let hash = self.known.hash(owner, sum, record);
                if self.known.has(hash, place) {
                    return Ok(());
                }
                let digest =
                    if kind == Kind::Sha3 { sha3(owner, record) } else { blake3(owner, record) };
                let is_right = sum[2..] == digest;
                if is_right {
                    self.known.note(hash);
                    self.known.note_near(hash, place);
                }
                is_right
            }
        };
        if is_right { Ok(()) } else { Err(CORRUPT_ROW) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [Kind; 3] = [Kind::Fast, Kind::Sha3, Kind::Blake3];

    #[test]
    fn a_flipped_bit_is_found_wherever_it_is() {
        for kind in KINDS {
            let mut sums = Sums::new();
            let value = sums.row(kind, -7, b"\x03\x01\x0f\x05a row", 3).to_vec();
            let len = len_of(&value).unwrap();
            assert_eq!(value.len(), len + 12);
            for at in 0..8 * value.len() {
                let mut wrong = value.clone();
                wrong[at / 8] ^= 1 << (at % 8);
                let found = len_of(&wrong).and_then(|len| {
                    let (sum, record) = wrong.split_at(len);
                    if len == 0 {
                        // It looks like a row without one.
                        return Err(CORRUPT_ROW);
                    }
                    sums.verify(Owner::Row(-7), sum, record, at)
                });
                assert_eq!(found, Err(CORRUPT_ROW), "{kind:?}, bit {at}");
            }
            let (sum, record) = value.split_at(len);
            assert_eq!(sums.verify(Owner::Row(-7), sum, record, 0), Ok(()));
            assert_eq!(sums.verify(Owner::Row(-6), sum, record, 0), Err(CORRUPT_ROW));
            assert_eq!(Sums::new().verify(Owner::Row(-7), sum, record, 0), Ok(()));
        }
    }

    #[test]
    fn the_digests_are_those_that_others_compute() {
        let mut sums = Sums::new();
        let text = |sum: &[u8]| text_of(sum).unwrap().unwrap();
        assert_eq!(text(sums.entry(Kind::Fast, b"")), "fast:2d06800538d394c2");
        let sha3 = "sha3:a7ffc6f8bf1ed76651c14756a061d662f580ff4de43b49fa82d80a4b80f8434a";
        assert_eq!(text(sums.entry(Kind::Sha3, b"")), sha3);
        let blake3 = "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        assert_eq!(text(sums.entry(Kind::Blake3, b"")), blake3);
        assert_eq!(text_of(sums.entry(Kind::Off, b"")), Ok(None));
    }

    #[test]
    fn what_is_known_grows_up_to_a_bound() {
        let mut known = Known::new();
        let hash = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 << 63;
        for n in 0..3_000_000 {
            known.note(hash(n));
            assert!(known.has(hash(n), n as usize * 100));
            assert!(
                known.near[((n as usize * 100) >> NEAR_BITS) & (known.near.len() - 1)]
                    .0
                    .contains(&hash(n))
            );
        }
        assert_eq!(known.near.len(), GROUPS_MAX);
        assert_eq!(known.groups.len(), GROUPS_MAX);
        assert!(!known.has(hash(3_000_001), 0));
    }

    #[test]
    fn a_setting_of_a_later_version_is_not_taken_for_another_one() {
        for kind in [Kind::Off, Kind::Fast, Kind::Sha3, Kind::Blake3] {
            for is_complete in [false, true] {
                let setting = Setting { kind, is_complete };
                assert_eq!(Setting::decode(setting.encode()), Some(setting));
            }
        }
        assert_eq!(Setting::decode(4), None);
        assert_eq!(Setting::decode(0x201), None);
    }
}
