//! A second reader of the file format of docs/format.md, independent of the engine: where the
//! fields of every structure are, and how its checksums are made right again after a change.

use std::collections::BTreeSet;

/// Pages before the first one of trees.
const META_PAGES: u32 = 3;
const META_LEN: usize = 4096;
const MAX_LEVELS: u8 = 32;
const HEADER_LEN: usize = 24;
const FIRST_CODE: usize = 0x7FF0;
const GROUP: usize = 0x7FFE;
const EXTENT: usize = 0x7FFF;
const PAIRED: u8 = 8;
const ALIGNED: u8 = 32;

/// CRC-32C of the eight bytes of `seed`, followed by `bytes`.
pub fn crc32c(seed: u64, bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| TABLE[usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
    let sum = seed.to_le_bytes().iter().fold(!0, step);
    !bytes.iter().fold(sum, step)
}

const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut sum = i as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { sum >> 1 ^ 0x82F6_3B78 } else { sum >> 1 };
            bit += 1;
        }
        table[i] = sum;
        i += 1;
    }
    table
};

/// A structure of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// The meta record of this slot.
    Meta(u32),
    /// A tree page.
    Tree(u32),
    /// An extent: the tree page that names it, and where in the file its cell stands.
    Extent {
        /// The page of the cell.
        page: u32,
        /// The cell's first byte in the file.
        cell: usize,
    },
}

/// A number somewhere in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its first byte in the file.
    pub at: usize,
    /// Its length in bytes: 1, 2, 4 or 8.
    pub width: usize,
    /// Whether its highest byte comes first.
    pub big: bool,
}

/// A file of pages. Nothing in it is trusted: what lies outside reads as zero.
#[derive(Clone, Debug)]
pub struct Image {
    /// All of it.
    pub bytes: Vec<u8>,
    /// The page size.
    pub page_size: usize,
}

impl Image {
    fn number(&self, at: usize, width: usize) -> u64 {
        let byte = |i: usize| self.bytes.get(at + i).copied().unwrap_or(0);
        (0..width).rev().fold(0, |sum, i| sum << 8 | u64::from(byte(i)))
    }

    fn half(&self, at: usize) -> usize {
        self.number(at, 2) as usize
    }

    fn word(&self, at: usize) -> u32 {
        self.number(at, 4) as u32
    }

    /// Reads a field.
    pub fn read(&self, field: Field) -> u64 {
        let value = self.number(field.at, field.width);
        if field.big { value.swap_bytes() >> (64 - 8 * field.width) } else { value }
    }

    /// Writes a field; what lies outside of the file is left out.
    pub fn write(&mut self, field: Field, value: u64) {
        for i in 0..field.width {
            let shift = 8 * if field.big { field.width - 1 - i } else { i };
            if let Some(byte) = self.bytes.get_mut(field.at + i) {
                *byte = (value >> shift) as u8;
            }
        }
    }

    fn start(&self, page: u32) -> usize {
        page as usize * self.page_size
    }

    /// How many whole pages the file has.
    pub fn pages(&self) -> u32 {
        (self.bytes.len() / self.page_size) as u32
    }

    /// All structures that the newest commit of a sound store uses.
    pub fn pieces(&self) -> Vec<Piece> {
        let newest = (0..META_PAGES).max_by_key(|slot| self.number(self.start(*slot) + 24, 8));
        let meta = self.start(newest.unwrap_or(0));
        let mut found = Found { seen: BTreeSet::new(), pieces: Vec::new() };
        found.pieces.extend((0..META_PAGES).map(Piece::Meta));
        let mut leaves = Vec::new();
        for root in [96, 144, 192] {
            self.walk(meta + root, &mut found, &mut leaves);
            if root == 96 {
                for leaf in std::mem::take(&mut leaves) {
                    for record in self.records(leaf) {
                        self.walk(record.behind, &mut found, &mut Vec::new());
                    }
                }
            }
        }
        found.pieces
    }

    /// Notes the pages of the tree whose root record stands at `root`.
    fn walk(&self, root: usize, found: &mut Found, leaves: &mut Vec<u32>) {
        if self.word(root) != u32::MAX {
            self.below(self.word(root), self.word(root + 4) as u8, found, leaves);
        }
    }

    fn below(&self, page: u32, level: u8, found: &mut Found, leaves: &mut Vec<u32>) {
        if page < META_PAGES || page >= self.pages() || level >= MAX_LEVELS {
            return;
        }
        if !found.seen.insert(page) {
            return;
        }
        found.pieces.push(Piece::Tree(page));
        let records = self.records(page);
        for cell in records.iter().flat_map(|record| record.cells()) {
            found.pieces.push(Piece::Extent { page, cell });
        }
        if level == 0 {
            leaves.push(page);
            return;
        }
        let children = self.heads(page) + 4 * records.len();
        for i in 0..records.len() {
            self.below(self.word(children + 4 * i), level - 1, found, leaves);
        }
    }

    fn heads(&self, page: u32) -> usize {
        let start = self.start(page);
        start + HEADER_LEN + self.half(start + 18).next_multiple_of(4)
    }

    /// The widths of the arrays of a page, one element of each.
    fn widths(&self, page: u32) -> Vec<usize> {
        let start = self.start(page);
        let total = if self.number(start + 5, 1) == 1 { 4 } else { 8 };
        let flags = self.number(start + 6, 1) as u8;
        match (self.number(start + 4, 1), flags & PAIRED, flags & ALIGNED) {
            (2, 0, _) => vec![4, 4, total, 2],
            (2, ..) => vec![4, 4, total, total, 2],
            (_, _, 0) => vec![4, 2],
            _ => vec![4, 4],
        }
    }

    fn count(&self, page: u32) -> usize {
        self.half(self.start(page) + 16).min(self.page_size / 6)
    }

    fn records(&self, page: u32) -> Vec<Record> {
        let (n, widths, start) = (self.count(page), self.widths(page), self.start(page));
        let offsets = self.heads(page) + (widths.iter().sum::<usize>() - 2) * n;
        let slots = self.heads(page) + 4 * n;
        let record = |i| match widths[..] {
            [4, 4] => self.aligned_record(slots + 4 * i, start + self.half(slots + 4 * i)),
            [_, _] => self.record(start + self.half(slots + 2 * i), true),
            _ => self.record(start + self.half(offsets + 2 * i), false),
        };
        (0..n).map(record).collect()
    }

    /// The record at `at` of an aligned leaf, whose slot, after the head, is at `slot`.
    fn aligned_record(&self, slot: usize, at: usize) -> Record {
        let bytes = [self.number(slot + 2, 1) as usize, self.number(slot + 3, 1) as usize];
        let mut prefix = 0;
        let [key, code] = bytes.map(|byte| match byte {
            0..0x80 => byte,
            0x80..0xF0 => 128 + 8 * (byte - 0x80),
            0xF0 => {
                prefix += 2;
                self.half(at + prefix - 2)
            }
            _ => 0x7F00 + byte,
        });
        if prefix > 0 && key % 8 == 0 && (code >= FIRST_CODE || code % 8 == 0) {
            prefix = 8;
        }
        let data = at + prefix;
        let (key_cell, key_len) = match key {
            FIRST_CODE.. => (Some(data), 14 + self.half(data + 12)),
            _ => (None, key),
        };
        let behind = (data + key_len).next_multiple_of(2);
        let value_cell = (code == EXTENT).then_some(behind);
        let group = (code == GROUP).then_some(behind);
        Record { at, data, behind, key_cell, value_cell, group, code }
    }

    fn length(&self, at: usize) -> (usize, usize) {
        let first = self.number(at, 1) as usize;
        match first {
            0..0x80 => (first, 1),
            _ => ((first & 0x7F) << 8 | self.number(at + 1, 1) as usize, 2),
        }
    }

    fn record(&self, at: usize, is_leaf: bool) -> Record {
        let (key, a) = self.length(at);
        let (code, b) = self.length(at + a);
        let data = at + a + b;
        let (key_cell, key_len) = match key {
            FIRST_CODE.. => (Some(data), 14 + self.half(data + 12)),
            _ => (None, key),
        };
        let behind = data + key_len;
        let value_cell = (is_leaf && code == EXTENT).then_some(behind);
        let group = (is_leaf && code == GROUP).then_some(behind);
        Record { at, data, behind, key_cell, value_cell, group, code }
    }

    /// The pages of a structure.
    pub fn pages_of(&self, piece: Piece) -> std::ops::Range<u64> {
        match piece {
            Piece::Meta(page) | Piece::Tree(page) => u64::from(page)..u64::from(page) + 1,
            Piece::Extent { cell, .. } => {
                let first = u64::from(self.word(cell));
                let end = self.trailer(cell).map_or(0, |(_, end)| end / self.page_size) as u64;
                first..end
            }
        }
    }

    /// Every number of a structure.
    pub fn fields(&self, piece: Piece) -> Vec<Field> {
        match piece {
            Piece::Meta(slot) => self.meta_fields(slot),
            Piece::Tree(page) => self.page_fields(page),
            Piece::Extent { cell, .. } => self.extent_fields(cell),
        }
    }

    fn meta_fields(&self, slot: u32) -> Vec<Field> {
        let start = self.start(slot);
        let mut fields = Fields::new(start);
        fields.rows(0, &[8, 4, 1, 1, 1, 1, 8, 8, 4, 4, 8, 8, 8, 8, 8, 8, 8]);
        for root in [96, 144, 192] {
            fields.rows(root, &[4, 4, 8, 8, 8, 8, 8]);
        }
        fields.rows(240, &[4, 4, 8]);
        for i in 0..(self.word(start + 240) as usize + 1).min(64) {
            fields.rows(264 + 8 * i, &[4, 4]);
        }
        for i in 0..(self.word(start + 244) as usize + 1).min(138) {
            fields.rows(776 + 24 * i, &[4, 4, 8, 8]);
        }
        fields.all
    }

    fn page_fields(&self, page: u32) -> Vec<Field> {
        let mut fields = Fields::new(self.start(page));
        fields.rows(4, &[1, 1, 1, 1, 8, 2, 2, 2, 2]);
        // The header again: among the many fields of a page it is worth more than its share.
        fields.rows(4, &[1, 1, 1, 1, 8, 2, 2, 2, 2]);
        let (n, mut at) = (self.count(page), self.heads(page));
        for width in self.widths(page) {
            fields.array(at, width, n);
            at += width * n;
        }
        for record in self.records(page) {
            self.record_fields(&record, &mut fields);
        }
        let end = self.start(page) + self.page_size;
        fields.all.retain(|field| field.at + field.width <= end);
        fields.all
    }

    fn record_fields(&self, record: &Record, fields: &mut Fields) {
        fields.array(record.at, 1, record.data - record.at);
        for cell in record.cells() {
            fields.array(cell, 4, 3);
        }
        if let Some(cell) = record.key_cell {
            fields.array(cell + 12, 2, 1);
        }
        if let Some(group) = record.group {
            // Two bytes of zero follow in aligned leaves.
            let (count, shared) = (self.half(group), self.half(group + 2));
            fields.array(group, 2, 4);
            if self.half(group + 4) == 0xFFFF {
                fields.array(group + 6 + shared, 2, count.min(64));
            }
        } else if record.value_cell.is_none() && (4..=196).contains(&record.code) {
            self.value_fields(record, fields);
        }
    }

    /// Values are numbers where they are records of the catalog or of the free-space trees.
    fn value_fields(&self, record: &Record, fields: &mut Fields) {
        match (record.behind - record.data, record.code) {
            (4, 4) => fields.big(record.data, &[4, 4]),
            (12, 20) => fields.big(record.data, &[8, 4, 4, 8, 8]),
            (_, 66..) => {
                let mut at = record.behind;
                for width in [4, 4, 8, 8, 8, 8, 8, 1, 1, 1, 1, 4, 4, 4, 1, 1] {
                    fields.array(at, width, 1);
                    at += width;
                }
            }
            _ => {}
        }
    }

    fn extent_fields(&self, cell: usize) -> Vec<Field> {
        let mut fields = Fields::new(0);
        fields.array(cell, 4, 3);
        if let Some((trailer, end)) = self.trailer(cell) {
            fields.array(trailer, 8, 1);
            fields.array(trailer + 8, 4, (end - trailer - 8) / 4);
            fields.array(self.start(self.word(cell)), 8, 4);
        }
        fields.all
    }

    /// Where the trailer of the extent begins and ends that the cell names, if it is in the file.
    fn trailer(&self, cell: usize) -> Option<(usize, usize)> {
        let (first, len) = (self.start(self.word(cell)), self.word(cell + 4) as usize);
        let mut sums = len.div_ceil(self.page_size);
        loop {
            let end = (len + 8 + 4 * sums).next_multiple_of(self.page_size);
            let trailer = end - 8 - 4 * sums;
            let covered = trailer.div_ceil(self.page_size);
            if covered <= sums {
                let inside = first + end <= self.bytes.len() && self.word(cell) >= META_PAGES;
                return inside.then_some((first + trailer, first + end));
            }
            sums = covered;
        }
    }

    /// Makes the checksums of a structure right, and those of what vouches for it.
    pub fn repair(&mut self, piece: Piece) {
        match piece {
            Piece::Meta(slot) => self.repair_meta(slot),
            Piece::Tree(page) => self.seal(page),
            Piece::Extent { page, cell } => {
                self.repair_extent(cell);
                self.seal(page);
            }
        }
    }

    fn repair_meta(&mut self, slot: u32) {
        let start = self.start(slot);
        let Some(record) = self.bytes.get_mut(start..start + META_LEN) else { return };
        let core = crc32c(u64::from(slot), &record[..256]);
        record[256..260].copy_from_slice(&core.to_le_bytes());
        let rest = crc32c(u64::from(slot) << 32 | u64::from(core), &record[260..4092]);
        record[4092..4096].copy_from_slice(&rest.to_le_bytes());
    }

    /// Makes the checksum of a tree page right.
    pub fn seal(&mut self, page: u32) {
        let (start, size) = (self.start(page), self.page_size);
        let Some(bytes) = self.bytes.get_mut(start..start + size) else { return };
        let sum = crc32c(u64::from(page), &bytes[4..]);
        bytes[..4].copy_from_slice(&sum.to_le_bytes());
    }

    fn repair_extent(&mut self, cell: usize) {
        let Some((trailer, end)) = self.trailer(cell) else { return };
        let first = self.word(cell);
        for i in 0..(end - trailer - 8) / 4 {
            let from = (self.start(first) + i * self.page_size).min(trailer);
            let to = (from + self.page_size).min(trailer);
            let sum = crc32c(u64::from(first) + i as u64, &self.bytes[from..to]);
            self.write(Field { at: trailer + 8 + 4 * i, width: 4, big: false }, u64::from(sum));
        }
        let sum = crc32c(u64::from(first), &self.bytes[trailer..end]);
        self.write(Field { at: cell + 8, width: 4, big: false }, u64::from(sum));
    }

    /// Copies a tree page over another one.
    pub fn copy_page(&mut self, from: u32, to: u32) {
        let (from, to, size) = (self.start(from), self.start(to), self.page_size);
        if from.max(to) + size <= self.bytes.len() {
            self.bytes.copy_within(from..from + size, to);
        }
    }
}

struct Found {
    seen: BTreeSet<u32>,
    pieces: Vec<Piece>,
}

/// Where the parts of a record stand in the file.
struct Record {
    at: usize,
    data: usize,
    behind: usize,
    key_cell: Option<usize>,
    value_cell: Option<usize>,
    group: Option<usize>,
    code: usize,
}

impl Record {
    fn cells(&self) -> impl Iterator<Item = usize> + use<> {
        self.key_cell.into_iter().chain(self.value_cell)
    }
}

/// A list of fields that is made.
struct Fields {
    start: usize,
    all: Vec<Field>,
}

impl Fields {
    fn new(start: usize) -> Self {
        Self { start, all: Vec::new() }
    }

    /// Numbers of these widths, one after the other from `offset` on.
    fn rows(&mut self, offset: usize, widths: &[usize]) {
        let mut at = self.start + offset;
        for width in widths {
            self.array(at, *width, 1);
            at += width;
        }
    }

    /// The same for numbers whose highest byte comes first.
    fn big(&mut self, mut at: usize, widths: &[usize]) {
        for width in widths {
            self.all.push(Field { at, width: *width, big: true });
            at += width;
        }
    }

    /// `n` numbers of one width.
    fn array(&mut self, at: usize, width: usize, n: usize) {
        let field = |i| Field { at: at + i * width, width, big: false };
        self.all.extend((0..n).map(field));
    }
}
