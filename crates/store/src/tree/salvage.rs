//! Bringing over what is still readable of a damaged store: every entry that can be reached, and
//! the ranges of keys that cannot. The old file is only read; nothing in it is trusted.
//!
//! # Where the tables are found
//!
//! 1. In the catalog of the newest commit whose meta record can be read.
//! 2. If no meta record can be, in the newest catalog that a look at all pages finds (`scan`): each
//!    commit writes the path to the catalog's root anew, so that the greatest birth is the newest.
//! 3. If part of that catalog is damaged or an older one had to be taken, in older copies of its
//!    pages and in later versions of the trees that these name. Both stay in the file until
//!    they are written again; and where not even those name a tree, it comes over under the number
//!    of its root.
//!
//! A page belongs to the tree that leads to it only if it was written before what refers to it, at
//! the level and with the flags that are expected, and if its keys lie between the separators:
//! pages of other times and tables stay out.

mod scan;
mod walk;

use std::path::Path;

use super::catalog::Stored;
use super::meta::Meta;
use super::open::exists;
use super::options::Paths;
use super::order::Form;
use super::page_ref::FIRST_PAGE;
use super::pages::PageFile;
use super::recover::{META_SLOTS, read_metas};
use super::tree::Root;
use super::{Builder, Interrupt, Loss, SalvageReport, Store, WriteTxn};
use crate::Durability;
use crate::os::{Open, RealSystem, System};
use crate::{Error, Result};
use scan::Scan;
use walk::{Target, Walker};

/// A table to bring over.
struct Found {
    name: Vec<u8>,
    root: Root,
    stored: Stored,
    /// The commit that wrote what names its root.
    newest: u64,
}

impl Store {
    /// Copies every entry of the store at `old` that can still be read to a new store at `new`, and
    /// reports what was lost. The old file is never written, and no lock file is made beside it: no
    /// process may write to it at the same time. A table of a custom order keeps the order of its
    /// entries.
    ///
    /// `progress(done_pages, all_pages)` is called from time to time; `interrupt` stops the work.
    ///
    /// # Errors
    /// [`Error::Path`] if there is nothing at `old` or something at `new`, [`Error::NotAStore`] if
    /// no page of `old` is one of a store, [`Error::Interrupted`], [`Error::Io`]. Damage is no
    /// error but stands in the report. After an error nothing is left at `new`.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    /// # drop(hedgerow::tree::Store::create(&old)?);
    /// use hedgerow::tree::{Interrupt, Store};
    /// let report = Store::salvage(&old, &new, &Interrupt::default(), &mut |_, _| {})?;
    /// assert!(report.losses.is_empty());
    /// # Ok(()) }
    /// ```
    pub fn salvage(
        old: impl AsRef<Path>,
        new: impl AsRef<Path>,
        interrupt: &Interrupt,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<SalvageReport> {
        let (old, new) = (Paths::of(old), Paths::of(new));
        if RealSystem.open_data(&new.data, Open::Read, 0).is_ok() {
            return Err(exists(&new));
        }
        Builder::new().check_place(&new)?;
        let (file, metas) = open_old(&old.data, interrupt)?;
        let end = page_count(&file)?;
        let mut walker = Walker::new(&file, end, progress);
        let plan = find_tables(&mut walker, &metas)?;
        let mut builder = Builder::new().page_size(file.page_size() as u32);
        builder.max_size = metas.first().and_then(Meta::max_size);
        let store = builder.durability(Durability::None).create(&new.data)?;
        let rescued = rescue(&store, &mut walker, plan).and_then(|()| store.sync());
        drop(store);
        match rescued {
            Ok(()) => Ok(walker.finish()),
            Err(error) => {
                // The caller gets the error; half a store is of no use.
                for path in [&new.data, &new.lock] {
                    let _ = RealSystem.remove(path);
                }
                Err(error)
            }
        }
    }
}

/// Opens the file for reading, with those of its meta records that can be read, the newest first.
fn open_old(path: &Path, interrupt: &Interrupt) -> Result<(PageFile, Vec<Meta>)> {
    let file = RealSystem.open_data(path, Open::Read, 0).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::Path { path: path.into(), reason: "there is no store here" }
        }
        _ => Error::io("open", path, e),
    })?;
    let mut metas: Vec<Meta> = Vec::new();
    let mut page_size = None;
    match read_metas(&*file, path) {
        Ok(found) => {
            page_size = Some(found.page_size);
            metas.extend(found.metas.into_iter().take(META_SLOTS as usize).flatten());
        }
        Err(error @ (Error::Unsupported { .. } | Error::Io { .. })) => return Err(error),
        Err(_) => {}
    }
    metas.sort_by_key(|meta| std::cmp::Reverse(meta.txn));
    let open = |size| {
        let flag = std::sync::Arc::clone(&interrupt.0);
        PageFile::new(std::sync::Arc::clone(&file), None, size, path.into(), true, flag)
    };
    match page_size {
        Some(size) => Ok((open(size), metas)),
        None => Ok((scan::probe_page_size(&open)?, metas)),
    }
}

/// How many whole pages the file has.
fn page_count(file: &PageFile) -> Result<u32> {
    let len = file.file.len().map_err(|e| Error::io("read the length of", &file.path, e))?;
    let pages = len / file.page_size() as u64;
    Ok(pages.min(u64::from(super::page_ref::PAGE_NO_END)) as u32)
}

/// Finds the tables, in the ways of the head of this file.
fn find_tables(walker: &mut Walker<'_>, metas: &[Meta]) -> Result<Vec<Found>> {
    let mut scan = None;
    let found = newest_catalog(walker, metas, &mut scan)?;
    let before = walker.report.losses.len();
    let mut tables = match found {
        Some((root, newest)) => tables_of(walker, &root, newest)?,
        None => {
            walker.lose(Loss::of_store("no catalog was found"));
            Vec::new()
        }
    };
    // Without meta records nothing says that there was a later commit.
    let last = metas.first().map_or(0, |meta| meta.txn);
    let is_last = found.is_some_and(|(_, newest)| newest >= last);
    if walker.report.losses.len() > before || !is_last {
        let scan = match scan {
            Some(scan) => scan,
            None => Scan::new(walker)?,
        };
        scan.renew(&mut tables, is_last);
        scan.add_older_tables(&mut tables);
        scan.add_nameless_tables(&mut tables);
    }
    Ok(tables)
}

/// The root of the newest catalog, and the commit that it belongs to.
fn newest_catalog(
    walker: &mut Walker<'_>,
    metas: &[Meta],
    scan: &mut Option<Scan>,
) -> Result<Option<(Root, u64)>> {
    // The newest commits may not have reached the disk completely: the first one whose catalog
    // begins with a readable page is taken.
    for meta in metas {
        let root = meta.catalog;
        if root.page.is_none() || walker.is_readable(root.page.0, root.level, meta.txn)? {
            walker.report.commit = Some(meta.txn);
            return Ok(Some((root, meta.txn)));
        }
        let reason = format!("the root of the catalog of commit {} is damaged", meta.txn);
        walker.lose(Loss { page: Some(u64::from(root.page.0)), ..Loss::of_store(&reason) });
    }
    if metas.is_empty() {
        walker.lose(Loss::of_store("none of the three meta records can be read"));
    }
    let found = scan.insert(Scan::new(walker)?);
    Ok(found.newest_catalog())
}

/// The tables of a catalog.
fn tables_of(walker: &mut Walker<'_>, root: &Root, newest: u64) -> Result<Vec<Found>> {
    let mut records: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    walker.tree(b"", root, &Form::PLAIN, newest, &mut |name, record| {
        records.push((name.to_vec(), record.to_vec()));
        Ok(None)
    })?;
    let mut tables = Vec::new();
    for (name, record) in records {
        match Stored::decode(&record) {
            Some((root, stored)) => tables.push(Found { name, root, stored, newest }),
            None => {
                let reason = "its record in the catalog is damaged or of a later version";
                walker.lose(Loss { reason: reason.to_owned(), ..Loss::of_table(&name) });
            }
        }
    }
    Ok(tables)
}

/// Brings the tables over, in one transaction.
fn rescue(store: &Store, walker: &mut Walker<'_>, tables: Vec<Found>) -> Result<()> {
    let mut txn = store.begin_write()?;
    for found in tables {
        rescue_table(&mut txn, walker, &found)?;
    }
    txn.commit()
}

fn rescue_table(txn: &mut WriteTxn, walker: &mut Walker<'_>, found: &Found) -> Result<()> {
    let table = match txn.create_table(&found.name, &found.stored.options_to_walk()) {
        Ok(table) => table,
        Err(error @ (Error::Io { .. } | Error::OutOfMemory)) => return Err(error),
        Err(error) => {
            walker.lose(Loss { reason: error.to_string(), ..Loss::of_table(&found.name) });
            return Ok(());
        }
    };
    walker.report.tables += 1;
    let mut count = 0;
    let mut put: Box<Target<'_>> = Box::new(|key, value| match txn.put(table, key, value) {
        Ok(()) => {
            count += 1;
            Ok(None)
        }
        // Longer than a table takes, or not of its size.
        Err(error @ Error::Size { .. }) => Ok(Some(error.to_string())),
        Err(error) => Err(error),
    });
    walker.tree(&found.name, &found.root, &found.stored.stored_form(), found.newest, &mut put)?;
    drop(put);
    walker.report.entries += count;
    Ok(())
}

/// Pages of trees begin here.
const _: () = assert!(FIRST_PAGE == META_SLOTS);

#[cfg(test)]
mod tests;
