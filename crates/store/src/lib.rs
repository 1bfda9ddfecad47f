//! Hedgerow: an embedded, ordered, transactional key-value store that counts.
//!
//! The library has two engines. [`tree`] keeps a store in one file: a memory-mapped copy-on-write
//! B+tree with many readers and one writer, in many threads and processes, which counts. [`lsm`] is
//! for many writes: it keeps a store in a directory with a write-ahead log and sorted tables.
//! [`key`] holds order-preserving encodings for typed keys.

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
