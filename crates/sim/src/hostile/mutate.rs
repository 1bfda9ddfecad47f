//! Changes to a sound store: some fields get other numbers, pages are exchanged, the file gets
//! another length. The checksums are right again afterwards.

use super::format::{Field, Image, Piece};
use crate::rng::Rng;

/// A change, for the report.
pub type Note = String;

/// Changes an image in one way after the other.
pub struct Mutator<'i> {
    image: &'i mut Image,
    pieces: &'i [Piece],
    rng: &'i mut Rng,
}

impl<'i> Mutator<'i> {
    /// A mutator of a sound store whose structures are `pieces`.
    pub fn new(image: &'i mut Image, pieces: &'i [Piece], rng: &'i mut Rng) -> Self {
        Self { image, pieces, rng }
    }

    /// Makes one to four changes.
    pub fn run(&mut self) -> Vec<Note> {
        let n = self.rng.weighted(&[(5, 1), (3, 2), (1, 3), (1, 4)]);
        let mut notes: Vec<Note> = (0..n).map(|_| self.one()).collect();
        // Last: the others need the file as it was.
        if self.rng.chance(1, 20) {
            notes.push(self.length());
        }
        notes
    }

    fn one(&mut self) -> Note {
        match self.rng.below(100) {
            0..70 => self.field(),
            70..80 => self.noise(),
            80..90 => self.place(),
            _ => self.splice(),
        }
    }

    /// A structure; each kind as often as the others.
    fn piece(&mut self) -> Piece {
        let wanted = self.rng.below(8);
        for _ in 0..64 {
            let piece = self.rng.pick(self.pieces);
            let fits = match piece {
                Piece::Meta(_) => wanted == 0,
                Piece::Tree(page) => self.kind(page) == wanted || wanted > 4,
                Piece::Extent { .. } => wanted == 1,
            };
            if fits {
                return piece;
            }
        }
        self.rng.pick(self.pieces)
    }

    /// 2 for a branch, 3 for a page of the last few that were found, which are those of the
    /// free-space trees, 4 for one of the first few, the catalog's.
    fn kind(&self, page: u32) -> u64 {
        let at = self.pieces.iter().position(|piece| *piece == Piece::Tree(page)).unwrap_or(0);
        match at {
            _ if at + 6 > self.pieces.len() => 3,
            _ if at < 6 => 4,
            _ if self.image.bytes[page as usize * self.image.page_size + 4] == 2 => 2,
            _ => 5,
        }
    }

    fn field(&mut self) -> Note {
        let piece = self.piece();
        let fields = self.image.fields(piece);
        if fields.is_empty() {
            return "nothing".to_owned();
        }
        let field = self.rng.pick(&fields);
        let old = self.image.read(field);
        let new = self.value(field, &fields, old);
        self.image.write(field, new);
        self.repair(piece);
        format!("{piece:?}: {} bytes at {}: {old:#x} -> {new:#x}", field.width, field.at)
    }

    /// Now and then another record of the same commit is left as it was: a fork of the history.
    fn repair(&mut self, piece: Piece) {
        self.image.repair(piece);
        if let (Piece::Meta(slot), true) = (piece, self.rng.chance(9, 10)) {
            let (size, from) = (self.image.page_size, slot as usize * self.image.page_size);
            for other in (0..3).filter(|other| *other != slot) {
                self.image.bytes.copy_within(from..from + size, other as usize * size);
                self.image.repair(Piece::Meta(other));
            }
        }
    }

    /// Another number for a field: a bound, a neighbour, a page in use, or any.
    fn value(&mut self, field: Field, others: &[Field], old: u64) -> u64 {
        let max = u64::MAX >> (64 - 8 * field.width);
        let pages = u64::from(self.image.pages());
        let new = match self.rng.below(12) {
            0 => 0,
            1 => max,
            2 => max >> 1,
            3 => old.wrapping_add(1),
            4 => old.wrapping_sub(1),
            5 => old ^ 1 << self.rng.below(8 * field.width as u64),
            6 => self.rng.below(pages + 2),
            7 => {
                let other = self.rng.pick(others);
                self.image.read(other)
            }
            8 => match self.rng.pick(self.pieces) {
                Piece::Meta(slot) => u64::from(slot),
                Piece::Tree(page) | Piece::Extent { page, .. } => u64::from(page),
            },
            9 => self.rng.below(256),
            10 => pages - self.rng.below(3),
            _ => self.rng.next_u64(),
        };
        new & max
    }

    /// Random bytes inside of a structure.
    fn noise(&mut self) -> Note {
        let piece = self.piece();
        let page = match piece {
            Piece::Meta(page) | Piece::Tree(page) | Piece::Extent { page, .. } => page,
        };
        let start = page as usize * self.image.page_size;
        let n = self.rng.between(1, 8);
        for _ in 0..n {
            let at = start + self.rng.index(self.image.page_size);
            if let Some(byte) = self.image.bytes.get_mut(at) {
                *byte = self.rng.next_u64() as u8;
            }
        }
        self.repair(piece);
        format!("{piece:?}: {n} random bytes")
    }

    fn tree_page(&mut self) -> u32 {
        for _ in 0..64 {
            if let Piece::Tree(page) = self.rng.pick(self.pieces) {
                return page;
            }
        }
        3
    }

    /// A page in the place of another one: of another table, another level, twice.
    fn place(&mut self) -> Note {
        let (from, to) = (self.tree_page(), self.tree_page());
        self.image.copy_page(from, to);
        self.image.seal(to);
        format!("page {to} is a copy of page {from}")
    }

    /// Part of a page over that of another one.
    fn splice(&mut self) -> Note {
        let (from, to) = (self.tree_page(), self.tree_page());
        let size = self.image.page_size;
        let at = self.rng.index(size);
        let len = self.rng.between(1, size - at);
        let (a, b) = (from as usize * size + at, to as usize * size + at);
        if a.max(b) + len <= self.image.bytes.len() {
            self.image.bytes.copy_within(a..a + len, b);
        }
        self.image.seal(to);
        format!("{len} bytes at {at} of page {to} are those of page {from}")
    }

    /// A file that is longer or shorter than its records say.
    fn length(&mut self) -> Note {
        let size = self.image.page_size;
        let old = self.image.bytes.len();
        let new = match self.rng.below(4) {
            0 => self.rng.index(old),
            1 => self.rng.index(old / size) * size,
            2 => old - self.rng.index(3 * size),
            _ => old + self.rng.index(64 * size),
        };
        self.image.bytes.resize(new, 0);
        format!("{new} bytes in place of {old}")
    }
}
