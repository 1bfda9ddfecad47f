//! The adapters: one file an engine, translation only.

pub(crate) mod beyond;
#[cfg(feature = "fjall")]
pub(crate) mod fjall;
pub(crate) mod hollow;
pub(crate) mod level;
pub(crate) mod library;
pub(crate) mod lmdb;
mod redb;
#[cfg(feature = "sql")]
pub(crate) mod sql;
pub(crate) mod sqlite;
mod tree;
