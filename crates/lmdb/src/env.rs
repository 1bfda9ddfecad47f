//! Environments: settings before and after opening, which file is meant, what is told of them.

use std::ffi::{CStr, CString, OsStr, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use hedgerow::tree::{CopyOptions, Durability, Interrupt, Store};
use hedgerow::{Error, Result};

use crate::abi::*;
use crate::code::{Answer, code_of};
use crate::handles::Handles;
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
    | MDB_NORDAHEAD
    | MDB_PREVSNAPSHOT;
/// What the store keeps from puts when the file is full.
const KEPT_BYTES: u64 = 16 * 4096;
/// What LMDB says of an environment whose map size nobody set.
const DEFAULT_MAPSIZE: usize = 1 << 20;
const DEFAULT_READERS: u32 = 126;

/// `MDB_env`.
pub(crate) struct Env {
    pub(crate) flags: AtomicU32,
    /// 0: nobody set one, and there is no limit.
    map_size: AtomicUsize,
    max_readers: AtomicU32,
    max_dbs: AtomicU32,
    user_context: AtomicPtr<c_void>,
    pub(crate) open: OnceLock<Opened>,
    pub(crate) readers: Arc<Readers>,
    handles: Mutex<Handles>,
    /// Whether a write transaction of this environment is open.
    pub(crate) is_writing: AtomicBool,
}

/// What an open environment has.
pub(crate) struct Opened {
    pub(crate) store: Store,
    pub(crate) interrupt: Interrupt,
    path: CString,
    /// For those who ask for a descriptor.
    file: OnceLock<File>,
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
            open: OnceLock::new(),
            readers: Arc::default(),
            handles: Mutex::new(Handles::new()),
            is_writing: AtomicBool::new(false),
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
        self.open.get().ok_or(libc::EINVAL)
    }

    pub(crate) fn handles(&self) -> MutexGuard<'_, Handles> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many handles there may be.
    pub(crate) fn handles_max(&self) -> usize {
        self.max_dbs.load(Ordering::Relaxed) as usize + CORE_DBS
    }

    pub(crate) fn readers_max(&self) -> u32 {
        self.max_readers.load(Ordering::Relaxed)
    }

    /// Opens the store at a path, making it if there is none.
    pub(crate) fn open(&self, path: &CStr, flags: u32, mode: u32) -> Answer {
        if self.open.get().is_some() || flags & !(CHANGEABLE | CHANGELESS) != 0 {
            return Err(libc::EINVAL);
        }
        let mut flags = flags | self.flags();
        if flags & MDB_RDONLY != 0 {
            flags &= !MDB_WRITEMAP;
        }
        let given = Path::new(OsStr::from_bytes(path.to_bytes()));
        let data = data_file(given, flags)?;
        let store = open_store(&data, flags & MDB_RDONLY != 0, mode).map_err(|e| code_of(&e))?;
        self.flags.store(flags, Ordering::Relaxed);
        let interrupt = store.interrupt();
        let file = OnceLock::new();
        let opened = Opened { store, interrupt, path: path.to_owned(), file };
        self.open.set(opened).map_err(|_| libc::EINVAL)
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

    /// Sets how large the file may grow; 0 keeps what was set, or raises it to what is there.
    pub(crate) fn set_map_size(&self, bytes: usize) -> Answer {
        if self.open.get().is_some() && self.is_writing.load(Ordering::Acquire) {
            return Err(libc::EINVAL);
        }
        if bytes > 0 || self.open.get().is_none() {
            self.map_size.store(bytes, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How large the file may grow: somewhat beyond the map size, which puts alone do not reach,
    /// because the store keeps the last pages for deletes and for the commit.
    pub(crate) fn limit(&self) -> Option<u64> {
        let bytes = self.map_size.load(Ordering::Relaxed);
        (bytes > 0).then_some((bytes as u64).saturating_add(KEPT_BYTES))
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
        let set = self.map_size.load(Ordering::Relaxed);
        let set = if set == 0 { DEFAULT_MAPSIZE } else { set };
        let live = opened.store.readers().map_err(|e| code_of(&e))?.len() - 1;
        Ok(EnvInfo {
            mapaddr: std::ptr::null_mut(),
            mapsize: set.max(used),
            last_pgno: pages - 1,
            last_txnid: shown_id(txn.id()) as usize,
            maxreaders: self.readers_max(),
            numreaders: self.readers.peak().max(live) as u32,
        })
    }

    /// Pages and entries of the main database in the newest commit.
    pub(crate) fn stat(&self) -> Answer<Stat> {
        let opened = self.opened()?;
        let txn = opened.store.begin_read().map_err(|e| code_of(&e))?;
        crate::main_db::stat(&txn, opened.store.page_size()).map_err(|e| code_of(&e))
    }

    pub(crate) fn path(&self) -> *const std::ffi::c_char {
        self.open.get().map_or(std::ptr::null(), |opened| opened.path.as_ptr())
    }

    /// A descriptor of the data file, for reading and writing unless the environment is read-only;
    /// -1 before it is open, as in LMDB. It stays open as long as the environment: programs lock it
    /// with locks that belong to the process, which closing any descriptor of the file would drop.
    pub(crate) fn descriptor(&self) -> Answer<i32> {
        let Some(opened) = self.open.get() else { return Ok(-1) };
        if let Some(file) = opened.file.get() {
            return Ok(file.as_raw_fd());
        }
        let writes = self.flags() & MDB_RDONLY == 0;
        let file = File::options().read(true).write(writes).open(opened.store.path());
        let file = file.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))?;
        Ok(opened.file.get_or_init(|| file).as_raw_fd())
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

    /// Copies the newest commit into an open file, which may be a pipe: a copy is made beside the
    /// data file and sent from there, since it is not written from front to back.
    pub(crate) fn copy_into(&self, fd: BorrowedFd<'_>, flags: u32) -> Answer {
        let opened = self.opened()?;
        let mut name = opened.store.path().as_os_str().to_owned();
        name.push(format!(".{}.{:?}.copy", std::process::id(), std::thread::current().id()));
        let path = PathBuf::from(name);
        let sent = self.copy_to(&path, flags).and_then(|()| {
            let io = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EIO);
            let mut source = File::open(&path).map_err(io)?;
            let mut target = File::from(fd.try_clone_to_owned().map_err(io)?);
            std::io::copy(&mut source, &mut target).map(|_| ()).map_err(io)
        });
        // What is left of it is of no use; the failure that led here is what the caller hears of.
        let _ = std::fs::remove_file(&path);
        sent
    }

    /// The lines of `mdb_reader_list`.
    pub(crate) fn reader_lines(&self) -> Answer<Vec<String>> {
        let opened = self.opened()?;
        if self.flags() & MDB_NOLOCK != 0 {
            return Ok(vec!["(no reader locks)\n".to_owned()]);
        }
        let own = std::process::id();
        let mut lines = self.readers.lines(own);
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

    /// Frees the slots of readers whose process has died; their number.
    pub(crate) fn clear_dead_readers(&self) -> Answer<usize> {
        self.opened()?.store.clear_dead_readers().map_err(|e| code_of(&e))
    }
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

fn open_store(data: &Path, read_only: bool, mode: u32) -> Result<Store> {
    let builder = Store::builder().file_mode(mode);
    if read_only {
        return match builder.clone().read_only(true).open(data) {
            // This process writes it through another environment: that store serves both.
            Err(Error::Locked { .. }) => builder.open(data),
            other => other,
        };
    }
    if std::fs::metadata(data).is_ok_and(|found| found.len() > 0) {
        return builder.open(data);
    }
    match builder.create(data) {
        // Another thread or process was faster.
        Err(Error::Path { .. }) => builder.open(data),
        other => other,
    }
}
