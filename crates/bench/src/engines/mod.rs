//! The adapters: one file an engine, translation only.

pub(crate) mod beyond;
#[cfg(feature = "fjall")]
pub(crate) mod fjall;
pub(crate) mod hollow;
pub(crate) mod level;
pub(crate) mod library;
pub(crate) mod lmdb;
#[cfg(feature = "mdbx")]
pub(crate) mod mdbx;
mod redb;
#[cfg(feature = "sanakirja")]
mod sanakirja;
pub(crate) mod sqlite;
mod tree;
