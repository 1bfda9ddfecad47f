//! The log-structured engine: a directory with a write-ahead log, which is also the value log, and
//! sorted tables. It is for many writes, and for more data than fits in memory.
//!
//! ```
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("db");
//! use hedgerow::lsm::{Batch, KeyspaceOptions, Options, Readable};
//!
//! let db = Options::new().create(true).open(&path)?;
//! let people = db.keyspace("people", KeyspaceOptions::default())?;
//! db.put(&people, b"1", b"Ada")?;
//!
//! let mut batch = Batch::new();
//! batch.put(&people, b"2", b"Grace")?;
//! batch.delete(&people, b"1")?;
//! db.write(batch)?;
//!
//! assert_eq!(db.get(&people, b"1")?, None);
//! for entry in db.range(&people, ..)? {
//!     let (key, value) = entry?;
//!     assert_eq!((&key[..], &value[..]), (&b"2"[..], &b"Grace"[..]));
//! }
//! db.close()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A commit is a [`Batch`] over any number of keyspaces: all of it applies or nothing, and after a
//! crash the surviving commits are a prefix of those that were made
//! ([`Durability`](crate::Durability) says how long a prefix). Threads that commit at the same time
//! share one write and one flush. Values from [`KeyspaceOptions::separation_threshold`] on are
//! written once, to the log, and stay there until enough around them is garbage.
//!
//! [`TypedKeyspace`] puts keys and values of Rust's types on top of a keyspace of bytes.
//!
//! # Memory
//!
//! [`Options::memory_limit`] is one number for all of it. [`Db::stat`] says what it is used for
//! ([`MemoryStat`]) and what was read ([`ReadStat`]). Files are read past the system's cache if the
//! file system supports that. Once the blocks that lead to a separated value are in the store's own
//! cache, a get is one read of the disk; [`multi_get`](Readable::multi_get) has up to 128 of them
//! in flight from one thread. Memory that the store's cache leaves free keeps the end of the log in
//! the system's cache, so that a store whose process was killed opens without reading it from the
//! disk.
//!
//! A process can have many stores open that it hardly uses: one that is open takes three files,
//! some dozens of KiB, and 132 KiB of the system's cache. Its three threads in the background are
//! started when there is work for one of them: after some MiB were written to it, or if tables wait
//! for a merge. They end when it is closed. Where the system starts no more threads, the threads
//! that write do their work, or fail with an error that says so; where it starts only some, merging
//! may wait until it starts more, and [`Db::stat`] says why.
//!
//! # Limits
//!
//! - Either one process has a store open, once, or any number of processes have it open for reading
//!   only ([`Options::open_read_only`]).
//! - Keys have up to 1 MiB, values up to 4 GiB less one byte, a batch up to 4 GiB. A value is
//!   handed out as a whole.
//! - A line of 24 bytes for each collected value stays in memory until its key is next merged.
//! - A range steps over each deleted entry that has not been merged away yet.
//! - Puts fail shortly before the disk is full: deleting and merging take some room, too.
//! - Files of a store of some dozens of segments or more take at most about 1.4 times its keys and
//!   values, work in progress included; writers wait if collections are late. A log segment is kept
//!   as long as anything in it is needed, so small stores can take a multiple of their size.

mod background;
mod backup;
mod buffer;
mod catalog;
mod check;
mod checkpoint;
mod clock;
mod closing;
mod commit;
mod db;
mod diff;
mod engine;
mod entry;
mod files;
mod filter;
mod identity;
mod keyspace;
mod levels;
mod log;
mod memtable;
mod merge;
mod names;
mod numbers;
mod open;
mod options;
mod pins;
mod read;
mod salvage;
mod stat;
mod table;
mod tombstones;
mod typed;
mod values;
mod varint;

pub use backup::BackupReport;
pub use check::CheckReport;
pub use commit::asking::Pending;
pub use commit::batch::Batch;
pub use commit::transaction::{Transaction, TransactionRange};
pub use db::Db;
pub use diff::{Change, Diff, KeyspaceChange};
pub use keyspace::{Keyspace, KeyspaceOptions};
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub use levels::simulate;
pub use open::reader::Reader;
pub use options::Options;
pub use read::cursor::{Cursor, Entry};
pub use read::range::Range;
pub use read::readable::Readable;
pub use read::snapshot::Snapshot;
pub(crate) use read::touched::{LogPlace, Touched};
pub use salvage::{Loss, SalvageReport};
pub use stat::{DbStat, LevelStat, MemoryStat, Pin, ReadStat};
pub use typed::{TypedKeyspace, TypedRange, TypedRead, TypedWrite};
