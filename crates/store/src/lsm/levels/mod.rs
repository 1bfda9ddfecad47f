//! Which tables and segments there are: versions and the edits between them, what to merge and
//! doing it. `compact`, `debt` and `pace` are pure.

pub(crate) mod compact;
pub(crate) mod cursor;
pub(crate) mod debt;
pub(crate) mod manifest;
pub(crate) mod pace;
pub(crate) mod run;
#[cfg(any(test, feature = "testing"))]
pub mod simulate;
pub(crate) mod table_file;
pub(crate) mod version;
