//! Reading: what a reader sees, looking keys up in steps between which something is read, cursors,
//! and the snapshots that users hold.

pub(crate) mod cursor;
pub(crate) mod estimate;
pub(crate) mod fetch;
pub(crate) mod get;
pub(crate) mod newer;
pub(crate) mod range;
pub(crate) mod readable;
pub(crate) mod search;
pub(crate) mod snapshot;
pub(crate) mod touched;
pub(crate) mod view;
pub(crate) mod window;
