//! What a rescue answers.

use std::path::PathBuf;

/// What was copied, and what was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// Keyspaces of the new store.
    pub keyspaces: u64,
    /// Its entries.
    pub entries: u64,
    /// What is missing, and where.
    pub losses: Vec<Loss>,
}

/// Something that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// The offset in it from which on it cannot be read.
    pub offset: u64,
    /// What is wrong.
    pub reason: &'static str,
    /// How many entries or operations of the log are missing, where that is known.
    pub count: Option<u64>,
    /// Keyspace and key after which something is missing; `None`: from the first one on.
    pub after: Option<(Vec<u8>, Vec<u8>)>,
    /// Keyspace and key before which something is missing; `None`: up to the last one. The same as
    /// `after`: that key itself.
    pub before: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether `after` and `before` say something: the keys lost by damage in the log are unknown.
    pub has_keys: bool,
}
