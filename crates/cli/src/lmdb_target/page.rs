//! Pages of LMDB as bytes.

/// The length of a page.
pub(super) const PAGE_BYTES: usize = 4096;
/// The length of what each page begins with.
pub(super) const HEADER_BYTES: usize = 16;
/// The length of what each node begins with.
const NODE_BYTES: usize = 8;
/// A leaf or branch says of each node where it stands.
const POINTER_BYTES: usize = 2;
/// A longer node has its value in pages of its own: two of this length fit into a page.
const NODE_BYTES_MAX: usize = (PAGE_BYTES - HEADER_BYTES) / 2 - POINTER_BYTES;

/// What a page is.
pub(super) const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
pub(super) const OVERFLOW: u16 = 0x04;
pub(super) const META: u16 = 0x08;
/// LMDB changes only pages that have it; of those in a file only pages inside of a node have it.
const DIRTY: u16 = 0x10;
/// Values of one size stand side by side, without nodes.
const FIXED: u16 = 0x20;
/// A page inside of a node.
const INNER: u16 = 0x40;

/// What a node of a leaf has instead of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Nothing: a value.
    Value = 0,
    /// The number of the first page of its value.
    Long = 0x01,
    /// The record of a named database.
    Record = 0x02,
    /// A page with the values of its key.
    Inner = 0x04,
    /// The record of a database with the values of its key.
    Values = 0x06,
}

/// What a page begins with; `room` is where its free space begins and ends.
pub(super) fn header(number: u64, pad: u16, kind: u16, room: (u16, u16)) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    for field in [pad, kind, room.0, room.1] {
        bytes.extend_from_slice(&field.to_le_bytes());
    }
    bytes
}

/// Whether the value of a key has pages of its own.
pub(super) fn is_long(key: &[u8], value: &[u8]) -> bool {
    NODE_BYTES + key.len() + value.len() > NODE_BYTES_MAX
}

/// How many bytes a node takes, with what points at it.
pub(super) fn node_bytes(key: usize, data: usize) -> usize {
    (NODE_BYTES + key + data).next_multiple_of(2) + POINTER_BYTES
}

/// Nodes, or values of one size, in their order: what a page will have.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    bytes: Vec<u8>,
    starts: Vec<usize>,
    /// Where the pages inside of nodes begin.
    inner: Vec<usize>,
    /// The size of the values, if they have one and stand side by side.
    size: Option<usize>,
}

impl Nodes {
    /// Of values of one size, or of nodes.
    pub(super) fn new(size: Option<usize>) -> Self {
        Self { size, ..Self::default() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.size.map_or(self.starts.len(), |size| self.bytes.len() / size)
    }

    /// The size of its values, if they stand side by side.
    pub(super) fn size(&self) -> Option<usize> {
        self.size
    }

    /// How long a page is that has them and nothing else.
    fn page_bytes(&self) -> usize {
        HEADER_BYTES + self.bytes.len() + POINTER_BYTES * self.starts.len()
    }

    /// Whether a page can have another one.
    pub(super) fn fits(&self, key: usize, data: usize) -> bool {
        self.page_bytes() + self.size.unwrap_or_else(|| node_bytes(key, data)) <= PAGE_BYTES
    }

    /// Whether a page inside of the node of a key can have another value.
    pub(super) fn fits_inside(&self, key: &[u8], value: &[u8]) -> bool {
        let more = self.size.unwrap_or_else(|| node_bytes(value.len(), 0));
        NODE_BYTES + key.len() + self.page_bytes() + more <= NODE_BYTES_MAX
    }

    /// Adds a node of a leaf; `bytes` is the length of its value, wherever that is.
    pub(super) fn add(&mut self, key: &[u8], kind: Kind, bytes: u32, data: &[u8]) {
        if self.size.is_some() {
            self.bytes.extend_from_slice(key);
            return;
        }
        if kind == Kind::Inner {
            self.inner.push(self.bytes.len() + NODE_BYTES + key.len());
        }
        self.add_node([bytes as u16, (bytes >> 16) as u16, kind as u16], key, data);
    }

    /// Adds a node of a branch.
    pub(super) fn add_child(&mut self, key: &[u8], page: u64) {
        self.add_node([page as u16, (page >> 16) as u16, (page >> 32) as u16], key, &[]);
    }

    fn add_node(&mut self, fields: [u16; 3], key: &[u8], data: &[u8]) {
        self.starts.push(self.bytes.len());
        for field in fields.into_iter().chain([key.len() as u16]) {
            self.bytes.extend_from_slice(&field.to_le_bytes());
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(data);
        self.bytes.resize(self.bytes.len().next_multiple_of(2), 0);
    }

    /// The page of a leaf.
    pub(super) fn leaf(&mut self, number: u64) -> Vec<u8> {
        for &inner in &self.inner {
            self.bytes[inner..inner + size_of::<u64>()].copy_from_slice(&number.to_le_bytes());
        }
        self.page(number, LEAF, PAGE_BYTES)
    }

    /// The page of a branch.
    pub(super) fn branch(&self, number: u64) -> Vec<u8> {
        self.page(number, BRANCH, PAGE_BYTES)
    }

    /// The page inside of a node; it has the number of the one around it, which comes later.
    pub(super) fn inner(&self) -> Vec<u8> {
        self.page(0, LEAF | DIRTY | INNER, self.page_bytes())
    }

    fn page(&self, number: u64, kind: u16, bytes: usize) -> Vec<u8> {
        let count = self.len();
        let lower = HEADER_BYTES + POINTER_BYTES * count;
        let Some(size) = self.size else {
            let upper = bytes - self.bytes.len();
            let mut page = header(number, 0, kind, (lower as u16, upper as u16));
            for start in &self.starts {
                page.extend_from_slice(&((upper + start) as u16).to_le_bytes());
            }
            page.resize(upper, 0);
            page.extend_from_slice(&self.bytes);
            return page;
        };
        // As if there were a pointer for each: LMDB counts by them.
        let upper = bytes + POINTER_BYTES * count - self.bytes.len();
        let room = (lower as u16, upper as u16);
        let mut page = header(number, size as u16, kind | FIXED, room);
        page.extend_from_slice(&self.bytes);
        page.resize(bytes, 0);
        page
    }
}
