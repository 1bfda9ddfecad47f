//! Hedgerow: an embedded, ordered, transactional key-value store that counts.
//!
//! The library has two engines:
//!
//! | | [`tree`] | [`lsm`] |
//! |---|---|---|
//! | choose it for | reads, counts, several processes | small durable writes, large data |
//! | a store is | one file: a copy-on-write B+tree | a directory: a log and sorted tables |
//! | counts, ranks, positions | exact, in one or two descents | estimated counts only |
//! | transactions | many readers and one writer; nested | atomic batches; optimistic |
//! | begin with | [`tree::Store`], [`tree::TypedTable`] | [`lsm::Db`], [`lsm::TypedKeyspace`] |
//!
//! [`key`] holds order-preserving encodings for typed keys.
//!
//! Both engines have types such as `Cursor`, `Range` and `Snapshot`, by the same names: a program
//! that uses both imports them by name, or writes `tree::Cursor` and `lsm::Cursor`.
//!
//! ```
//! use hedgerow::tree::{Store, TypedTable};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("store");
//! let store = Store::create(&path)?;
//! let mut txn = store.begin_write()?;
//! let sizes = TypedTable::<String, u64>::create(&mut txn, "sizes")?;
//! sizes.put(&mut txn, "/usr/bin/awk", 700)?;
//! sizes.put(&mut txn, "/usr/bin/sed", 120)?;
//! txn.commit()?;
//!
//! let txn = store.begin_read()?;
//! let sizes = TypedTable::<String, u64>::open(&txn, "sizes")?;
//! assert_eq!(sizes.rank(&txn, "/usr/bin/sed")?.keys, 1);
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! None is on unless asked for.
//!
//! - `derive`: structs as typed keys, `key::Key`.
//! - `json`, `postcard`: typed values of every type that serde knows, `key::Json` and
//!   `key::Postcard`.
//! - `arrow`: streams as record batches, `stream::arrow`.
//! - `futures`: streams are those of the futures crates.
//! - `tracing`, `metrics`: what a store does, for those who watch it, see [`observe`].
//!
//! # Recipes
//!
//! - A page of a list: [`range`](tree::TypedTable::range) with `skip` (which does not walk) and
//!   `take`.
//! - A place in a leaderboard: [`rank`](tree::TypedTable::rank). The player on a place, or a
//!   percentile: [`nth`](tree::TypedTable::nth).
//! - How many entries a range has: [`count_range`](tree::TypedTable::count_range).
//! - Several values for a key: [`tree::TypedMultimap`].
//! - Many threads that commit a little each: [`tree::Store::write`].
//! - A backup while the store is in use: [`tree::Store::copy_to`], [`lsm::Db::backup`].
//! - Watching a store at work: the features `tracing` and `metrics`, see [`observe`].

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
compile_error!(
    "hedgerow needs Linux, Android or macOS: files are locked by open file descriptions there"
);

pub mod error;
pub mod key;
pub mod lsm;
pub mod observe;
pub mod stream;
pub mod tree;

mod canary;
mod checksum;
mod coding;
mod durability;
mod identify;
#[doc(hidden)]
pub mod os;
mod prefetch;
#[cfg(test)]
mod random;
mod sync;

pub use durability::Durability;
pub use error::{Error, Place, Result};
pub use identify::{FileKind, identify};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
