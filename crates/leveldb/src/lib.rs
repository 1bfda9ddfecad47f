//! `libleveldb.so.1d`: LevelDB's interfaces, C and C++, on both of Hedgerow's engines.
//!
//! The crate translates and decides nothing about data. `ffi` has the exported C functions, which
//! check pointers and call the safe rest; the C++ classes in `cpp/` stand on those functions.
//!
//! | module | holds |
//! |---|---|
//! | `db` | an open database: opening, reading, writing, properties |
//! | `repair` | new files in the place of damaged ones |
//! | `engine` | the engine of a database, tree or lsm, as one enum: snapshots, places, batches |
//! | `folder` | what is in a database's folder: `CURRENT`, `LOCK`, foreign files |
//! | `lock` | the lock on a file, against other processes and within this one |
//! | `batch` | the bytes of a write batch |
//! | `options` | what a database is opened with |
//! | `status` | errors as LevelDB says them |
//!
//! What differs from LevelDB, and why, stands in docs/leveldb-compat.md.

mod batch;
mod db;
mod engine;
mod ffi;
mod folder;
mod lock;
mod options;
mod repair;
mod status;
