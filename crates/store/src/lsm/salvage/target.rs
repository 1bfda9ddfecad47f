//! The new store, and the report in its user's terms.

use std::collections::BTreeMap;

use super::found::Lost;
use super::{Loss, SalvageReport};
use crate::lsm::catalog;
use crate::lsm::commit::batch::Batch;
use crate::lsm::db::Db;
use crate::lsm::entry::KEYSPACE_BYTES;
use crate::lsm::keyspace::{CATALOG, Keyspace, KeyspaceOptions, Record, USER_FLAGS};
use crate::{Durability, Result};

/// A batch is committed when it has this many bytes.
const BATCH_BYTES: usize = 1 << 20;

/// The new store.
pub(super) struct Target<'d> {
    db: &'d Db,
    /// Names and options by number, as far as the catalog came over.
    names: BTreeMap<u32, (Vec<u8>, KeyspaceOptions)>,
    /// User flags by name.
    flags: BTreeMap<Vec<u8>, u32>,
    spaces: BTreeMap<u32, Keyspace>,
    batch: Batch,
    bytes: usize,
    report: SalvageReport,
}

impl<'d> Target<'d> {
    pub(super) fn new(db: &'d Db) -> Self {
        let (names, flags, spaces) = Default::default();
        let (batch, report) = (Batch::new(), SalvageReport::default());
        Self { db, names, flags, spaces, batch, bytes: 0, report }
    }

    pub(super) fn put(&mut self, key: &[u8], value: Vec<u8>) -> Result<()> {
        let Some((id, key)) = key.split_first_chunk::<KEYSPACE_BYTES>() else { return Ok(()) };
        let id = u32::from_be_bytes(*id);
        if id == CATALOG {
            // A record that makes no sense names nothing: its entries get a made-up name.
            if let Some(Record { id, options }) = Record::decode(&value) {
                self.names.insert(id, (key.to_vec(), options));
            }
            return Ok(());
        }
        if id == USER_FLAGS {
            self.flags.extend(catalog::user_flags(&value).map(|flags| (key.to_vec(), flags)));
            return Ok(());
        }
        let space = self.space(id)?;
        self.batch.put(&space, key, &value)?;
        self.bytes += key.len() + value.len();
        self.report.entries += 1;
        if self.bytes >= BATCH_BYTES { self.commit() } else { Ok(()) }
    }

    fn commit(&mut self) -> Result<()> {
        self.bytes = 0;
        self.db.write_with(std::mem::take(&mut self.batch), Durability::None)
    }

    fn name(&self, id: u32) -> (Vec<u8>, KeyspaceOptions) {
        let made_up = || {
            let mut name = format!("salvaged-{id}");
            while self.names.values().any(|(taken, _)| taken == name.as_bytes()) {
                name.push('\'');
            }
            (name.into_bytes(), KeyspaceOptions::default())
        };
        self.names.get(&id).cloned().unwrap_or_else(made_up)
    }

    fn space(&mut self, id: u32) -> Result<Keyspace> {
        if let Some(space) = self.spaces.get(&id) {
            return Ok(space.clone());
        }
        let (name, options) = self.name(id);
        let space = self.db.keyspace(name, options)?;
        self.spaces.insert(id, space.clone());
        Ok(space)
    }

    /// Writes the user flags of the keyspaces that came over. They are read after all else.
    fn keep_flags(&self) -> Result<()> {
        let mut batch = Batch::new();
        for (name, &flags) in &self.flags {
            if self.spaces.values().any(|space| space.name() == name) {
                catalog::push_user_flags(&mut batch, name, flags);
            }
        }
        match batch.is_empty() {
            true => Ok(()),
            false => self.db.inner.commit(batch, Durability::None, None),
        }
    }

    /// Makes the keyspaces in which nothing is, and says in the user's terms what was lost.
    pub(super) fn finish(mut self, lost: Vec<Lost>) -> Result<SalvageReport> {
        self.commit()?;
        let ids: Vec<u32> = self.names.keys().copied().collect();
        ids.into_iter().try_for_each(|id| self.space(id).map(drop))?;
        self.keep_flags()?;
        self.report.keyspaces = self.spaces.len() as u64;
        let place = |key: Vec<u8>| {
            let (id, key) = key.split_first_chunk::<KEYSPACE_BYTES>()?;
            let id = u32::from_be_bytes(*id);
            (![CATALOG, USER_FLAGS].contains(&id)).then(|| (self.name(id).0, key.to_vec()))
        };
        let losses = lost.into_iter().map(|Lost { path, offset, reason, count, keys }| {
            let has_keys = keys.is_some();
            let (after, before) = keys.map_or((None, None), |span| (span.after, span.before));
            let (after, before) = (after.and_then(place), before.and_then(place));
            Loss { path, offset, reason, count, after, before, has_keys }
        });
        self.report.losses = join_losses(losses);
        Ok(self.report)
    }
}

/// Values of neighbouring keys that are lost for the same reason in the same file are one loss.
fn join_losses(losses: impl Iterator<Item = Loss>) -> Vec<Loss> {
    let mut joined: Vec<Loss> = Vec::new();
    for loss in losses {
        let is_value = |loss: &Loss| loss.count.is_some() && loss.has_keys;
        match joined.last_mut() {
            Some(last)
                if is_value(last)
                    && is_value(&loss)
                    && (&last.path, last.reason) == (&loss.path, loss.reason) =>
            {
                last.offset = last.offset.min(loss.offset);
                last.count = last.count.zip(loss.count).map(|(a, b)| a + b);
                last.before = loss.before;
            }
            _ => joined.push(loss),
        }
    }
    joined
}
