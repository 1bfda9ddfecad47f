//! Getting values by their keys from a view: one, or several whose reads wait together.

use std::sync::atomic::Ordering;

use super::fetch::{self, Wanted};
use super::search::{self, Open, Search, Separated, Value};
use super::view::View;
use crate::Result;
use crate::lsm::entry::{KEYSPACE_BYTES, Kind, Pointer};
use crate::lsm::files::cached::Cached;
use crate::lsm::keyspace::Keyspace;

impl View {
    /// The value of a full key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value<'_>>> {
        let directory = self.version().directory();
        directory.reads.gets.fetch_add(1, Ordering::Relaxed);
        let open = Open::default();
        let mut search = Search::new(self, &open, key, 0);
        fetch::run_one(&directory.blocks, &mut search)?;
        Ok(search.into_value().1)
    }

    /// The values of several keys of a keyspace, each with the number of its key, as they come:
    /// their reads wait for the disk together.
    fn multi_get<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        mut see: impl FnMut(usize, Option<Value<'_>>),
    ) -> Result<()> {
        let directory = self.version().directory();
        directory.reads.gets.fetch_add(keys.len() as u64, Ordering::Relaxed);
        // Neighbours find the same things, which are at hand then.
        let keys = FullKeys::in_order(keyspace.id(), keys);
        let open = Open::default();
        let searches = keys.iter().map(|(tag, key)| Search::new(self, &open, key, tag));
        fetch::run(directory, searches, |done| {
            let (tag, value) = done.into_value();
            see(tag, value);
        })
    }

    /// The same as a list in the order of the keys.
    pub(crate) fn values<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values = vec![None; keys.len()];
        self.multi_get(keyspace, keys, |number, value| {
            values[number] = value.map(Value::into_vec)
        })?;
        Ok(values)
    }

    /// Shows the values of several entries.
    pub(crate) fn show<K: AsRef<[u8]>>(
        &self,
        keyspace: &Keyspace,
        keys: &[K],
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        self.multi_get(keyspace, keys, |number, value| {
            search::show(value, |value| see(number, value));
        })
    }

    /// The value of an entry; `None` for a tombstone.
    pub(crate) fn value(&self, kind: Kind, value: &[u8]) -> Result<Option<Vec<u8>>> {
        match kind {
            Kind::Tombstone => Ok(None),
            Kind::Inline => Ok(Some(value.to_vec())),
            Kind::Separated => match search::separated(self, Pointer::decode(value))? {
                Separated::Held(value) => Ok(Some(value)),
                Separated::There(place) => {
                    match Wanted::Value(place).get(&self.version().directory().blocks)? {
                        Cached::Value(value) => Ok(Some(value.to_vec())),
                        Cached::Table(_) | Cached::Block(_) => Ok(None),
                    }
                }
            },
        }
    }
}

/// The full keys of several keys, one after the other in their order, each with its number.
struct FullKeys {
    bytes: Vec<u8>,
    /// The number of a key, and where it ends.
    ends: Vec<(usize, usize)>,
}

impl FullKeys {
    fn in_order<K: AsRef<[u8]>>(keyspace: u32, keys: &[K]) -> Self {
        // The beginning of a key as a number decides nearly always.
        let head = |key: &[u8]| {
            let mut first = [0; 8];
            let len = key.len().min(first.len());
            first[..len].copy_from_slice(&key[..len]);
            u64::from_be_bytes(first)
        };
        let mut order: Vec<(u64, usize)> =
            keys.iter().map(|key| head(key.as_ref())).zip(0..).collect();
        order.sort_unstable_by(|a, b| {
            let keys = || keys[a.1].as_ref().cmp(keys[b.1].as_ref());
            a.0.cmp(&b.0).then_with(keys)
        });
        let len = keys.iter().map(|key| KEYSPACE_BYTES + key.as_ref().len()).sum();
        let (mut bytes, mut ends) = (Vec::with_capacity(len), Vec::with_capacity(keys.len()));
        for (_, number) in order {
            bytes.extend_from_slice(&keyspace.to_be_bytes());
            bytes.extend_from_slice(keys[number].as_ref());
            ends.push((number, bytes.len()));
        }
        Self { bytes, ends }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(number, end)| {
            let key = &self.bytes[start..end];
            start = end;
            (number, key)
        })
    }
}
