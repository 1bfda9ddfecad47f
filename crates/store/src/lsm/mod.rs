//! The log-structured engine: a directory with a write-ahead log, which is also the value log, and
//! sorted tables.

pub(crate) mod cache;
pub(crate) mod entry;
pub(crate) mod filter;
pub(crate) mod memtable;
