//! A database of LMDB's that is being written: entries come in its order.

use std::cmp::Ordering;
use std::io;

use super::page::{Kind, Nodes};
use super::pages::Pages;
use super::tree::{Record, Tree};

/// LMDB's flags of databases.
const REVERSE_KEY: u16 = 0x02;
const DUP_SORT: u16 = 0x04;
const INTEGER_KEY: u16 = 0x08;
const DUP_FIXED: u16 = 0x10;
const INTEGER_DUP: u16 = 0x20;
const REVERSE_DUP: u16 = 0x40;

/// The longest key, and the longest value of a database with duplicates.
pub(super) const KEY_BYTES_MAX: usize = 511;

/// Why an entry is not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The system refused.
    Io(io::Error),
    /// LMDB cannot hold it.
    Entry(&'static str),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// An order of LMDB's.
#[derive(Clone, Copy)]
enum Order {
    Bytewise,
    Reverse,
    /// Native integers.
    Integer,
    /// By the integer of 4 bytes that each begins with.
    Leading,
}

impl Order {
    fn of_keys(flags: u16) -> Self {
        match flags {
            flags if flags & REVERSE_KEY != 0 => Self::Reverse,
            flags if flags & INTEGER_KEY != 0 => Self::Integer,
            _ => Self::Bytewise,
        }
    }

    fn of_values(flags: u16, bytes: usize) -> Self {
        let has = |flag| flags & flag != 0;
        if has(INTEGER_DUP) {
            // Values of other sizes that all have one: LMDB looks at what they begin with.
            let is_led = has(DUP_FIXED) && bytes > 4 && bytes != 8;
            return if is_led { Self::Leading } else { Self::Integer };
        }
        if has(REVERSE_DUP) { Self::Reverse } else { Self::Bytewise }
    }

    fn compare(self, a: &[u8], b: &[u8]) -> Ordering {
        match self {
            Self::Bytewise => a.cmp(b),
            // The file is of a machine whose integers have their first byte last.
            Self::Reverse | Self::Integer => a.iter().rev().cmp(b.iter().rev()),
            Self::Leading => Self::Integer.compare(&a[..4], &b[..4]),
        }
    }
}

/// The values of one key.
struct Group {
    key: Vec<u8>,
    last: Vec<u8>,
    /// The values while they fit into a node.
    inside: Nodes,
    first: Vec<u8>,
    /// All values, if they do not.
    tree: Option<Tree>,
    count: u64,
}

/// The database.
pub(crate) struct Table {
    flags: u16,
    tree: Tree,
    last: Option<Vec<u8>>,
    group: Option<Group>,
}

impl Table {
    /// An empty one with these flags of LMDB's.
    pub(crate) fn new(flags: u16) -> Self {
        Self { flags, tree: Tree::new(flags, None), last: None, group: None }
    }

    /// Compares two keys.
    pub(super) fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        Order::of_keys(self.flags).compare(a, b)
    }

    /// Adds an entry, which comes after all others.
    pub(super) fn put(
        &mut self,
        key: &[u8],
        value: &[u8],
        pages: &mut Pages,
    ) -> Result<(), Refused> {
        let has_duplicates = self.flags & DUP_SORT != 0;
        self.check(key, value)?;
        if has_duplicates && self.last.as_deref() == Some(key) {
            return self.put_value(value, pages);
        }
        self.end_group(pages)?;
        self.next_key(key)?;
        if !has_duplicates {
            return Ok(self.tree.put(key, value, pages)?);
        }
        let size = (self.flags & DUP_FIXED != 0).then_some(value.len());
        let mut inside = Nodes::new(size.filter(|&size| size > 0));
        inside.add(value, Kind::Value, 0, &[]);
        let (last, first) = (value.to_vec(), value.to_vec());
        self.group = Some(Group { key: key.to_vec(), last, inside, first, tree: None, count: 1 });
        Ok(())
    }

    /// Adds the record of a named database, whose name comes after all keys.
    pub(super) fn put_record(
        &mut self,
        name: &[u8],
        record: &Record,
        pages: &mut Pages,
    ) -> Result<(), Refused> {
        self.end_group(pages)?;
        self.next_key(name)?;
        let record = record.bytes();
        let node = (Kind::Record, record.len() as u32, &*record);
        Ok(self.tree.put_node(name, node, 1, pages)?)
    }

    /// Whether LMDB can hold the entry, whatever stands before it.
    fn check(&self, key: &[u8], value: &[u8]) -> Result<(), Refused> {
        let has = |flag| self.flags & flag != 0;
        let wrong = if key.is_empty() {
            "it is empty"
        } else if key.len() > KEY_BYTES_MAX {
            "it has more than 511 bytes"
        } else if has(INTEGER_KEY) && ![4, 8].contains(&key.len()) {
            "it is no integer of 4 or 8 bytes"
        } else if has(DUP_SORT) && value.len() > KEY_BYTES_MAX {
            "it may have several values, and one has more than 511 bytes"
        } else if u32::try_from(value.len()).is_err() {
            "its value has 4 GiB or more"
        } else {
            return Ok(());
        };
        Err(Refused::Entry(wrong))
    }

    fn next_key(&mut self, key: &[u8]) -> Result<(), Refused> {
        if let Some(last) = &self.last {
            if self.flags & INTEGER_KEY != 0 && last.len() != key.len() {
                return Err(Refused::Entry("it has another size than the integers before it"));
            }
            if !Order::of_keys(self.flags).compare(last, key).is_lt() {
                return Err(Refused::Entry("it does not come after the one before it"));
            }
        }
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
        Ok(())
    }

    /// Adds a value of the last key.
    fn put_value(&mut self, value: &[u8], pages: &mut Pages) -> Result<(), Refused> {
        let flags = self.flags;
        let Some(group) = &mut self.group else { return Ok(()) };
        let (is_fixed, bytes) = (flags & DUP_FIXED != 0, group.last.len());
        if bytes == 0 || value.is_empty() {
            return Err(Refused::Entry("of its values one is empty"));
        }
        if (is_fixed || flags & INTEGER_DUP != 0) && value.len() != bytes {
            return Err(Refused::Entry("its values have several sizes"));
        }
        if !Order::of_values(flags, bytes).compare(&group.last, value).is_lt() {
            return Err(Refused::Entry("its values are not in their order"));
        }
        group.last.clear();
        group.last.extend_from_slice(value);
        group.count += 1;
        if let Some(tree) = &mut group.tree {
            return Ok(tree.put_node(value, (Kind::Value, 0, &[]), 1, pages)?);
        }
        if group.inside.fits_inside(&group.key, value) {
            group.inside.add(value, Kind::Value, 0, &[]);
            return Ok(());
        }
        let integers = if flags & INTEGER_DUP != 0 { INTEGER_KEY } else { 0 };
        let (own, size) = if is_fixed { (DUP_FIXED | integers, Some(bytes)) } else { (0, None) };
        let leaf = std::mem::take(&mut group.inside);
        let tree = group.tree.insert(Tree::begun(own, size, leaf, &group.first));
        Ok(tree.put_node(value, (Kind::Value, 0, &[]), 1, pages)?)
    }

    /// Ends the values of the last key.
    fn end_group(&mut self, pages: &mut Pages) -> io::Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let (kind, data) = match group.tree {
            Some(tree) => (Kind::Values, tree.finish(pages)?.bytes()),
            None if group.count == 1 => (Kind::Value, group.first),
            None => (Kind::Inner, group.inside.inner()),
        };
        let node = (kind, data.len() as u32, &*data);
        self.tree.put_node(&group.key, node, group.count, pages)
    }

    /// Writes what is left; what LMDB has to know of it.
    pub(super) fn finish(mut self, pages: &mut Pages) -> io::Result<Record> {
        self.end_group(pages)?;
        self.tree.finish(pages)
    }
}
