//! Hedgerow: an embedded, ordered, transactional key-value store that counts.
//!
//! This crate is the library. [`tree`] is the engine: one file, a memory-mapped copy-on-write
//! B+tree with many readers and one writer, in many threads and processes. [`lsm`] is another one,
//! for writing much: a directory with a write-ahead log and sorted tables. [`key`] holds
//! order-preserving encodings for typed keys.

pub mod error;
pub mod key;
pub mod lsm;
pub mod tree;

mod canary;
mod checksum;
mod coding;
mod identify;
#[doc(hidden)]
pub mod os;
mod sync;

pub use error::{Error, Result};
pub use identify::{FileKind, identify};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
