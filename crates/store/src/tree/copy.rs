//! Copies of a store while it is in use: page by page, or filled anew (`load`).
//!
//! A copy is written under an unguessable name, flushed, and then given the name that was asked
//! for: a file under that name is always complete.

mod load;

use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::check::{self, PageSet};
use super::free::{pending_runs, ready_entry};
use super::meta::{FreeRun, Meta};
use super::open::{exists, meta_pages, store_id, write_metas};
use super::order::Form;
use super::page::is_sealed;
use super::page_ref::{FIRST_PAGE, PageNo, Run};
use super::pages::PageFile;
use super::search::{for_each_page, scan_plain};
use super::snapshot::sealed::Sealed;
use super::tree::{Root, Tree};
use super::{Builder, CopyOptions, ReadTxn, Store, catalog};
use crate::os::{Open, System};
use crate::{Error, Result};
use load::{Sink, load_catalog, load_table};

/// How much is read and written at a time.
const PIECE_BYTES: usize = 1 << 20;

impl Store {
    /// Copies the newest commit to a new store at `path`, while others read and write. The copy is
    /// on stable storage, under its name, when this returns; if it fails there is no trace of it.
    ///
    /// A plain copy holds the same pages in the same places; its free pages are holes of the file.
    /// Commits that only pins keep are not copied, nor are the pins.
    /// A compact one is filled anew, table by table in order, with full pages and without free
    /// ones.
    ///
    /// `progress(done_bytes, all_bytes)` is called from time to time.
    ///
    /// # Errors
    /// [`Error::Path`] if something is there already, [`Error::Io`], [`Error::Interrupted`],
    /// [`Error::Corrupt`] for a damaged page: each one's checksum is looked at.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// use hedgerow::tree::CopyOptions;
    /// let backup = folder.path().join("backup");
    /// store.copy_to(&backup, CopyOptions { compact: true }, &mut |_, _| {})?;
    /// # assert!(backup.exists());
    /// # Ok(()) }
    /// ```
    pub fn copy_to(
        &self,
        path: impl AsRef<Path>,
        options: CopyOptions,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let txn = self.begin_read()?;
        let target = Target::create(&self.inner.options, path.as_ref(), &self.inner.pages)?;
        let meta = if options.compact {
            load(&txn, &target.file, progress)?
        } else {
            let is_sound = copy_pages(&txn, &target.file, progress)?;
            check_copied(&txn, is_sound)?;
            plain_meta(&txn)?
        };
        target.finish(meta)
    }

    /// As [`Store::copy_to`], a plain copy, except that damaged pages are copied as they are.
    ///
    /// # Errors
    /// As [`Store::copy_to`]; [`Error::Corrupt`] only where what is free cannot be read.
    pub fn copy_even_damaged(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<()> {
        let txn = self.begin_read()?;
        let target = Target::create(&self.inner.options, path.as_ref(), &self.inner.pages)?;
        copy_pages(&txn, &target.file, progress)?;
        target.finish(plain_meta(&txn)?)
    }

    /// Writes a plain copy of the newest commit from front to back, while others read and write:
    /// into a pipe, for instance. Its free pages are zeros.
    ///
    /// # Errors
    /// [`Error::Io`] if writing fails, [`Error::Interrupted`], [`Error::Corrupt`] for a damaged
    /// page, which is reported at the end.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let store = hedgerow::tree::Store::create(folder.path().join("store"))?;
    /// let mut bytes = Vec::new();
    /// store.copy_into(&mut bytes)?;
    /// # std::fs::write(folder.path().join("copy"), &bytes).unwrap();
    /// # assert!(hedgerow::tree::Store::open(folder.path().join("copy")).is_ok());
    /// # Ok(()) }
    /// ```
    pub fn copy_into(&self, out: &mut dyn Write) -> Result<()> {
        let txn = self.begin_read()?;
        let meta = plain_meta(&txn)?;
        let (source, len) = (&txn.pages.file, meta.file_len());
        let mut stream = Stream { out, source, written: 0 };
        let (free, end) = (free_pages(&txn)?, meta.end);
        stream.write(&meta_pages(meta))?;
        let is_sound = copy_runs(source, &free, end, &mut |start, bytes| {
            stream.write_zeros_to(u64::from(start) * source.page_size() as u64)?;
            stream.write(bytes)
        })?;
        stream.write_zeros_to(len)?;
        check_copied(&txn, is_sound)
    }
}

/// A copy that is written from front to back.
struct Stream<'c> {
    out: &'c mut dyn Write,
    source: &'c PageFile,
    written: u64,
}

impl Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.source.interrupted()?;
        self.written += bytes.len() as u64;
        let written = self.out.write_all(bytes);
        written.map_err(|e| Error::io("write a copy of", &self.source.path, e))
    }

    fn write_zeros_to(&mut self, end: u64) -> Result<()> {
        let zeros = [0; 4096];
        while self.written < end {
            let len = (end - self.written).min(zeros.len() as u64);
            self.write(&zeros[..len as usize])?;
        }
        Ok(())
    }
}

/// The file of a copy under its temporary name. Dropped unfinished it is removed.
struct Target {
    system: Arc<dyn System>,
    file: PageFile,
    wanted: PathBuf,
    is_finished: bool,
}

impl Target {
    fn create(options: &Builder, path: &Path, source: &PageFile) -> Result<Self> {
        let options = &options.for_copies();
        let paths = options.paths(path);
        options.check_place(&paths)?;
        let system = options.system_in_use();
        if system.open_data(&paths.data, Open::Read, options.file_mode.bits).is_ok() {
            return Err(exists(&paths));
        }
        let secret: String = store_id(&*system).iter().map(|byte| format!("{byte:02x}")).collect();
        let mut name = paths.data.clone().into_os_string();
        name.push(format!(".{secret}.part"));
        let temporary = PathBuf::from(name);
        let file = system.open_data(&temporary, Open::Create, options.file_mode.bits);
        let file = file.map_err(|e| Error::io("create", &temporary, e))?;
        // Never mapped: it is written and forgotten.
        let page_size = source.page_size() as u32;
        let interrupt = Arc::clone(&source.interrupt);
        let file = PageFile::new(file, None, page_size, temporary, true, interrupt);
        Ok(Self { system, file, wanted: paths.data, is_finished: false })
    }

    /// Writes the meta pages, and gives the file its name when everything is on stable storage.
    fn finish(mut self, meta: Meta) -> Result<()> {
        let (file, path) = (&self.file.file, &self.file.path);
        let io = |doing| move |e| Error::io(doing, path, e);
        let needed = meta.file_len();
        if file.len().map_err(io("read the length of"))? < needed {
            file.set_len(needed).map_err(io("extend"))?;
        }
        write_metas(&**file, meta).map_err(io("write the meta pages of"))?;
        file.sync().map_err(io("flush"))?;
        self.file.interrupted()?;
        self.give_name()?;
        self.is_finished = true;
        let synced = self.system.sync_directory(&self.wanted);
        synced.map_err(|e| Error::io("flush the folder of", &self.wanted, e))
    }

    /// Gives the file its name. A file that was put there meanwhile is not replaced: a link is
    /// never made over another file. The file is renamed only where the file system has no links.
    fn give_name(&self) -> Result<()> {
        let (system, temporary) = (&self.system, &self.file.path);
        let is_there = match system.link(temporary, &self.wanted) {
            Ok(()) => {
                // The copy is there. If its first name stays, that does no harm.
                let _ = system.remove(temporary);
                return Ok(());
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => true,
            Err(_) => system.open_data(&self.wanted, Open::Read, 0).is_ok(),
        };
        if is_there {
            return Err(Error::Path {
                path: self.wanted.clone(),
                reason: "something was put here while the copy was made; choose another path",
            });
        }
        let renamed = system.rename(temporary, &self.wanted);
        renamed.map_err(|e| Error::io("rename", temporary, e))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_finished {
            // The caller gets the failure that led here.
            let _ = self.system.remove(&self.file.path);
        }
    }
}

/// The record of a plain copy's commit.
fn plain_meta(txn: &ReadTxn) -> Result<Meta> {
    let mut meta = txn.meta.meta.without_log();
    let root = std::mem::replace(&mut meta.free.pins, Root::EMPTY);
    if !root.page.is_none() {
        // What only pinned commits use is not copied, and so the copy has no pins.
        for_each_page(&txn.pages, root.page, root.level, &mut |at, _| {
            let run = Run { start: at.0, len: 1 };
            meta.recent.push(FreeRun { run, birth: 0, freed: 0 });
            Ok(())
        })?;
    }
    Ok(meta)
}

/// An error if the copied pages are damaged. If each of them has the checksum of a tree page, they
/// are sound. Pages of long values have no checksum of their own, so that then all trees are walked
/// to check them.
fn check_copied(txn: &ReadTxn, is_sound: bool) -> Result<()> {
    if is_sound { Ok(()) } else { check::expect_sound(txn) }
}

/// Copies all pages that are not free. Returns whether each has a checksum that is right.
fn copy_pages(
    txn: &ReadTxn,
    target: &PageFile,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<bool> {
    let meta = &txn.meta.meta;
    let source = &txn.pages.file;
    let page_size = source.page_size();
    let free = free_pages(txn)?;
    let used = (FIRST_PAGE..meta.end).filter(|no| !free.contains(*no)).count();
    let all = used as u64 * page_size as u64;
    let mut done = 0;
    copy_runs(source, &free, meta.end, &mut |start, bytes| {
        write_run(target, start, bytes)?;
        done += bytes.len() as u64;
        progress(done, all);
        Ok(())
    })
}

/// Reads all pages that are not free, and gives them to `write` in order, many at a time. Returns
/// whether each has a checksum that is right.
fn copy_runs(
    source: &PageFile,
    free: &PageSet,
    end: PageNo,
    write: &mut dyn FnMut(PageNo, &[u8]) -> Result<()>,
) -> Result<bool> {
    let mut is_sound = true;
    let most = (PIECE_BYTES / source.page_size()) as u32;
    let mut piece = vec![0; PIECE_BYTES];
    let mut next = FIRST_PAGE;
    while let Some(run) = next_run(free, next, end, most) {
        source.interrupted()?;
        let bytes = &mut piece[..run.len as usize * source.page_size()];
        source.read_run(run, bytes)?;
        let mut pages = bytes.chunks_exact(source.page_size()).zip(run.start..);
        is_sound = is_sound && pages.all(|(page, no)| is_sealed(page, no));
        write(run.start, bytes)?;
        next = run.start + run.len;
    }
    Ok(is_sound)
}

fn write_run(target: &PageFile, start: PageNo, bytes: &[u8]) -> Result<()> {
    let offset = u64::from(start) * target.page_size() as u64;
    let written = target.file.write_at(&[std::io::IoSlice::new(bytes)], offset);
    written.map_err(|e| Error::io("write pages to", &target.path, e))
}

/// The next pages from `from` on that are not free, at most `most`.
fn next_run(free: &PageSet, from: PageNo, end: PageNo, most: u32) -> Option<Run> {
    let start = (from..end).find(|no| !free.contains(*no))?;
    let len = (start..end).take(most as usize).take_while(|no| !free.contains(*no)).count() as u32;
    Some(Run { start, len })
}

/// Reads an entry of a free-space tree; `None` if no store wrote it.
type RunsOf = fn(&[u8], &[u8]) -> Option<Vec<Run>>;

/// The pages that are free in a snapshot: they may be written while it is copied, and may lie
/// beyond the end of the file.
fn free_pages(txn: &ReadTxn) -> Result<PageSet> {
    let meta = &txn.meta.meta;
    let mut free = PageSet::new(meta.end);
    for recent in &meta.recent {
        free.insert_run(recent.run);
    }
    // A copy has no log.
    meta.log.map(|place| free.insert_run(place.run));
    let mut note = |root: &Root, runs_of: RunsOf| {
        let mut is_whole = true;
        scan_plain(&txn.pages, &Tree::new(*root, Form::PLAIN), &[], &mut |key, value| {
            let mut is_free =
                |run: &Run| run.start + run.len <= meta.end && free.insert_run(*run).is_none();
            is_whole = runs_of(key, value).is_some_and(|runs| runs.iter().all(&mut is_free));
            is_whole
        })?;
        let damaged = "an entry of the free-space trees that no store wrote";
        if is_whole { Ok(()) } else { Err(txn.pages.file.corrupt(root.page.0, damaged)) }
    };
    note(&meta.ready, |key, value| ready_entry(key, value).map(|run| vec![run]))?;
    note(&meta.pending, pending_runs)?;
    Ok(free)
}

/// Fills a new store with all tables. Returns the record of its commit.
fn load(txn: &ReadTxn, target: &PageFile, progress: &mut dyn FnMut(u64, u64)) -> Result<Meta> {
    let mut tables = Vec::new();
    catalog::for_each(&txn.pages, &txn.catalog(), |name, root, stored| {
        tables.push((name.to_vec(), root, stored.clone()));
    })?;
    let pages = |root: &Root| root.leaf_pages.saturating_add(root.overflow_pages);
    let all = tables.iter().fold(0, |sum: u64, (_, root, _)| sum.saturating_add(pages(root)));
    let page_size = target.page_size();
    let mut done = 0;
    let mut told = |pages: u64| {
        done += pages;
        let bytes = |pages: u64| pages.saturating_mul(page_size as u64);
        progress(bytes(done.min(all)), bytes(all));
    };
    let mut sink = Sink::new(target);
    let mut records = Vec::with_capacity(tables.len());
    for (name, root, stored) in tables {
        let tree = Tree::new(root, stored.stored_form());
        let root = load_table(&txn.pages, &tree, &mut sink, &mut told)?;
        records.push((name, stored.encode(&root)));
    }
    let catalog = load_catalog(&txn.pages, &records, &mut sink)?;
    let empty = Meta::empty(page_size as u32, store_id(&*txn.store.options.system_in_use()));
    let max_pages = txn.meta.meta.max_pages;
    Ok(Meta { txn: load::COMMIT, end: sink.finish()?, max_pages, catalog, ..empty })
}

#[cfg(test)]
mod tests;
