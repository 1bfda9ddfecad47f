//! Writing a data file of LMDB's (0.9, format 1, pages of 4096 bytes) in one pass: every page is
//! written once, its entries come in order. Nothing here knows a store of ours.
//!
//! Pages 0 and 1 say where the trees begin, the newer one counts. A database is a tree; the named
//! ones are records in the main one. A value that does not fit twice into a page has pages of its
//! own. Several values of a key are a page inside of the key's node, or a tree of their own.
//!
//! | module | holds |
//! |---|---|
//! | `page` | nodes and pages as bytes |
//! | `pages` | the file |
//! | `tree` | one tree, from its leaves up |
//! | `table` | one database: what LMDB can hold, and several values of a key |

mod page;
mod pages;
mod table;
#[cfg(test)]
mod tests;
mod tree;

use std::cmp::Ordering;
use std::fs::File;
use std::io;

use page::{META, PAGE_BYTES, header};
use pages::Pages;
pub(crate) use table::{Refused, Table};
use tree::Record;

const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
/// Pages that say where the trees begin.
const METAS: usize = 2;
/// The map is a multiple of this, which is also what LMDB takes if nothing is said.
const MAP_BYTES: u64 = 1 << 20;
/// The free list's flag: its keys are integers.
const INTEGER_KEY: u16 = 0x08;

/// A data file that is being written: named databases first, then the main one.
pub(crate) struct Target {
    pages: Pages,
    /// The named databases that are not in the main one yet, the next one last.
    named: Vec<(Vec<u8>, Record)>,
}

impl Target {
    /// Over an empty file.
    pub(crate) fn new(file: File) -> io::Result<Self> {
        Ok(Self { pages: Pages::new(file, METAS)?, named: Vec::new() })
    }

    /// Adds an entry to a named database, which comes after all of its others.
    pub(crate) fn put(
        &mut self,
        table: &mut Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Refused> {
        table.put(key, value, &mut self.pages)
    }

    /// Ends a named database.
    pub(crate) fn end(&mut self, name: &[u8], table: Table) -> io::Result<()> {
        let record = table.finish(&mut self.pages)?;
        self.named.push((name.to_vec(), record));
        Ok(())
    }

    /// Begins the main database, after the last named one.
    pub(crate) fn begin_main(&mut self, flags: u16) -> Table {
        let main = Table::new(flags);
        self.named.sort_by(|(a, _), (b, _)| main.compare(b, a));
        main
    }

    /// Adds an entry to the main database, and before it the named ones whose names come first.
    pub(crate) fn put_main(
        &mut self,
        main: &mut Table,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), Refused> {
        while let Some((name, record)) = self.named.last() {
            match main.compare(name, key) {
                Ordering::Less => main.put_record(name, record, &mut self.pages)?,
                Ordering::Equal => return Err(Refused::Entry("a table has this name")),
                Ordering::Greater => break,
            }
            self.named.pop();
        }
        main.put(key, value, &mut self.pages)
    }

    /// Ends the main database, and makes the file a data file; it is on stable storage then.
    pub(crate) fn finish(mut self, mut main: Table) -> Result<(), Refused> {
        while let Some((name, record)) = self.named.pop() {
            main.put_record(&name, &record, &mut self.pages)?;
        }
        let record = main.finish(&mut self.pages)?;
        let pages = self.pages.next();
        let old = meta(0, pages, METAS as u64 - 1, &Record::empty(0, 0));
        let new = meta(1, pages, pages - 1, &record);
        Ok(self.pages.finish(&[old, new].concat())?)
    }
}

/// Why LMDB cannot have a database of a name, if so.
pub(crate) fn wrong_name(name: &[u8]) -> Option<&'static str> {
    match name.len() {
        0 => Some("it is empty"),
        bytes if bytes > table::KEY_BYTES_MAX => Some("it has more than 511 bytes"),
        _ if name.contains(&0) => Some("it has a zero byte"),
        _ => None,
    }
}

/// The page of this number with a main database; its number is also that of its commit.
fn meta(number: u64, pages: u64, last: u64, main: &Record) -> Vec<u8> {
    let mut page = header(number, 0, META, (0, 0));
    page.extend_from_slice(&MAGIC.to_le_bytes());
    page.extend_from_slice(&VERSION.to_le_bytes());
    let address = 0_u64;
    let map = (pages * PAGE_BYTES as u64).next_multiple_of(MAP_BYTES);
    [address, map].iter().for_each(|field| page.extend_from_slice(&field.to_le_bytes()));
    let free = Record::empty(INTEGER_KEY, PAGE_BYTES as u32);
    page.extend_from_slice(&free.bytes());
    page.extend_from_slice(&main.bytes());
    [last, number].iter().for_each(|field| page.extend_from_slice(&field.to_le_bytes()));
    page.resize(PAGE_BYTES, 0);
    page
}
