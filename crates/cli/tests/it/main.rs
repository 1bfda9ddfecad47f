//! The `hedgerow` binary as its users run it: arguments and standard input in, exit code and output
//! out. Nothing here looks inside.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod demo;
mod entries;
#[cfg(unix)]
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
mod lsm;
#[cfg(unix)]
mod newcomer;
#[cfg(target_os = "linux")]
mod operations;
mod pins;
mod portable;
mod salvage;
mod sandbox;
#[cfg(unix)]
mod scarce;
mod scripts;
#[cfg(feature = "sql")]
mod sql;
#[cfg(all(unix, feature = "lmdb"))]
mod to_lmdb;
#[cfg(unix)]
mod tools;
mod whole;
