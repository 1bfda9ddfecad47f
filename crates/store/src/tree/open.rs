//! Opening and creating a store: paths, locks, recovery, the map.

use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use super::log::replay::replay;
use super::meta::{META_LEN, Meta, SnapshotMeta};
use super::options::{Paths, max_pages};
use super::pages::PageFile;
use super::recover::{Choice, Found, META_SLOTS, is_settled, read_metas, recover};
use super::registry::{agree, open_once};
use super::store::Inner;
use super::words::{
    CLEAN, DIRTY, NEW, WORD_DIRTY, WORD_DURABLE, WORD_ID, WORD_LATEST, WORD_MAX_SIZE, WORD_NUMBER,
    WORD_POISON, number_of, slot_of, word_of,
};
use super::{Builder, Store};
use crate::Durability;
use crate::identify::{TREE as MAGIC, is_lsm};
use crate::observe::{Done, Work, tell, within};
use crate::os::{
    Access, DataFile, IN_MEMORY, MemorySystem, Open, RealSystem, Rights, SharedLock, System,
};
use crate::sync::locked;
use crate::{Error, Result};

/// How often a lock file is replaced before somebody is told that the place is in use.
const LOCK_TRIES: usize = 8;
/// How much address space is reserved, less if many stores are open: the file grows inside it
/// without a new map.
const RESERVE_BYTES: u64 = 1 << 40;

/// The names of data file and lock file in the folder of a store: those of this library, and those
/// that programs written for LMDB expect.
const FOLDER_NAMES: [(&str, &str); 2] = [("data.hdg", "lock.hdg"), ("data.mdb", "lock.mdb")];

impl Paths {
    /// Where the files of the store at `path` are, or would be: inside it, if it is a folder. Of a
    /// data file that is a symbolic link they are where that leads.
    pub fn of(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        let paths = if path.is_dir() { Self::in_folder(path) } else { Self::beside(path) };
        // Whoever opens the file, by whatever links, must find the same lock file.
        let is_link = paths.data.is_symlink();
        match is_link.then(|| paths.data.canonicalize()) {
            Some(Ok(data)) => Self::beside(&data),
            // There is no link, or it leads nowhere.
            _ => paths,
        }
    }

    fn in_folder(folder: &Path) -> Self {
        let [(data, lock), (face_data, face_lock)] = FOLDER_NAMES;
        if !folder.join(data).exists() && folder.join(face_data).exists() {
            return Self { data: folder.join(face_data), lock: folder.join(face_lock) };
        }
        Self { data: folder.join(data), lock: folder.join(lock) }
    }

    /// A file with the name that it has in the folder of a store has its lock there too: whichever
    /// way a store is named, its lock file is the same.
    fn beside(file: &Path) -> Self {
        let data = file.to_path_buf();
        let known = FOLDER_NAMES.iter().find(|(name, _)| file.file_name() == Some(name.as_ref()));
        if let Some((_, lock)) = known {
            return Self { lock: file.with_file_name(lock), data };
        }
        let mut lock = file.as_os_str().to_owned();
        lock.push("-lock");
        Self { data, lock: PathBuf::from(lock) }
    }
}

impl Builder {
    /// Creates a store: a file, or two files in a folder that exists. A file of that name must not
    /// exist, or must be empty, or the remains of a store whose creation was interrupted. With
    /// [`Durability::None`] the store itself is durable only from the first flush on; after an
    /// earlier power cut there may be none.
    ///
    /// # Errors
    /// [`Error::Path`] if there is one already, [`Error::Argument`] for an impossible page size, or
    /// a maximum size that is less than an empty store, [`Error::Io`] if the system refuses.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Store> {
        let paths = self.paths(path.as_ref());
        self.check_new()?;
        let welcome = |_| Err(exists(&paths));
        let create = || within(Work::TREE_OPEN, &paths.data, || self.create_files(&paths));
        let opened = open_once(&paths.data, self, welcome, create);
        opened.map(Store::new)
    }

    /// Creates a store that lies in memory and ends with the process, or when its last handle is
    /// dropped. Nobody else can open it. It is as every other store apart from that: several
    /// threads read while one writes, and it can be copied into a file
    /// ([`Store::copy_to`]). On Linux it is a file of the system's memory without a name, which
    /// takes room as far as it was written; elsewhere it is a temporary file whose name is removed
    /// at once. There is no redo log, since nothing has to be flushed.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// use hedgerow::tree::{Snapshot, Store, TableOptions};
    /// let store = Store::builder().max_size(64 << 20).create_in_memory()?;
    /// store.write(|txn| {
    ///     let table = txn.create_table("t", &TableOptions::new())?;
    ///     txn.put(table, b"key", b"value")
    /// })?;
    /// let kept = folder.path().join("kept");
    /// store.copy_to(&kept, Default::default(), &mut |_, _| {})?;
    /// let txn = Store::open(&kept)?.begin_read()?;
    /// assert_eq!(txn.get(txn.table("t")?, b"key")?.unwrap(), b"value"[..]);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Argument`] as for [`Builder::create`], [`Error::Io`] if the system refuses.
    pub fn create_in_memory(&self) -> Result<Store> {
        let options = self.clone().log_size(0).system(Arc::new(MemorySystem::default()));
        options.create(IN_MEMORY)
    }

    /// Whether a store can be made with these options.
    fn check_new(&self) -> Result<()> {
        let size = self.page_size;
        if !size.is_power_of_two() || !(4096..=65536).contains(&size) {
            return Err(Error::argument(format!(
                "a page size of {size} bytes was given; it must be a power of two from 4096 to 65536"
            )));
        }
        let least = u64::from(META_SLOTS) * u64::from(size);
        if let Some(most) = self.max_size.filter(|most| *most < least) {
            return Err(Error::argument(format!(
                "a maximum size of {most} bytes was given; a store without entries takes {least}"
            )));
        }
        if self.read_only {
            return Err(Error::argument("a store cannot be created for reading only"));
        }
        Ok(())
    }

    /// Opens a store that exists.
    ///
    /// # Errors
    /// [`Error::Path`] if there is none, [`Error::NotAStore`], [`Error::Unsupported`] or
    /// [`Error::Corrupt`] if the file is something else, newer, or damaged, [`Error::Locked`] if
    /// this process has it open with other options, [`Error::Io`] if the system refuses.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Store> {
        self.open_with_progress(path, &mut |_, _| {})
    }

    /// As [`Builder::open`]. If the redo log has to be replayed, which after a power cut may take
    /// seconds, `progress(done, most)` is called after each commit in it: how many bytes of the log
    /// were replayed, and the most that there can be. How many there are is not known before.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// # drop(hedgerow::tree::Store::create(&path)?);
    /// use hedgerow::tree::Store;
    /// let mut told = |done, most| println!("replaying the log: {done} of at most {most} bytes");
    /// let store = Store::builder().open_with_progress(&path, &mut told)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_with_progress(
        &self,
        path: impl AsRef<Path>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Store> {
        let paths = self.paths(path.as_ref());
        let welcome = |store| agree(store, self);
        let open = || within(Work::TREE_OPEN, &paths.data, || self.open_files(&paths, progress));
        let opened = open_once(&paths.data, self, welcome, open);
        opened.map(Store::new)
    }

    /// As [`Builder::open`], but takes a store that this process has open as it is: of these
    /// options only the one to read only has to be the same.
    ///
    /// ```
    /// # fn main() -> hedgerow::Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("store");
    /// use hedgerow::{Durability, tree::Store};
    /// let store = Store::builder().durability(Durability::None).create(&path)?;
    /// assert!(Store::open(&path).is_err());
    /// let same = Store::builder().open_shared(&path)?;
    /// assert_eq!(same.path(), store.path());
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Builder::open`].
    pub fn open_shared(&self, path: impl AsRef<Path>) -> Result<Store> {
        let paths = self.paths(path.as_ref());
        let welcome = |store: Arc<Inner>| match store.options.read_only == self.read_only {
            true => Ok(store),
            false => agree(store, self),
        };
        let open = || self.open_files(&paths, &mut |_, _| {});
        let open = || within(Work::TREE_OPEN, &paths.data, open);
        open_once(&paths.data, self, welcome, open).map(Store::new)
    }

    /// Opens a store, creating it if there is none.
    ///
    /// # Errors
    /// The errors of [`Builder::open`] and [`Builder::create`].
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Store> {
        match self.open(&path) {
            Err(Error::Path { .. } | Error::NotAStore { .. } | Error::Corrupt { .. })
                if !self.read_only => {}
            other => return other,
        }
        match self.create(&path) {
            // Another process was faster, or it is a file of another kind.
            Err(Error::Path { .. }) => self.open(&path),
            other => other,
        }
    }

    pub(crate) fn paths(&self, path: &Path) -> Paths {
        // A simulated disk has no folders.
        if self.system.is_some() { Paths::beside(path) } else { Paths::of(path) }
    }

    pub(crate) fn system_in_use(&self) -> Arc<dyn System> {
        match &self.system {
            Some(handle) => Arc::clone(&handle.0),
            None => Arc::new(RealSystem),
        }
    }

    /// Whether the store lies in memory.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.system.as_ref().is_some_and(|handle| handle.0.is_memory())
    }

    /// These options for a copy of the store, which lies in a file.
    pub(crate) fn for_copies(&self) -> Self {
        let system = self.system.clone().filter(|_| !self.is_in_memory());
        Self { system, ..self.clone() }
    }

    /// Opens the lock file. If it has to be made, those may open it who may open the data file, if
    /// that is there.
    fn lock(
        &self,
        system: &dyn System,
        paths: &Paths,
        file: Option<&dyn DataFile>,
    ) -> Result<Arc<SharedLock>> {
        let (path, doing) = (&paths.lock, "open the lock file");
        let rights = match (file, self.file_mode.is_of_each_lock) {
            (Some(file), false) => Rights::Like(file),
            _ => Rights::Mode(self.file_mode.bits),
        };
        system.open_lock(path, self.read_only, rights).map_err(|e| match e.kind() {
            ErrorKind::ResourceBusy => Error::Locked { path: path.clone(), reason: e.to_string() },
            // The file itself would be made.
            ErrorKind::NotFound => {
                let reason = "the folder is not there; make it first";
                Error::io(doing, path, io::Error::new(ErrorKind::NotFound, reason))
            }
            _ => Error::io(doing, path, e),
        })
    }

    fn create_files(&self, paths: &Paths) -> Result<Inner> {
        let system = self.system_in_use();
        self.check_place(paths)?;
        let vacant = match system.open_data(&paths.data, Open::Read, self.file_mode.bits) {
            Ok(file) if !self.is_vacant(&*file, &paths.data) => return Err(exists(paths)),
            Ok(file) => Some(file),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(Error::io("create", &paths.data, e)),
        };
        // Locked first: a process that finds the data file then waits until it is complete.
        let lock = self.lock_new(&*system, paths, vacant.as_deref())?;
        let file = match system.open_data(&paths.data, Open::Create, self.file_mode.bits) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::AlreadyExists => self.take_empty(&*system, paths)?,
            Err(e) => return Err(Error::io("create", &paths.data, e)),
        };
        let flushed = self.durability != Durability::None;
        let written = write_new(&*file, self);
        let written = written.and_then(|()| {
            if flushed {
                file.sync().and_then(|()| system.sync_directory(&paths.data))
            } else {
                Ok(())
            }
        });
        if let Err(e) = written {
            // Half a store is worse than none; if even this fails, opening says what is wrong.
            let _ = system.remove(&paths.data);
            return Err(Error::io("create", &paths.data, e));
        }
        let state = if flushed { CLEAN } else { NEW };
        let store = self.start(paths, file, lock, state, &mut |_, _| {})?;
        if flushed {
            *locked(&store.flusher.unflushed_name) = None;
        }
        Ok(store)
    }

    /// Locks the place of a new store. Others may have the store open that was there before, whose
    /// file was removed meanwhile: they keep their lock file, which loses its name.
    fn lock_new(
        &self,
        system: &dyn System,
        paths: &Paths,
        vacant: Option<&dyn DataFile>,
    ) -> Result<Arc<SharedLock>> {
        let find = || system.open_data(&paths.data, Open::Read, self.file_mode.bits);
        let is_gone = || matches!(find(), Err(e) if e.kind() == ErrorKind::NotFound);
        for _ in 0..LOCK_TRIES {
            let lock = self.lock(system, paths, vacant)?;
            if lock.is_first() {
                return Ok(lock);
            }
            drop(lock);
            match find() {
                // Another process was faster.
                Ok(file) if !self.is_vacant(&*file, &paths.data) => return Err(exists(paths)),
                Ok(_) => break,
                // Whether it is discarded here or by another process, there is a new one then.
                Err(_) => system
                    .discard_lock(&paths.lock, &is_gone)
                    .map_err(|e| Error::io("replace the lock file", &paths.lock, e))?,
            };
        }
        Err(other_store(paths))
    }

    /// Whether nothing is in a file: it is empty, or what is left of a store whose making was cut
    /// off.
    fn is_vacant(&self, file: &dyn DataFile, path: &Path) -> bool {
        let Ok(len) = file.len() else { return false };
        match read_metas(file, path) {
            Ok(found) => found.is_unmade(len),
            Err(Error::NotAStore { .. } | Error::Corrupt { .. }) => self.has_no_page(file, len),
            Err(_) => false,
        }
    }

    /// Whether a file of this length, without a meta record that can be used, is no more than zeros
    /// and such records.
    fn has_no_page(&self, file: &dyn DataFile, len: u64) -> bool {
        let page_size = self.page_size as usize;
        if len > (META_SLOTS as usize * page_size) as u64 {
            return false;
        }
        let mut bytes = vec![0; len as usize];
        let is_left = |page: &[u8]| page.starts_with(MAGIC) || page.iter().all(|&byte| byte == 0);
        file.read_at(&mut bytes, 0).is_ok() && bytes.chunks(page_size).all(is_left)
    }

    /// An empty file that was made for the store in advance.
    fn take_empty(&self, system: &dyn System, paths: &Paths) -> Result<Arc<dyn DataFile>> {
        match system.open_data(&paths.data, Open::Write, self.file_mode.bits) {
            Ok(file) if self.is_vacant(&*file, &paths.data) => Ok(file),
            Ok(_) => Err(exists(paths)),
            Err(e) => Err(Error::io("open", &paths.data, e)),
        }
    }

    /// No store is made among the files of another one.
    pub(crate) fn check_place(&self, paths: &Paths) -> Result<()> {
        if self.system.is_none() && paths.data.parent().is_some_and(is_lsm) {
            let reason = "it would lie in the directory of a store of the engine lsm; choose \
                          another path";
            return Err(Error::Path { path: paths.data.clone(), reason });
        }
        Ok(())
    }

    fn open_files(&self, paths: &Paths, progress: &mut dyn FnMut(u64, u64)) -> Result<Inner> {
        let system = self.system_in_use();
        let how = if self.read_only { Open::Read } else { Open::Write };
        let file = match system.open_data(&paths.data, how, self.file_mode.bits) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                let is_lsm = self.system.is_none() && paths.data.parent().is_some_and(is_lsm);
                let reason = if is_lsm {
                    "this is the directory of a store of the engine lsm: open it as one"
                } else {
                    "there is no store here; create one first"
                };
                return Err(Error::Path { path: paths.data.clone(), reason });
            }
            Err(e) => return Err(Error::io("open", &paths.data, e)),
        };
        let is_vacant = self.is_vacant(&*file, &paths.data);
        if is_vacant {
            self.check_place(paths)?;
        }
        // Refused before a lock file is made beside what is no store. A file with nothing in it may
        // be a store that another process is creating: the lock waits for that process.
        if !is_vacant && let Err(error @ Error::NotAStore { .. }) = read_metas(&*file, &paths.data)
        {
            return Err(error);
        }
        let lock = self.lock(&*system, paths, Some(&*file))?;
        self.start(paths, file, lock, DIRTY, progress)
    }

    /// Chooses the newest commit, or learns it from the processes that have the store open, and
    /// maps the file.
    fn start(
        &self,
        paths: &Paths,
        file: Arc<dyn DataFile>,
        lock: Arc<SharedLock>,
        state: u64,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Inner> {
        let mut found = read_metas(&*file, &paths.data)?;
        let slot = if lock.is_first() {
            let read_only = self.read_only;
            let choice = choose_newest(&*file, &mut found, &paths.data, read_only, progress)?;
            let state = if is_settled(&found, choice) { CLEAN } else { state };
            set_words(&lock, &found, choice, state);
            choice.latest
        } else {
            let (theirs, ours) = (lock.word(WORD_ID).load(SeqCst), found.id_word());
            if theirs != ours && theirs != 0 && ours != 0 {
                return Err(other_store(paths));
            }
            slot_of(lock.word(WORD_LATEST).load(SeqCst))
        };
        let len = file.len().map_err(|e| Error::io("read the length of", &paths.data, e))?;
        let commit = number_of(lock.word(WORD_LATEST).load(SeqCst));
        tell(&paths.data, || Done { commit: Some(commit), ..Work::TREE_OPEN.done() });
        let known = found.metas.get_mut(slot as usize).and_then(Option::take);
        let newest = match known.filter(|meta| meta.file_len() <= len) {
            Some(meta) => SnapshotMeta { meta, slot },
            // Written by another process while it was read: any number that is not the newest
            // makes the first transaction read it again.
            None => SnapshotMeta { meta: Meta::empty(found.page_size, [0; 16]), slot },
        };
        let map = match (self.map, self.writable_map) {
            (false, _) => Ok(None),
            (true, false) => file.map(RESERVE_BYTES, Access::Read),
            (true, true) => file.map(RESERVE_BYTES, Access::Private),
        };
        let map = map.map_err(|e| Error::io("map", &paths.data, e))?;
        let map = map.filter(|map| map.reserved >= len);
        let pages = PageFile::new(
            file,
            map,
            found.page_size,
            paths.data.clone(),
            self.always_check,
            Arc::default(),
        )
        .verify_values_up_to(self.verified_max);
        let store = Inner::new(self.clone(), paths.clone(), Arc::new(pages), lock, newest);
        let name = if self.system.is_some() { None } else { std::path::absolute(&paths.data).ok() };
        *locked(&store.flusher.unflushed_name) = Some(name.unwrap_or_else(|| paths.data.clone()));
        Ok(store)
    }
}

pub(crate) fn exists(paths: &Paths) -> Error {
    let reason = "it exists already; open it, or choose another path";
    Error::Path { path: paths.data.clone(), reason }
}

/// The lock file is in use with another data file.
fn other_store(paths: &Paths) -> Error {
    let reason = "this program or another one has the store open that was here before, whose file \
                  was removed or replaced meanwhile; close it there, or choose another path";
    Error::Locked { path: paths.data.clone(), reason: reason.into() }
}

/// Chooses the newest commit. After a power cut it may have to be made first, of what the log has.
fn choose_newest(
    file: &dyn DataFile,
    found: &mut Found,
    path: &Path,
    read_only: bool,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Choice> {
    let choice = recover(file, found, path)?;
    let Some(newest) = found.metas[choice.latest as usize].as_ref() else { return Ok(choice) };
    let is_free = |slot: &u32| *slot != choice.latest && *slot != choice.durable;
    let slot = (0..META_SLOTS).find(is_free).unwrap_or(choice.latest);
    if !replay(file, path, newest, slot, read_only, progress)? {
        return Ok(choice);
    }
    *found = read_metas(file, path)?;
    Ok(Choice { latest: slot, durable: slot })
}

/// Sets the shared words, [`WORD_DIRTY`] to `state`: unless this opener made the file a moment ago,
/// what it found may be in the system's memory only, and records that were refused may be in the
/// way; the first writer sees to that.
fn set_words(lock: &SharedLock, found: &Found, choice: Choice, state: u64) {
    let word = |slot: u32| {
        let number = found.metas[slot as usize].as_ref().map_or(0, |meta| meta.txn);
        word_of(number, slot)
    };
    lock.word(WORD_DURABLE).store(word(choice.durable), SeqCst);
    lock.word(WORD_DIRTY).store(state, SeqCst);
    lock.word(WORD_NUMBER).store(found.highest, SeqCst);
    lock.word(WORD_POISON).store(0, SeqCst);
    lock.word(WORD_MAX_SIZE).store(0, SeqCst);
    lock.word(WORD_ID).store(found.id_word(), SeqCst);
    lock.word(WORD_LATEST).store(word(choice.latest), SeqCst);
    lock.publish_opened();
}

/// Writes the meta pages of an empty store.
fn write_new(file: &dyn DataFile, options: &Builder) -> io::Result<()> {
    let page_size = options.page_size;
    let max_pages = options.max_size.map_or(0, |bytes| max_pages(bytes, page_size));
    let empty =
        Meta { txn: 1, max_pages, ..Meta::empty(page_size, store_id(&*options.system_in_use())) };
    write_metas(file, empty)
}

/// Writes the meta pages of a new file. All three are valid, with different numbers from that of
/// `meta` on, so that any two of them may be damaged.
pub(crate) fn write_metas(file: &dyn DataFile, meta: Meta) -> io::Result<()> {
    file.write_at(&[IoSlice::new(&meta_pages(meta))], 0)
}

/// The meta pages of a new file, one after the other.
pub(crate) fn meta_pages(mut meta: Meta) -> Vec<u8> {
    let page_size = meta.page_size as usize;
    let mut bytes = vec![0; META_SLOTS as usize * page_size];
    for slot in (0..META_SLOTS).rev() {
        let at = slot as usize * page_size;
        bytes[at..at + META_LEN].copy_from_slice(&meta.encode(slot));
        meta.txn += 1;
    }
    bytes
}

/// Sixteen random bytes.
pub(crate) fn store_id(system: &dyn System) -> [u8; 16] {
    let mut id = [0; 16];
    for half in id.as_chunks_mut::<8>().0 {
        *half = system.random().to_le_bytes();
    }
    id
}
