//! The adapters: one file an engine, translation only.

pub(crate) mod hollow;
pub(crate) mod lmdb;
pub(crate) mod redb;
mod tree;
