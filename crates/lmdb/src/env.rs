//! Environments: settings before and after opening, which file is meant, and information about
//! them.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use hedgerow::Durability;
use hedgerow::tree::{CopyOptions, Interrupt, Store, WriteTxn};
use hedgerow::{Error, Result};

use crate::abi::*;
use crate::arena::{Arena, Chunk};
use crate::code::{Answer, Code, code_of};
use crate::handles::SharedHandles;
use crate::readers::Readers;
use crate::txn::shown_id;

/// Flags that may be changed while the environment is open.
const CHANGEABLE: u32 = MDB_NOSYNC | MDB_NOMETASYNC | MDB_MAPASYNC | MDB_NOMEMINIT;
/// Flags that are settled by opening.
const CHANGELESS: u32 = MDB_FIXEDMAP
    | MDB_NOSUBDIR
    | MDB_RDONLY
    | MDB_WRITEMAP
    | MDB_NOTLS
    | MDB_NOLOCK
    | MDB_NORDAHEAD;
/// What the store reserves from puts when the file is full: this many bytes, but no more than this
/// part.
const KEPT_BYTES: u64 = 16 * 4096;
const KEPT_PART: u64 = 32;
/// What LMDB reports for an environment without a map size.
const DEFAULT_MAPSIZE: usize = 1 << 20;
/// How many times what is used is reported as map size where there is none, up to this much more.
const ROOM: u64 = 16;
const ROOM_MAX: u64 = 1 << 40;
const DEFAULT_READERS: u32 = 126;
/// See [`Env::flushes_rest`].
const FLUSHES_REST: u32 = 16;
/// Longer values are handed out by address without being read as a whole first.
const VERIFIED_MAX: u64 = 1 << 20;

/// `MDB_env`.
pub(crate) struct Env {
    pub(crate) flags: AtomicU32,
    /// 0: this one's program set none, and that of others counts, if they did.
    map_size: AtomicUsize,
    max_readers: AtomicU32,
    max_dbs: AtomicU32,
    user_context: AtomicPtr<c_void>,
    /// As the program gave it, and without a link or a folder that is left out.
    paths: OnceLock<(CString, PathBuf)>,
    pub(crate) open: OnceLock<Opened>,
    pub(crate) handles: SharedHandles,
    /// `mdb_env_close` was called.
    is_closed: AtomicBool,
    /// Whether a write transaction of this environment is open.
    pub(crate) is_writing: AtomicBool,
    /// How many transactions are still to begin before another flush is tried for free pages, since
    /// the last one did not help.
    flushes_rest: AtomicU32,
    /// The memory of the newest strings that the last ended transaction had copied.
    handed_out: Mutex<Option<Chunk>>,
}

/// What an open environment has.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) interrupt: Interrupt,
    pub(crate) readers: Arc<Readers>,
    /// In a child process: the same file, opened anew after the fork.
    in_child: OnceLock<Box<Opened>>,
}

impl Opened {
    fn new(store: Store) -> Self {
        let interrupt = store.interrupt();
        Self { store, interrupt, readers: Arc::default(), in_child: OnceLock::new() }
    }

    /// The newest opening: that of this process, or until there is one, its parent's.
    pub(crate) fn newest(&self) -> &Self {
        self.in_child.get().map_or(self, |opened| opened.newest())
    }
}

impl Env {
    /// Not open yet.
    pub(crate) fn new() -> Self {
        Self {
            flags: AtomicU32::new(0),
            map_size: AtomicUsize::new(0),
            max_readers: AtomicU32::new(DEFAULT_READERS),
            max_dbs: AtomicU32::new(0),
            user_context: AtomicPtr::new(std::ptr::null_mut()),
            paths: OnceLock::new(),
            open: OnceLock::new(),
            handles: SharedHandles::new(),
            is_closed: AtomicBool::new(false),
            is_writing: AtomicBool::new(false),
            flushes_rest: AtomicU32::new(0),
            handed_out: Mutex::new(None),
        }
    }

    /// The flags it has now.
    pub(crate) fn flags(&self) -> u32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// The flags that a caller may see.
    pub(crate) fn visible_flags(&self) -> u32 {
        self.flags() & (CHANGEABLE | CHANGELESS)
    }

    /// What it has since it was opened.
    pub(crate) fn opened(&self) -> Answer<&Opened> {
        let newest = self.open.get().ok_or(libc::EINVAL)?.newest();
        match newest.store.is_of_this_process() {
            true => Ok(newest),
            false => self.open_in_child(newest),
        }
    }

    /// After a fork the parent's locks are not the child's: it opens the file for itself.
    #[cold]
    fn open_in_child<'e>(&self, parents: &'e Opened) -> Answer<&'e Opened> {
        let (_, data) = self.paths.get().ok_or(libc::EINVAL)?;
        let store = open_store(data, self.flags(), 0).map_err(|e| code_of(&e))?;
        let opened = parents.in_child.get_or_init(|| Box::new(Opened::new(store)));
        opened.interrupt.set(parents.interrupt.is_set());
        self.is_writing.store(false, Ordering::Release);
        self.share_map_size();
        Ok(opened)
    }

    /// Keeps what a transaction handed out last until the next one with such strings has ended:
    /// some programs end a transaction and then read the key that it gave, which with LMDB stands
    /// in the map.
    pub(crate) fn keep_newest(&self, arena: &mut Arena) {
        if let Some(chunk) = arena.take_newest() {
            let mut kept = self.handed_out.lock().unwrap_or_else(PoisonError::into_inner);
            let before = kept.replace(chunk);
            drop(kept);
            drop(before);
        }
    }

    /// No transaction begins any more, and those that wait to be begun again are freed.
    pub(crate) fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
        let mut next = self.open.get();
        while let Some(opened) = next {
            opened.readers.clear();
            next = opened.in_child.get().map(|opened| &**opened);
        }
    }

    /// Whether it was closed, and is kept for the sake of a transaction that has not ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    /// How many handles there may be.
    pub(crate) fn handles_max(&self) -> usize {
        self.max_dbs.load(Ordering::Relaxed) as usize + CORE_DBS
    }

    /// Whether each read transaction has a slot of its own, instead of each thread.
    pub(crate) fn has_slots_of_transactions(&self) -> bool {
        self.flags() & (MDB_NOTLS | MDB_NOLOCK) != 0
    }

    pub(crate) fn readers_max(&self) -> u32 {
        self.max_readers.load(Ordering::Relaxed)
    }

    /// Opens the store at a path, making it if there is none.
    pub(crate) fn open(&self, path: &CStr, flags: u32, mode: u32) -> Answer {
        if flags & MDB_PREVSNAPSHOT != 0 {
            crate::code::note(
                "MDB_PREVSNAPSHOT: the commit before the newest one is not kept; `hedgerow salvage` \
                 brings what can be read of a damaged store over to a new one",
            );
            return Err(libc::EINVAL);
        }
        if self.open.get().is_some() || flags & !(CHANGEABLE | CHANGELESS) != 0 {
            return Err(libc::EINVAL);
        }
        let mut flags = flags | self.flags();
        if flags & MDB_RDONLY != 0 {
            flags &= !MDB_WRITEMAP;
        }
        // They stay also if this fails.
        self.flags.store(flags, Ordering::Relaxed);
        let given = Path::new(OsStr::from_bytes(path.to_bytes()));
        let data = data_file(given, flags)?;
        if data.is_dir() {
            return Err(libc::EISDIR);
        }
        let store = open_store(&data, flags, mode).map_err(|e| code_of(&e))?;
        // A program that goes to the background leaves its folder, too.
        let absolute = std::fs::canonicalize(&data).unwrap_or(data);
        let _ = self.paths.set((path.to_owned(), absolute));
        self.open.set(Opened::new(store)).map_err(|_| libc::EINVAL)?;
        self.share_map_size();
        Ok(())
    }

    /// Tells other processes that have the store open of the map size: those that set none use it,
    /// as with LMDB, which keeps it in the file.
    fn share_map_size(&self) {
        let bytes = self.map_size.load(Ordering::Relaxed);
        if let Some(opened) = self.open.get()
            && self.flags() & MDB_RDONLY == 0
            && bytes > 0
        {
            opened.newest().store.share_max_size(bytes as u64);
        }
    }

    /// The map size that was set, by this one's program or by another one's; 0 for none.
    fn shared_map_size(&self) -> usize {
        let own = self.map_size.load(Ordering::Relaxed);
        let shared = || self.open.get()?.newest().store.shared_max_size();
        match own {
            0 => usize::try_from(shared().unwrap_or(0)).unwrap_or(usize::MAX),
            _ => own,
        }
    }

    /// Changes flags of an environment.
    pub(crate) fn set_flags(&self, flags: u32, on: bool) -> Answer {
        if flags & !CHANGEABLE != 0 {
            return Err(libc::EINVAL);
        }
        match on {
            true => self.flags.fetch_or(flags, Ordering::Relaxed),
            false => self.flags.fetch_and(!flags, Ordering::Relaxed),
        };
        Ok(())
    }

    pub(crate) fn set_max_dbs(&self, most: u32) -> Answer {
        self.check_closed()?;
        self.max_dbs.store(most, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn set_max_readers(&self, most: u32) -> Answer {
        self.check_closed()?;
        if most < 1 {
            return Err(libc::EINVAL);
        }
        self.max_readers.store(most, Ordering::Relaxed);
        Ok(())
    }

    fn check_closed(&self) -> Answer {
        if self.open.get().is_some() { Err(libc::EINVAL) } else { Ok(()) }
    }

    /// Sets how large the file may grow, as in LMDB not below what is used; 0 takes over what
    /// others have set, if they did.
    pub(crate) fn set_map_size(&self, bytes: usize) -> Answer {
        if self.open.get().is_some() && self.is_writing.load(Ordering::Acquire) {
            return Err(libc::EINVAL);
        }
        let opened = self.open.get();
        let others = opened.and_then(|opened| opened.newest().store.shared_max_size());
        if bytes > 0 || opened.is_none() || others.is_some() {
            self.map_size.store(bytes, Ordering::Relaxed);
            if bytes > 0 && opened.is_some() {
                self.map_size.store(self.info()?.mapsize, Ordering::Relaxed);
            }
            self.share_map_size();
        }
        Ok(())
    }

    /// How large the file may grow: somewhat beyond the map size, which puts alone do not reach,
    /// because the store keeps the last pages for deletes and for the commit.
    pub(crate) fn limit(&self) -> Option<u64> {
        let bytes = self.shared_map_size() as u64;
        let last = self.open.get().map_or(0, |opened| {
            WriteTxn::LAST_PAGES * u64::from(opened.newest().store.page_size())
        });
        (bytes > 0).then_some(bytes.saturating_add(self.kept() + last))
    }

    /// How much of the room in the file puts leave.
    fn kept(&self) -> u64 {
        match self.shared_map_size() as u64 {
            0 => KEPT_BYTES,
            bytes => KEPT_BYTES.min(bytes / KEPT_PART),
        }
    }

    /// How durable a commit is, with the flags of its transaction on top.
    pub(crate) fn durability(&self, more: u32) -> Durability {
        let flags = self.flags() | more;
        if flags & MDB_NOSYNC != 0 {
            return Durability::None;
        }
        let both = MDB_WRITEMAP | MDB_MAPASYNC;
        if flags & both == both { Durability::Eventual } else { Durability::Durable }
    }

    /// Whether the store is longer than this one's limit, because another one's is greater.
    fn is_outgrown(&self, txn: &WriteTxn, limit: u64) -> bool {
        let Some(opened) = self.open.get().map(Opened::newest) else { return false };
        let bytes = txn.page_count() * u64::from(opened.store.page_size());
        bytes > limit && opened.store.shared_max_size().is_some_and(|others| others > limit)
    }

    /// Begins a write transaction of the store. A map size that it has outgrown, because others
    /// have set a greater one, is to be raised first.
    pub(crate) fn begin_write(&self, flags: u32) -> Answer<WriteTxn> {
        let store = &self.opened()?.store;
        let begin = || -> Answer<WriteTxn> {
            let mut txn = store.begin_write_alone().map_err(|e| code_of(&e))?;
            let limit = self.limit();
            if limit.is_some_and(|limit| self.is_outgrown(&txn, limit)) {
                return Err(MDB_MAP_RESIZED);
            }
            let kept = self.kept() / u64::from(store.page_size());
            txn.leave_pages(kept + WriteTxn::LAST_PAGES);
            txn.set_max_size(limit);
            txn.expect_durability(self.durability(flags));
            Ok(txn)
        };
        let txn = begin()?;
        if self.durability(flags) == Durability::Durable || !txn.is_short_of_pages() {
            return Ok(txn);
        }
        // LMDB keeps no pages for a power loss. So that the same size is enough here, such pages
        // are given up when they are needed; but if readers hold them, that does not help.
        let rest = self.flushes_rest.load(Ordering::Relaxed);
        self.flushes_rest.store(rest.saturating_sub(1), Ordering::Relaxed);
        if rest > 0 {
            return Ok(txn);
        }
        drop(txn);
        store.sync().map_err(|e| code_of(&e))?;
        let txn = begin()?;
        if txn.is_short_of_pages() {
            self.flushes_rest.store(FLUSHES_REST, Ordering::Relaxed);
        }
        Ok(txn)
    }

    /// Makes commits durable.
    pub(crate) fn sync(&self, force: bool) -> Answer {
        let opened = self.opened()?;
        if self.flags() & MDB_RDONLY != 0 {
            return Err(libc::EACCES);
        }
        if !force && self.flags() & MDB_NOSYNC != 0 {
            return Ok(());
        }
        opened.store.sync().map_err(|e| code_of(&e))
    }

    /// Numbers of the newest commit and of the settings.
    pub(crate) fn info(&self) -> Answer<EnvInfo> {
        let opened = self.opened()?;
        let txn = opened.store.begin_read().map_err(|e| code_of(&e))?;
        let pages = txn.page_count() as usize;
        let used = pages * opened.store.page_size() as usize;
        let set = match self.shared_map_size() {
            0 => map_size_without_limit(used),
            set => set,
        };
        // What the store keeps for itself beyond the map size is not spoken of.
        let is_within = self.limit().is_some_and(|limit| used as u64 <= limit);
        let live = opened.store.readers().map_err(|e| code_of(&e))?.len() - 1;
        Ok(EnvInfo {
            mapaddr: std::ptr::null_mut(),
            mapsize: if is_within { set } else { set.max(used) },
            // There is a meta page more than LMDB has.
            last_pgno: pages - 2,
            last_txnid: shown_id(txn.id()) as usize,
            maxreaders: self.readers_max(),
            numreaders: match self.flags() & MDB_NOLOCK {
                0 => opened.readers.peak().max(live) as u32,
                _ => 0,
            },
        })
    }

    /// Pages and entries of the main database in the newest commit.
    pub(crate) fn stat(&self) -> Answer<Stat> {
        let opened = self.opened()?;
        let txn = opened.store.begin_read().map_err(|e| code_of(&e))?;
        crate::main_db::stat(&txn, opened.store.page_size()).map_err(|e| code_of(&e))
    }

    pub(crate) fn path(&self) -> *const std::ffi::c_char {
        self.paths.get().map_or(std::ptr::null(), |(given, _)| given.as_ptr())
    }

    /// The descriptor of the data file that is open, whatever is at its path by now; -1 before it
    /// is open, as in LMDB. It stays open as long as the environment: programs lock it with locks
    /// that belong to the process, which closing any descriptor of the file would drop.
    pub(crate) fn descriptor(&self) -> i32 {
        let descriptor = || self.open.get()?.newest().store.descriptor();
        descriptor().map_or(-1, |file| file.as_raw_fd())
    }

    pub(crate) fn user_context(&self) -> &AtomicPtr<c_void> {
        &self.user_context
    }

    /// Copies the newest commit to a new store at `path`, named as this one's flags say.
    pub(crate) fn copy(&self, path: &CStr, flags: u32) -> Answer {
        let given = Path::new(OsStr::from_bytes(path.to_bytes()));
        let target = data_file(given, self.flags())?;
        self.copy_to(&target, flags)
    }

    /// Copies the newest commit to a new data file.
    pub(crate) fn copy_to(&self, target: &Path, flags: u32) -> Answer {
        let opened = self.opened()?;
        let options = CopyOptions { compact: flags & MDB_CP_COMPACT != 0 };
        let copied = opened.store.copy_to(target, options, &mut |_, _| {});
        copied.map_err(|error| match error {
            Error::Path { .. } => libc::EEXIST,
            error => code_of(&error),
        })
    }

    /// Copies the newest commit into an open file, which may be a pipe.
    pub(crate) fn copy_into(&self, fd: BorrowedFd<'_>, flags: u32) -> Answer {
        let opened = self.opened()?;
        let mut target = File::from(fd.try_clone_to_owned().map_err(|e| code_of_io(&e))?);
        if flags & MDB_CP_COMPACT == 0 {
            return opened.store.copy_into(&mut target).map_err(|e| code_of(&e));
        }
        let mut source = self.compact_copy(opened)?;
        std::io::copy(&mut source, &mut target).map(|_| ()).map_err(|e| code_of_io(&e))
    }

    /// A compact copy as a file without a name. It is not written from front to back, so that it
    /// cannot go to a pipe at once. It is made beside the data file, or where temporary files are
    /// if this program may not write there.
    fn compact_copy(&self, opened: &Opened) -> Answer<File> {
        let beside = opened.store.path().parent().map(Path::to_path_buf);
        let name = format!("mdb-{}-{:?}.copy", std::process::id(), std::thread::current().id());
        let mut made = Err(libc::ENOENT);
        for folder in beside.into_iter().chain([std::env::temp_dir()]) {
            let path = folder.join(&name);
            made = self.copy_to(&path, MDB_CP_COMPACT);
            match made {
                Ok(()) => {
                    let file = File::open(&path).map_err(|e| code_of_io(&e));
                    // An open file stays usable; without a name nothing is left of it.
                    let removed = std::fs::remove_file(&path).map_err(|e| code_of_io(&e));
                    return removed.and(file);
                }
                Err(libc::EACCES | libc::EPERM | libc::EROFS) => {}
                Err(code) => return Err(code),
            }
        }
        made.and(Err(libc::EIO))
    }

    /// The lines of `mdb_reader_list`, which may be asked for before anything is open.
    pub(crate) fn reader_lines(&self) -> Answer<Vec<String>> {
        if self.open.get().is_none() || self.flags() & MDB_NOLOCK != 0 {
            return Ok(vec!["(no reader locks)\n".to_owned()]);
        }
        let opened = self.opened()?;
        let own = std::process::id();
        let mut lines = opened.readers.lines(own);
        let others = opened.store.readers().map_err(|e| code_of(&e))?;
        for reader in others.iter().filter(|reader| reader.process != own) {
            let (pid, thread, id) = (reader.process, reader.thread, shown_id(reader.commit));
            lines.push(format!("{pid:10} {thread:x} {id}\n"));
        }
        if lines.is_empty() {
            lines.push("(no active readers)\n".to_owned());
        } else {
            lines.insert(0, "    pid     thread     txnid\n".to_owned());
        }
        Ok(lines)
    }

    /// Frees the slots of readers whose process has died; their number. There are none before
    /// anything is open.
    pub(crate) fn clear_dead_readers(&self) -> Answer<usize> {
        if self.open.get().is_none() {
            return Ok(0);
        }
        self.opened()?.store.clear_dead_readers().map_err(|e| code_of(&e))
    }
}

fn code_of_io(error: &std::io::Error) -> Code {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// The data file that a path means: itself, or a file in the folder that it is.
fn data_file(path: &Path, flags: u32) -> Answer<PathBuf> {
    if flags & MDB_NOSUBDIR == 0 {
        return match std::fs::metadata(path) {
            Ok(found) if !found.is_dir() => Err(libc::ENOTDIR),
            Ok(_) => Ok(path.join("data.mdb")),
            Err(error) => Err(error.raw_os_error().unwrap_or(libc::ENOENT)),
        };
    }
    if path.is_dir() { Err(libc::EISDIR) } else { Ok(path.to_path_buf()) }
}

/// The map size to report where there is none. Programs that copy entries, as `mdb_load` does with
/// what `mdb_dump` has written, give it to the other environment, and put them there in many
/// transactions: that takes more room than is used here.
fn map_size_without_limit(used: usize) -> usize {
    let used = used as u64;
    let more = used.saturating_mul(ROOM - 1).min(ROOM_MAX);
    let size = usize::try_from(used.saturating_add(more)).unwrap_or(usize::MAX);
    size.max(DEFAULT_MAPSIZE)
}

fn open_store(data: &Path, flags: u32, mode: u32) -> Result<Store> {
    // Each commit says itself how durable it is; making a store flushes nothing, as in LMDB.
    let builder = Store::builder()
        .durability(Durability::None)
        .lock_file_mode(mode)
        .writable_map(flags & MDB_WRITEMAP != 0)
        .verify_values_up_to(VERIFIED_MAX);
    if flags & MDB_RDONLY == 0 {
        return builder.open_or_create(data);
    }
    match builder.clone().read_only(true).open(data) {
        // If this process writes it through another environment, that store serves both; if other
        // processes do, this one may not be able to read beside them.
        Err(locked @ Error::Locked { .. }) => builder.open(data).map_err(|_| locked),
        other => other,
    }
}
