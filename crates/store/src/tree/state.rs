//! What a write transaction changes: pages, free space, the catalog, open tables; and how a
//! savepoint takes all of that back.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use super::catalog::{OpenTable, Opened, Stored};
use super::free::FreeState;
use super::image::Image;
use super::insert::put_plain;
use super::meta::{FreeRun, Meta};
use super::order::Form;
use super::page_ref::PageNo;
use super::pages::{PageFile, Pages, UndoMark, WritePages};
use super::remove::{clear, delete_plain};
use super::tree::{Root, Tree};
use super::{Duplicates, TableOptions, catalog, search};
use crate::{Error, Result};

/// No two savepoints of this process have the same number, so that one of another transaction is
/// known as such.
static NEXT_MARK: AtomicU64 = AtomicU64::new(1);

/// A mark in a write transaction to roll back to. It becomes invalid when it is released or an
/// earlier one is rolled back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    pub(crate) id: u64,
}

/// How to take back a change of an open table.
struct SavedTable {
    index: usize,
    root: Root,
    stored: Stored,
    name: Vec<u8>,
    changed: bool,
    gone: bool,
    saved_in: u32,
}

/// A savepoint that is open.
struct Mark {
    id: u64,
    pages: UndoMark,
    tables: usize,
    catalog: Root,
}

/// What each commit takes over from the one before.
pub(crate) struct Kept {
    pub(crate) id: [u8; 16],
    /// The maximum size of the store; 0: none.
    pub(crate) max_pages: u32,
    /// Whether the transaction has given it another one.
    pub(crate) is_changed: bool,
}

impl Kept {
    /// How many pages, and bytes, a transaction may use that also has its own `max_size`.
    pub(crate) fn limits(&self, file: &PageFile, max_size: Option<u64>) -> (u32, Option<u64>) {
        let page_size = file.page_size() as u64;
        let own = (self.max_pages > 0).then(|| u64::from(self.max_pages) * page_size);
        let max_size = own.into_iter().chain(max_size).min();
        let most = max_size.map_or(u64::MAX, |bytes| bytes / page_size);
        (u64::from(file.max_pages()).min(most) as u32, max_size)
    }
}

/// The state of a write transaction, or of a group of them.
pub(crate) struct WriteState {
    pub(crate) kept: Kept,
    /// The end of the store in the commit that the transaction follows.
    pub(crate) end: PageNo,
    pub(crate) pages: WritePages,
    pub(crate) free: FreeState,
    pub(crate) catalog: Tree,
    pub(crate) tables: Opened,
    saved: Vec<SavedTable>,
    marks: Vec<Mark>,
    /// Memory for records of the catalog.
    record: Vec<u8>,
    /// Memory for the list of free runs in the record of the next commit.
    pub(crate) recent: Vec<FreeRun>,
    /// Memory for the list of pages of the next commit.
    pub(crate) image: Image,
}

impl WriteState {
    /// State that a commit left; a transaction that follows it begins with that of `pages` and
    /// `free`.
    pub(crate) fn new(file: Arc<PageFile>, meta: &Meta) -> Self {
        Self {
            kept: Kept { id: meta.id, max_pages: meta.max_pages, is_changed: false },
            end: meta.end,
            pages: WritePages::new(file),
            free: FreeState::new(meta),
            catalog: Tree::new(meta.catalog, Form::PLAIN),
            tables: Opened::default(),
            saved: Vec::new(),
            marks: Vec::new(),
            record: Vec::new(),
            recent: Vec::new(),
            image: Image::default(),
        }
    }

    /// After a commit: forgets the transaction, and keeps what the next one can begin with if that
    /// follows this very commit: memory, open tables, the list of free runs. False if its memory is
    /// too much to be kept.
    pub(crate) fn rest(&mut self) -> bool {
        match self.pages.space.lowest_first {
            None => self.tables.rest(),
            // For tables that compaction has opened, only the pages are known.
            Some(_) => self.forget_tables(),
        }
        self.kept.is_changed = false;
        self.saved.clear();
        self.marks.clear();
        self.pages.rest()
    }

    /// Closes all tables, none of which is changed.
    pub(crate) fn forget_tables(&mut self) {
        self.tables = Opened::default();
    }

    /// How many bytes of changed pages the file has room for, besides `kept` pages.
    pub(crate) fn room_bytes(&self, kept: u64) -> u64 {
        let pages = self.free.room_pages(&self.pages).saturating_sub(kept);
        pages * self.pages.page_size() as u64
    }

    /// As [`Self::room_bytes`], but no more than `most`: where the end of the store alone has that
    /// much room, free space is not looked at.
    pub(crate) fn room_for(&self, most: u64, kept: u64) -> u64 {
        let page_size = self.pages.page_size() as u64;
        let behind = self.pages.space.max_pages.saturating_sub(self.pages.base.end);
        if u64::from(behind).saturating_sub(kept) * page_size >= most {
            most
        } else {
            self.room_bytes(kept).min(most)
        }
    }

    /// Writes the records of changed tables into the catalog; their roots have page numbers.
    pub(crate) fn store_records(&mut self) -> Result<()> {
        for table in self.tables.iter_mut().filter(|table| table.changed && !table.gone) {
            table.stored.encode_into(&mut self.record, &table.tree.root);
            put_plain(&mut self.pages, &mut self.catalog, &table.name, &self.record)?;
        }
        Ok(())
    }

    /// A table of this transaction, about to be changed.
    #[inline(always)]
    pub(crate) fn change(&mut self, index: usize) -> Result<(&mut WritePages, &mut OpenTable)> {
        let epoch = self.pages.epoch();
        let Some(table) = self.tables.get_mut(index) else { return Err(Error::WrongTransaction) };
        if table.saved_in != epoch && !self.marks.is_empty() {
            self.saved.push(save(index, table));
            table.saved_in = epoch;
        }
        table.changed = true;
        Ok((&mut self.pages, table))
    }

    /// Opens or creates a table.
    pub(crate) fn create_table(&mut self, name: &[u8], options: &TableOptions) -> Result<usize> {
        if let Some(index) = self.tables.find(name) {
            if let Some(table) = self.tables.get(index) {
                table.expect(options)?;
            }
            return Ok(index);
        }
        if let Some(table) = catalog::load(&self.pages, &self.catalog, name, Some(options))? {
            return self.tables.add(table);
        }
        let most = self.pages.page_size() as u32 / 8;
        if let Duplicates::Fixed { size: Some(size), .. } = options.duplicates
            && size > most
        {
            return Err(Error::argument(format!(
                "values of {size} bytes are too long: a table with duplicates takes at most {most}"
            )));
        }
        let table = OpenTable { changed: true, ..OpenTable::create(name, options)? };
        put_plain(&mut self.pages, &mut self.catalog, name, &table.record())?;
        let index = self.tables.add(table)?;
        // Undone, the table was never there.
        if let Some(table) = self.tables.get_mut(index)
            && !self.marks.is_empty()
        {
            let saved = SavedTable { gone: true, ..save(index, table) };
            self.saved.push(saved);
            table.saved_in = self.pages.epoch();
        }
        Ok(index)
    }

    /// Drops a table; false if there is none of that name. Letting pages go compares nothing, so
    /// that the functions of a custom order are not needed.
    pub(crate) fn drop_table(&mut self, name: &[u8]) -> Result<bool> {
        if let Some(index) = self.tables.find(name) {
            let (pages, table) = self.change(index)?;
            clear(pages, &mut table.tree)?;
            table.gone = true;
            table.tail = None;
        } else {
            let Some(root) = catalog::root_of(&self.pages, &self.catalog, name)? else {
                return Ok(false);
            };
            clear(&mut self.pages, &mut Tree::new(root, Form::PLAIN))?;
        }
        delete_plain(&mut self.pages, &mut self.catalog, name)
    }

    /// Gives a table another name; it exists, and the new name is free.
    pub(crate) fn rename_table(&mut self, from: &[u8], to: &[u8]) -> Result<()> {
        let record = match self.tables.find(from) {
            Some(index) => {
                let (_, table) = self.change(index)?;
                table.name = to.to_vec();
                // The root is written at the commit; until then the open table counts.
                let record = table.stored.encode(&Root::EMPTY);
                self.tables.renamed(index);
                record
            }
            None => match search::get(&self.pages, &self.catalog, from)? {
                Some(record) => record.to_vec(),
                None => return Ok(()),
            },
        };
        delete_plain(&mut self.pages, &mut self.catalog, from)?;
        put_plain(&mut self.pages, &mut self.catalog, to, &record)
    }

    /// Opens a savepoint, in O(1).
    pub(crate) fn savepoint(&mut self) -> Savepoint {
        let id = NEXT_MARK.fetch_add(1, Relaxed);
        let pages = self.pages.mark();
        let (tables, catalog) = (self.saved.len(), self.catalog.root);
        self.marks.push(Mark { id, pages, tables, catalog });
        Savepoint { id }
    }

    fn find_mark(&self, savepoint: Savepoint) -> Result<usize> {
        let found = self.marks.iter().rposition(|mark| mark.id == savepoint.id);
        found.ok_or_else(|| {
            let what = "the savepoint was released, rolled back over, or is another transaction's";
            Error::argument(what)
        })
    }

    /// Undoes everything since the savepoint, which stays open; later ones are forgotten.
    pub(crate) fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.find_mark(savepoint)?;
        self.marks.truncate(at + 1);
        let Some(mark) = self.marks.last() else { return Ok(()) };
        self.pages.roll_back(&mark.pages)?;
        self.pages.release_mark(at as u32 + 1, mark.pages.undo)?;
        self.catalog.root = mark.catalog;
        for saved in self.saved.drain(mark.tables..).rev() {
            if let Some(table) = self.tables.get_mut(saved.index) {
                table.tree.root = saved.root;
                table.stored = saved.stored;
                table.name = saved.name;
                table.changed = saved.changed;
                table.gone = saved.gone;
                table.saved_in = saved.saved_in;
                self.tables.renamed(saved.index);
            }
        }
        for table in self.tables.iter_mut() {
            table.tail = None;
        }
        Ok(())
    }

    /// Forgets the savepoint and later ones; the changes stay.
    pub(crate) fn release(&mut self, savepoint: Savepoint) -> Result<()> {
        let at = self.find_mark(savepoint)?;
        let undo = self.marks[at].pages.undo;
        self.marks.truncate(at);
        self.pages.release_mark(at as u32, undo)?;
        if at == 0 {
            self.saved.clear();
        }
        Ok(())
    }

    /// Forgets all savepoints; the changes stay.
    pub(crate) fn release_all(&mut self) -> Result<()> {
        match self.marks.first() {
            Some(first) => self.release(Savepoint { id: first.id }),
            None => Ok(()),
        }
    }
}

#[cold]
fn save(index: usize, table: &OpenTable) -> SavedTable {
    SavedTable {
        index,
        root: table.tree.root,
        stored: table.stored.clone(),
        name: table.name.clone(),
        changed: table.changed,
        gone: table.gone,
        saved_in: table.saved_in,
    }
}
