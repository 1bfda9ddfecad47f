//! What is on the simulated disk, what is on its way there, and what a power cut leaves of both.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::content::Content;
use super::fault::{Kept, Random};

/// What a power cut does to writes that were not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashMode {
    /// All of them are lost.
    LoseAll,
    /// All of them survive.
    KeepAll,
    /// Each survives or not as a whole.
    Whole,
    /// Each sector of 512 bytes of each write survives or not.
    Torn512,
    /// Each sector of 4,096 bytes of each write survives or not.
    Torn4096,
}

impl CrashMode {
    /// All modes.
    pub const ALL: [Self; 5] =
        [Self::LoseAll, Self::KeepAll, Self::Whole, Self::Torn512, Self::Torn4096];
}

/// One thing that happens to the disk. Files are numbered in the order of their creation.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Create { file: usize, path: PathBuf },
    CreateFolder { path: PathBuf },
    Write { file: usize, offset: u64, bytes: Arc<[u8]> },
    SetLen { file: usize, len: u64 },
    Sync { file: usize },
    SyncRange { file: usize, offset: u64, len: u64 },
    SyncFailed { file: usize, kept: Kept, seed: u64 },
    SyncDirectory { folder: PathBuf },
    Remove { path: PathBuf },
    Rename { file: usize, from: PathBuf, to: PathBuf },
    Link { file: usize, from: PathBuf, to: PathBuf },
    Edit { file: usize, offset: u64, bytes: Arc<[u8]> },
    Mark(u64),
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { file, path } => write!(f, "create {} as file {file}", path.display()),
            Self::CreateFolder { path } => write!(f, "create folder {}", path.display()),
            Self::Write { file, offset, bytes } => {
                write!(f, "write {} bytes at {offset} of file {file}", bytes.len())
            }
            Self::SetLen { file, len } => write!(f, "set the length of file {file} to {len}"),
            Self::Sync { file } => write!(f, "sync file {file}"),
            Self::SyncRange { file, offset, len } => {
                write!(f, "sync {len} bytes at {offset} of file {file}")
            }
            Self::SyncFailed { file, kept, .. } => {
                write!(f, "fail to sync file {file}, kept: {kept:?}")
            }
            Self::SyncDirectory { folder } => write!(f, "sync folder {}", folder.display()),
            Self::Remove { path } => write!(f, "remove {}", path.display()),
            Self::Rename { from, to, .. } => {
                write!(f, "rename {} to {}", from.display(), to.display())
            }
            Self::Link { from, to, .. } => write!(f, "link {} as {}", from.display(), to.display()),
            Self::Edit { file, offset, bytes } => {
                write!(f, "edit {} bytes at {offset} of file {file}", bytes.len())
            }
            Self::Mark(mark) => write!(f, "mark {mark}"),
        }
    }
}

/// A disk: what is durable, and what is pending in the order in which it was done.
#[derive(Clone, Default)]
pub(super) struct Image {
    files: Vec<File>,
    names: BTreeMap<PathBuf, usize>,
    folders: BTreeSet<PathBuf>,
    pending_names: Vec<NameChange>,
}

/// A change of names that happens wholly or not at all.
#[derive(Clone)]
struct NameChange {
    unlink: Option<PathBuf>,
    link: Option<(PathBuf, usize)>,
}

impl NameChange {
    fn touches(&self, folder: &Path) -> bool {
        let linked = self.link.as_ref().map(|(path, _)| path);
        let mut paths = self.unlink.iter().chain(linked);
        paths.any(|path| path.parent().unwrap_or(Path::new("")) == folder)
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        if let Some(path) = &self.unlink {
            names.remove(path);
        }
        if let Some((path, file)) = &self.link {
            names.insert(path.clone(), *file);
        }
    }
}

#[derive(Clone, Default)]
struct File {
    durable: Content,
    /// The length as processes see it.
    len: u64,
    pending: Vec<Change>,
    /// The bytes that the cache shows, after a failed sync has made it forget what was to be
    /// written.
    cached: Option<Content>,
}

#[derive(Clone)]
enum Change {
    Write { offset: u64, bytes: Arc<[u8]> },
    SetLen(u64),
}

impl Change {
    fn apply(&self, content: &mut Content) {
        match self {
            Self::Write { offset, bytes } => content.put(*offset, bytes),
            Self::SetLen(len) => content.resize(*len as usize),
        }
    }
}

impl Image {
    /// Does what happened.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Create { file, path } => {
                debug_assert_eq!(*file, self.files.len());
                self.files.push(File::default());
                let link = Some((path.clone(), *file));
                self.pending_names.push(NameChange { unlink: None, link });
            }
            Event::CreateFolder { path } => {
                self.folders.insert(path.clone());
            }
            Event::Write { file, offset, bytes } => {
                let change = Change::Write { offset: *offset, bytes: bytes.clone() };
                self.files[*file].change(change);
            }
            Event::SetLen { file, len } => {
                self.files[*file].change(Change::SetLen(*len));
            }
            Event::Sync { file } => self.files[*file].sync(),
            Event::SyncRange { file, offset, len } => {
                self.files[*file].sync_range(*offset, *len);
            }
            Event::SyncFailed { file, kept, seed } => self.files[*file].fail_sync(*kept, *seed),
            Event::SyncDirectory { folder } => {
                let last = self.pending_names.iter().rposition(|change| change.touches(folder));
                for change in self.pending_names.drain(..last.map_or(0, |last| last + 1)) {
                    change.apply(&mut self.names);
                }
            }
            Event::Remove { path } => {
                self.pending_names.push(NameChange { unlink: Some(path.clone()), link: None });
            }
            Event::Rename { file, from, to } => {
                let link = Some((to.clone(), *file));
                self.pending_names.push(NameChange { unlink: Some(from.clone()), link });
            }
            Event::Link { file, to, .. } => {
                let link = Some((to.clone(), *file));
                self.pending_names.push(NameChange { unlink: None, link });
            }
            Event::Edit { file, offset, bytes } => self.files[*file].edit(*offset, bytes),
            Event::Mark(_) => {}
        }
    }

    /// What a power cut now may leave, with nothing pending. Files without a name are gone.
    pub(super) fn after_crash(&self, mode: CrashMode, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut kept = self.names.clone();
        let pending = self.pending_names.len();
        for change in &self.pending_names[..mode.up_to(pending, &mut random)] {
            change.apply(&mut kept);
        }
        let mut files = Vec::new();
        let mut names = BTreeMap::new();
        let mut moved = BTreeMap::new();
        for (path, file) in kept {
            let number = *moved.entry(file).or_insert_with(|| {
                let durable = self.files[file].after_crash(mode, &mut random);
                let len = durable.len();
                files.push(File { len, durable, pending: Vec::new(), cached: None });
                files.len() - 1
            });
            names.insert(path, number);
        }
        Self { files, names, folders: self.folders.clone(), pending_names: Vec::new() }
    }

    pub(super) fn folders(&self) -> &BTreeSet<PathBuf> {
        &self.folders
    }

    /// The contents by number, and the names, as processes see them: all that is pending is done.
    pub(super) fn seen(&self) -> (Vec<Content>, BTreeMap<PathBuf, usize>) {
        let mut names = self.names.clone();
        for change in &self.pending_names {
            change.apply(&mut names);
        }
        (self.files.iter().map(File::seen).collect(), names)
    }

    /// How many files there have been: the number of the next one.
    pub(super) fn files_so_far(&self) -> usize {
        self.files.len()
    }

    /// Whether a power cut now leaves the same whatever it does.
    pub(super) fn is_settled(&self) -> bool {
        self.pending_names.is_empty() && self.files.iter().all(|file| file.pending.is_empty())
    }
}

impl File {
    fn change(&mut self, change: Change) {
        self.len = match &change {
            Change::Write { offset, bytes } => self.len.max(offset + bytes.len() as u64),
            Change::SetLen(len) => *len,
        };
        if let Some(cached) = &mut self.cached {
            change.apply(cached);
        }
        self.pending.push(change);
    }

    /// Makes all that is pending durable.
    fn sync(&mut self) {
        for change in self.pending.drain(..) {
            change.apply(&mut self.durable);
        }
        debug_assert_eq!(self.durable.len(), self.len);
    }

    /// Makes the bytes of a range durable, as they are seen, and nothing else that is pending.
    fn sync_range(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        self.durable.put(offset, &self.seen().get(offset, len as usize));
        let pending = std::mem::take(&mut self.pending);
        for change in pending {
            match change {
                Change::Write { offset: at, bytes } => {
                    let until = at + bytes.len() as u64;
                    let parts = [(at, until.min(offset)), (at.max(end), until)];
                    for (from, to) in parts.into_iter().filter(|(from, to)| from < to) {
                        let bytes = &bytes[(from - at) as usize..(to - at) as usize];
                        self.pending.push(Change::Write { offset: from, bytes: bytes.into() });
                    }
                }
                other => self.pending.push(other),
            }
        }
    }

    /// The content as processes see it.
    fn seen(&self) -> Content {
        if let Some(cached) = &self.cached {
            return cached.clone();
        }
        let mut seen = self.durable.clone();
        self.pending.iter().for_each(|change| change.apply(&mut seen));
        seen
    }

    /// Decides which pending writes reached the disk, and forgets the rest, except the length.
    fn fail_sync(&mut self, kept: Kept, seed: u64) {
        let mut random = Random::new(seed);
        self.cached = Some(self.seen());
        match kept {
            Kept::All => self.sync(),
            Kept::Some => {
                self.durable = self.settle(usize::MAX, Tearing::Sectors(512), &mut random);
                self.pending.clear();
            }
            Kept::None => {
                let shortest = self.lengths().min().unwrap_or(self.len);
                self.pending = vec![Change::SetLen(shortest), Change::SetLen(self.len)];
            }
        }
    }

    fn edit(&mut self, offset: u64, bytes: &Arc<[u8]>) {
        self.durable.put(offset, bytes);
        self.change(Change::Write { offset, bytes: bytes.clone() });
    }

    /// The lengths that the file had, from the durable one on, one for each change.
    fn lengths(&self) -> impl Iterator<Item = u64> {
        let durable = self.durable.len();
        let changes = self.pending.iter().scan(durable, |len, change| {
            *len = match change {
                Change::Write { offset, bytes } => (*len).max(offset + bytes.len() as u64),
                Change::SetLen(new) => *new,
            };
            Some(*len)
        });
        std::iter::once(durable).chain(changes)
    }

    fn after_crash(&self, mode: CrashMode, random: &mut Random) -> Content {
        let lengths = mode.up_to(self.pending.len(), random);
        let tearing = match mode {
            CrashMode::LoseAll => return self.durable.clone(),
            CrashMode::KeepAll => Tearing::Never,
            CrashMode::Whole => Tearing::Writes,
            CrashMode::Torn512 => Tearing::Sectors(512),
            CrashMode::Torn4096 => Tearing::Sectors(4096),
        };
        self.settle(lengths, tearing, random)
    }

    /// The content that arises if the lengths of the first `lengths` changes take effect, and of
    /// all writes the parts that `tearing` and chance keep.
    fn settle(&self, lengths: usize, tearing: Tearing, random: &mut Random) -> Content {
        let mut content = self.durable.clone();
        let mut kept_len = self.durable.len() as usize;
        // Now and then nearly everything or nearly nothing, else about the half.
        let odds = [1, 4, 7][random.below(3) as usize];
        for (index, (change, len)) in self.pending.iter().zip(self.lengths().skip(1)).enumerate() {
            if index < lengths {
                kept_len = len as usize;
            }
            match change {
                Change::Write { offset, bytes } => {
                    for range in tearing.pieces(*offset, bytes.len()) {
                        if matches!(tearing, Tearing::Never) || random.below(8) < odds {
                            content.put(offset + range.start as u64, &bytes[range]);
                        }
                    }
                }
                Change::SetLen(len) if index < lengths => {
                    content.resize(content.len().min(*len) as usize);
                }
                Change::SetLen(_) => {}
            }
        }
        content.resize(kept_len);
        content
    }
}

/// In which pieces a write may survive.
#[derive(Clone, Copy)]
enum Tearing {
    Never,
    Writes,
    Sectors(usize),
}

impl Tearing {
    /// The pieces of a write of `len` bytes at `offset`, as ranges of its bytes.
    fn pieces(self, offset: u64, len: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        let (first, size) = match self {
            Self::Never | Self::Writes => (len, len.max(1)),
            Self::Sectors(size) => (size - (offset % size as u64) as usize, size),
        };
        let mut start = 0;
        std::iter::from_fn(move || {
            let end = if start == 0 { first } else { start + size }.min(len);
            let piece = start..end;
            start = end;
            (!piece.is_empty()).then_some(piece)
        })
    }
}

impl CrashMode {
    /// How many of `count` changes that survive in their order do.
    fn up_to(self, count: usize, random: &mut Random) -> usize {
        match self {
            Self::LoseAll => 0,
            Self::KeepAll => count,
            _ => random.below(count as u64 + 1) as usize,
        }
    }
}
