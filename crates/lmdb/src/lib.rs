//! `liblmdb.so.0`: the C interface of LMDB 0.9, and DLMDB's calls, on Hedgerow's tree engine.
//!
//! The crate translates and decides nothing about data. `abi` has the numbers and structs of
//! `include/lmdb.h`, `ffi` the exported functions, which check pointers and call the safe rest:
//!
//! | module | holds |
//! |---|---|
//! | `env`, `readers` | environments, and their reader slots |
//! | `handles`, `dbi` | which number is which database; opening and dropping |
//! | `txn` | transactions and their children |
//! | `data`, `cursor`, `multiple` | the calls on entries |
//! | `count` | DLMDB's counts, ranks and lists |
//! | `place` | LMDB's states of a cursor over a cursor of the engine |
//! | `main_db` | the main database with the records of named ones |
//! | `arena` | strings that the store holds in two pieces |
//! | `code` | errors as codes |
//!
//! What differs from LMDB, and why, stands in docs/lmdb-compat.md.

// Programs hand over integer keys in the byte order of the machine, and the format's are ordered as
// little-endian ones.
#[cfg(target_endian = "big")]
compile_error!("the C interface of LMDB orders integer keys for little-endian machines only");

mod abi;
mod arena;
mod code;
mod count;
mod cursor;
mod data;
mod dbi;
mod env;
mod ffi;
mod handles;
mod main_db;
mod multiple;
mod place;
mod readers;
mod txn;
