//! The engine of a database: the tree or the log-structured one, with what both can do for it.

use std::path::Path;
use std::sync::Arc;

use crate::batch::Op;
use crate::options::{Kind, Options};
use crate::status::{Result, Status};

mod flusher;
mod lsm;
#[cfg(test)]
mod power;
mod tree;

/// The name of the one table, or keyspace, with a database's entries.
const NAME: &str = "leveldb";
/// How many levels LevelDB shows.
pub(crate) const LEVELS: usize = 7;

/// Files and bytes of a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// An open engine.
pub(crate) enum Engine {
    Tree(tree::Tree),
    Lsm(lsm::Lsm),
}

/// A state of the database that is read later, by any thread.
pub(crate) enum Snapshot {
    Tree(Arc<tree::View>),
    Lsm(hedgerow::lsm::Snapshot),
}

/// A place among the entries of a snapshot.
pub(crate) enum Place {
    Tree(tree::Place),
    Lsm(lsm::Place),
}

/// A string as C takes it; null where there is none.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Str {
    pub(crate) at: *const u8,
    pub(crate) len: usize,
}

impl Str {
    pub(crate) const NONE: Self = Self { at: std::ptr::null(), len: 0 };

    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self { at: bytes.as_ptr(), len: bytes.len() }
    }
}

impl Engine {
    /// Makes the files of an engine.
    pub(crate) fn create(kind: Kind, folder: &Path, options: &Options) -> Result<Self> {
        Ok(match kind {
            Kind::Tree => Self::Tree(tree::Tree::create(folder, options)?),
            Kind::Lsm => Self::Lsm(lsm::Lsm::open(folder, options, true)?),
        })
    }

    /// Opens the files of an engine.
    pub(crate) fn open(kind: Kind, folder: &Path, options: &Options) -> Result<Self> {
        Ok(match kind {
            Kind::Tree => Self::Tree(tree::Tree::open(folder, options)?),
            Kind::Lsm => Self::Lsm(lsm::Lsm::open(folder, options, false)?),
        })
    }

    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Tree(_) => Kind::Tree,
            Self::Lsm(_) => Kind::Lsm,
        }
    }

    /// Applies all operations or none; with `sync` they are on stable storage afterwards.
    pub(crate) fn write(&self, ops: &[Op<'_>], sync: bool) -> Result<()> {
        match self {
            Self::Tree(tree) => tree.write(ops, sync),
            Self::Lsm(lsm) => lsm.write(ops, sync),
        }
    }

    /// Shows the value of a key, in a snapshot or now.
    pub(crate) fn get<R>(
        &self,
        at: Option<&Snapshot>,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> R,
    ) -> Result<R> {
        match (self, at) {
            (_, Some(Snapshot::Tree(view))) => view.get(key, see),
            (Self::Tree(tree), _) => tree.view()?.get(key, see),
            (Self::Lsm(lsm), at) => lsm.get(at.and_then(Snapshot::lsm), key, see),
        }
    }

    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        Ok(match self {
            Self::Tree(tree) => Snapshot::Tree(Arc::new(tree.view()?)),
            Self::Lsm(lsm) => Snapshot::Lsm(lsm.snapshot()),
        })
    }

    /// A place in a snapshot, or in the database as it is now; it stands nowhere yet.
    pub(crate) fn place(&self, at: Option<&Snapshot>) -> Result<Place> {
        Ok(match (self, at) {
            (Self::Tree(tree), at) => Place::Tree(tree.place(at.and_then(Snapshot::tree))?),
            (Self::Lsm(lsm), at) => Place::Lsm(lsm.place(at.and_then(Snapshot::lsm))?),
        })
    }

    /// About how many bytes the entries from one key to another take.
    pub(crate) fn bytes_between(&self, from: &[u8], to: &[u8]) -> Result<u64> {
        match self {
            Self::Tree(tree) => tree.bytes_between(from, to),
            Self::Lsm(lsm) => lsm.bytes_between(from, to),
        }
    }

    /// Makes the files small; of the log-structured engine only where it is about all keys.
    pub(crate) fn compact(&self, all: bool) -> Result<()> {
        match self {
            Self::Tree(tree) => tree.compact(),
            Self::Lsm(lsm) => lsm.compact(all),
        }
    }

    pub(crate) fn levels(&self) -> Result<[Level; LEVELS]> {
        match self {
            Self::Tree(tree) => tree.levels(),
            Self::Lsm(lsm) => Ok(lsm.levels()),
        }
    }

    /// How many bytes of memory it takes, about.
    pub(crate) fn memory(&self) -> u64 {
        match self {
            Self::Tree(tree) => tree.memory(),
            Self::Lsm(lsm) => lsm.memory(),
        }
    }

    /// How many entries there are.
    pub(crate) fn count(&self) -> Result<u64> {
        match self {
            Self::Tree(tree) => tree.view()?.count(),
            Self::Lsm(lsm) => lsm.count(),
        }
    }

    /// Reads and verifies everything; what is damaged, in words.
    pub(crate) fn check(&self) -> Result<Vec<String>> {
        match self {
            Self::Tree(tree) => tree.check(),
            Self::Lsm(lsm) => lsm.check(),
        }
    }

    /// Writes a copy of the newest state into a folder that is there.
    pub(crate) fn copy_to(&self, folder: &Path) -> Result<()> {
        match self {
            Self::Tree(tree) => tree.copy_to(folder),
            Self::Lsm(lsm) => lsm.copy_to(folder),
        }
    }
}

/// Brings what can still be read of an engine's files in one folder over to another one, where it
/// is durable afterwards. Says what is lost.
///
/// # Errors
/// If the files are of another order than the options' comparator, besides those of the system.
pub(crate) fn salvage(
    kind: Kind,
    old: &Path,
    new: &Path,
    options: &Options,
) -> Result<Vec<String>> {
    match (kind, &options.comparator.compare) {
        (Kind::Tree, _) => tree::salvage(old, new, options),
        (Kind::Lsm, None) => lsm::salvage(old, new),
        (Kind::Lsm, Some(_)) => {
            Err(Status::invalid("the comparator is not the one of this database"))
        }
    }
}

impl Snapshot {
    fn tree(&self) -> Option<&Arc<tree::View>> {
        match self {
            Self::Tree(view) => Some(view),
            Self::Lsm(_) => None,
        }
    }

    fn lsm(&self) -> Option<&hedgerow::lsm::Snapshot> {
        match self {
            Self::Lsm(snapshot) => Some(snapshot),
            Self::Tree(_) => None,
        }
    }
}

/// A step to an entry: which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move<'k> {
    First,
    Last,
    /// To the first entry at or after a key.
    Seek(&'k [u8]),
    Next,
    Prev,
}

/// The entry to which a move led: it stands there until the next one.
#[derive(Clone, Copy)]
pub(crate) struct Here {
    pub(crate) key: Str,
    /// `None` where it is still to be read.
    pub(crate) value: Option<Str>,
}

impl Place {
    /// Moves to an entry. Where there is none, only `First`, `Last` and `Seek` lead to one again.
    #[inline(always)]
    pub(crate) fn go(&mut self, to: Move<'_>) -> Result<Option<Here>> {
        match self {
            Self::Tree(place) => place.go(to),
            Self::Lsm(place) => place.go(to),
        }
    }

    /// The value of the entry to which the last move led, as long as its key.
    pub(crate) fn value(&mut self) -> Result<Str> {
        match self {
            Self::Tree(place) => Ok(place.value()),
            Self::Lsm(place) => place.value(),
        }
    }
}
