//! The tree engine: one file, a memory-mapped copy-on-write B+tree that counts.
//!
//! Many readers and one writer, in many threads and processes; every table answers counts, ranks
//! and positions in logarithmic time.

mod bytes;
mod cursor;
mod options;
mod snapshot;
mod stat;
mod store;
mod txn;
mod typed;

pub use bytes::Bytes;
pub use cursor::Cursor;
pub use options::{Builder, Compare, Duplicates, Durability, Order, Paths, TableOptions};
pub use snapshot::{Count, Entry, Range, Rank, Snapshot, Table, TableInfo, ValueReader};
pub use stat::{CheckReport, CompactReport, CopyOptions, Reader, StoreStat, TableStat};
pub use store::{Interrupt, Store};
pub use txn::{Nested, ReadTxn, Savepoint, Update, ValueWriter, WriteTxn};
pub use typed::{TypedMultimap, TypedRange, TypedTable};
