//! Separated values of a damaged store, found through their pointers. A pointer holds the length
//! and a checksum of its value, so it can be decided whether the bytes at a place are that value.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use super::super::entry::{Kind, Pointer, value_sum};
use super::super::files::{Directory, Name};
use super::found::Item;
use crate::lsm::values::remap::Remap;
use crate::os::DataFile;

/// A segment in which values stand.
pub(super) struct Home {
    pub(super) path: PathBuf,
    pub(super) file: Arc<dyn DataFile>,
    /// Where values stood before that stand here.
    pub(super) remap: Option<Remap>,
}

/// A file, a place in it, and why the value is not there.
type Unread = (PathBuf, u64, &'static str);

/// Where values stand.
pub(super) struct Values {
    directory: Arc<Directory>,
    pub(super) homes: BTreeMap<u32, Home>,
    /// For collected values whose list of places is damaged: the place of the value, by key and
    /// sequence number.
    pub(super) by_key: HashMap<(Vec<u8>, u64), (u32, u64)>,
    /// Bytes that were to stand in a segment: its number, and where the first of them belongs.
    pub(super) pending: Option<(u32, u64, Vec<u8>)>,
}

impl Values {
    pub(super) fn new(directory: &Arc<Directory>) -> Self {
        let homes = BTreeMap::new();
        let by_key = HashMap::new();
        let pending = None;
        Self { directory: Arc::clone(directory), homes, by_key, pending }
    }

    /// The value of an entry.
    pub(super) fn of(&self, item: &Item) -> Result<Vec<u8>, Unread> {
        if item.kind != Kind::Separated {
            return Ok(item.value.clone());
        }
        let Some(pointer) = Pointer::decode(&item.value) else {
            let what = "an entry has no pointer to its value";
            return Err((self.directory.path.clone(), 0, what));
        };
        let moved = self.homes.iter().filter_map(|(&number, home)| {
            Some((number, home.remap.as_ref()?.find(pointer.segment, pointer.offset)?))
        });
        let by_key = self.by_key.get(&(item.key.clone(), item.seq)).copied();
        let first = [(pointer.segment, pointer.offset)].into_iter();
        let mut last = None;
        for (segment, offset) in first.chain(moved).chain(by_key) {
            if let Some(value) = self.read(segment, offset, pointer) {
                return Ok(value);
            }
            last = self.homes.get(&segment).map(|home| (home.path.clone(), offset)).or(last);
        }
        Err(match last {
            Some((path, offset)) => (path, offset, "a value is damaged"),
            None => {
                let path = self.directory.file(Name::Segment(pointer.segment));
                (path, 0, "a segment that held values is missing")
            }
        })
    }

    /// The bytes at a place, if they are the value of that pointer.
    fn read(
        &self,
        segment: u32,
        offset: u64,
        Pointer { len, sum, .. }: Pointer,
    ) -> Option<Vec<u8>> {
        let is_it = |bytes: &Vec<u8>| value_sum(bytes) == sum;
        let pending = || {
            let (_, at, bytes) = self.pending.as_ref().filter(|pending| pending.0 == segment)?;
            let from = usize::try_from(offset.checked_sub(*at)?).ok()?;
            bytes.get(from..from.checked_add(len as usize)?).map(<[u8]>::to_vec)
        };
        let stored = || {
            let file = &self.homes.get(&segment)?.file;
            let end = offset.checked_add(u64::from(len))?;
            let mut bytes =
                vec![0; file.len().is_ok_and(|all| end <= all).then_some(len)? as usize];
            file.read_at(&mut bytes, offset).ok().map(|()| bytes)
        };
        stored().filter(is_it).or_else(|| pending().filter(is_it))
    }
}
