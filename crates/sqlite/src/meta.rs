//! What a store keeps beside SQLite's trees: the numbers of a database's header, the root of the
//! next tree, and what is said about checksums of rows.

use hedgerow::Error;
use hedgerow::tree::Snapshot;
use libsqlite3_sys as sys;

use crate::code::{Answer, code_of};
use crate::sums::Setting;

/// The table of SQLite's numbers, and the key under which they stand.
pub(crate) const META: &str = "sqlite/meta";
pub(crate) const META_KEY: &[u8] = b"meta";
/// SQLite's numbers, and after them the next root.
const META_LEN: usize = 16;
/// The root of the schema.
pub(crate) const SCHEMA: u32 = 1;

/// SQLite's numbers, the root that the next tree gets, and what is said about checksums of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) numbers: [u32; META_LEN],
    pub(crate) next_root: u32,
    /// `None` in a store whose rows have never carried any.
    pub(crate) sums: Option<Setting>,
}

impl Meta {
    pub(crate) const NEW: Self = Self { numbers: [0; META_LEN], next_root: SCHEMA + 1, sums: None };

    pub(crate) fn encode(&self) -> Vec<u8> {
        let sums = self.sums.map(Setting::encode);
        let all = self.numbers.iter().copied().chain([self.next_root]).chain(sums);
        all.flat_map(u32::to_le_bytes).collect()
    }

    fn decode(bytes: &[u8]) -> Answer<Self> {
        let (words, rest) = bytes.as_chunks();
        let mut words = words.iter().copied().map(u32::from_le_bytes);
        let mut meta = Self::NEW;
        for number in meta.numbers.iter_mut().chain([&mut meta.next_root]) {
            *number = words.next().ok_or(sys::SQLITE_CORRUPT)?;
        }
        if let Some(word) = words.next() {
            meta.sums = Some(Setting::decode(word).ok_or(sys::SQLITE_NOTADB)?);
        }
        if words.next().is_some() || !rest.is_empty() {
            return Err(sys::SQLITE_NOTADB);
        }
        Ok(meta)
    }
}

/// The numbers of a snapshot.
pub(crate) fn load_meta<S: Snapshot>(txn: &S) -> Answer<Meta> {
    let table = match txn.table(META) {
        Ok(table) => table,
        Err(Error::NoTable { .. }) => return Ok(Meta::NEW),
        Err(error) => return Err(code_of(&error)),
    };
    match txn.get(table, META_KEY).map_err(|e| code_of(&e))? {
        Some(bytes) => Meta::decode(&bytes.to_vec()),
        None => Ok(Meta::NEW),
    }
}
