//! Separated values: where they stand, reading them together, collecting those that are still
//! needed out of segments of which little is, and where collected ones went.

pub(crate) mod arrange;
pub(crate) mod gather;
pub(crate) mod gc;
pub(crate) mod moving;
pub(crate) mod needed;
pub(crate) mod place;
pub(crate) mod remap;
pub(crate) mod vlog;
