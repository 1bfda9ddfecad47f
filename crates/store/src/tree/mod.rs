//! The tree engine: one file, a memory-mapped copy-on-write B+tree that counts.
//!
//! Many readers and one writer, in many threads and processes; every table answers counts, ranks
//! and positions in logarithmic time.

mod any_txn;
mod branches;
mod bytes;
mod catalog;
mod check;
mod combine;
mod commit;
mod compact;
mod copy;
mod cursor;
mod diff;
mod entry;
mod extent;
mod flush;
mod free;
mod group;
mod image;
mod insert;
mod log;
mod meta;
mod open;
mod options;
mod order;
mod page;
mod page_ref;
mod pages;
mod path;
mod pins;
mod range;
mod rank;
mod rebalance;
mod recover;
mod registry;
mod remove;
mod report;
mod salvage;
mod search;
mod snapshot;
mod spill;
mod stat;
mod state;
mod store;
mod tail;
#[expect(clippy::module_inception, reason = "the module is the tree of the tree engine")]
mod tree;
mod txn;
mod txn_read;
mod typed;
mod words;

pub use any_txn::AnyTxn;
pub use bytes::Bytes;
#[cfg(test)]
pub(crate) use check::tests::mix;
pub use cursor::Cursor;
pub use diff::{Change, Diff, TableChange};
pub use entry::{Count, Entry, Rank, Table, TableInfo};
pub use options::{Builder, Compare, Duplicates, Order, Paths, TableOptions};
pub use range::Range;
pub use report::{
    CheckReport, CompactReport, CopyOptions, Holders, LevelShape, LogReport, Loss, Pin, Reader,
    SalvageReport, StoreStat, TableShape, TableStat,
};
pub(crate) use snapshot::split_mix;
pub use snapshot::{Snapshot, ValueReader};
pub use state::Savepoint;
pub use store::{Interrupt, Store};
pub use txn::{Nested, Update, ValueWriter, WriteTxn};
pub use txn_read::ReadTxn;
pub use typed::{TypedMultimap, TypedRange, TypedTable, type_flags};

/// Steps of a cursor that give keys and values in one piece, for interfaces that hand out pointers
/// and count instructions. Not part of the public interface.
#[doc(hidden)]
pub mod raw {
    pub use super::bytes::Joined;
    pub use super::cursor::{Ahead, Among, KeyRoom, Passed, Passing, Step};
    pub use super::page::group::ValueRun;
    pub use super::page::keys::{AHEAD, Keys, Probing, Search};
}
