//! The log: segments, groups and torn tails; its end that was not written yet, where readers find
//! it and where it outlives the process; and what of it the system's cache keeps.

pub(crate) mod groups;
pub(crate) mod held;
pub(crate) mod pending;
pub(crate) mod segment;
pub(crate) mod wal;
pub(crate) mod warm;
