//! The pending tree: free runs that a snapshot may still use, several an entry, under the newest
//! one that does.

use super::*;

/// The most runs in one entry of the pending tree.
pub(super) const PENDING_RUNS: usize = 24;
/// The bytes of one run in the pending tree.
const PENDING_LEN: usize = 24;

/// What a transaction has released of the pending tree, and still stands there.
#[derive(Default)]
pub(super) struct Released {
    /// The entries, ascending.
    keys: Vec<(u64, PageNo)>,
    /// Their runs that an older snapshot holds, filed under it.
    moved: Vec<(u64, FreeRun)>,
    /// Whether all other entries are held.
    is_all: bool,
}

/// The pending tree, and what a transaction knows of it.
pub(crate) struct Pending {
    pub(crate) tree: Tree,
    /// Its pages, not counting what was released.
    pub(crate) pages: u64,
    /// What was released and still stands in the tree.
    pub(super) released: Released,
    /// The snapshots under which runs stand in the tree, if all of them were protected when it was
    /// last looked through.
    holders: Option<Vec<u64>>,
}

impl Pending {
    /// As a commit left it.
    pub(super) fn new(meta: &Meta) -> Self {
        Self {
            tree: Tree::new(meta.pending, Form::PLAIN),
            pages: meta.free.pending,
            released: Released::default(),
            holders: None,
        }
    }
}

impl FreeState {
    /// Looks at pending runs whose holder is no longer protected, at least `work` of them if there
    /// are that many; false if there were none. Changes no tree: what is free then goes to the
    /// recent list, so that a commit that needs pages now takes them without a detour through the
    /// ready tree, and runs with another holder are noted for the commit ([`Self::file_released`]).
    pub(crate) fn release_pending(&mut self, pages: &WritePages, work: usize) -> Result<bool> {
        if self.pending.pages == 0 || self.is_all_pending_held() {
            return Ok(false);
        }
        let entries = self.released_entries(pages, work)?;
        for (holder, runs) in &entries {
            self.pending.released.keys.push((*holder, runs[0].run.start));
            for free in runs {
                self.pending.pages = self.pending.pages.saturating_sub(u64::from(free.run.len));
                match newest_holder(&self.protected, free.birth, free.freed) {
                    Some(holder) => self.pending.released.moved.push((holder, *free)),
                    None => self.recent.open.push(free.run),
                }
            }
        }
        join_neighbours(&mut self.recent.open);
        Ok(!entries.is_empty())
    }

    /// In a commit: takes the entries that were released out of the pending tree, and notes those
    /// of their runs that are held by older snapshots under these.
    pub(super) fn file_released(&mut self, pages: &mut WritePages) -> Result<()> {
        let Released { keys, moved, .. } = std::mem::take(&mut self.pending.released);
        for (holder, start) in keys {
            delete_plain(pages, &mut self.pending.tree, &pending_key(holder, start))?;
        }
        self.put_pending(pages, moved)
    }

    /// Whether all holders in the pending tree are known to be protected still.
    pub(super) fn is_all_pending_held(&self) -> bool {
        let held = |holder: &u64| self.protected.binary_search(holder).is_ok();
        self.pending.released.is_all
            || self.pending.holders.as_ref().is_some_and(|holders| holders.iter().all(held))
    }

    /// The next entries of the pending tree whose holders are no longer protected, with `work` runs
    /// or all there are.
    fn released_entries(
        &mut self,
        pages: &WritePages,
        work: usize,
    ) -> Result<Vec<(u64, Vec<FreeRun>)>> {
        let mut released = Vec::new();
        let mut count = 0;
        let mut holders = Vec::new();
        // After those that this transaction has released.
        let first = self.pending.released.keys.last().map(|(holder, start)| (*holder, start + 1));
        let mut next = Some(first.unwrap_or((0, 0)));
        while let Some((from, start)) = next.take() {
            let (mut damaged, end) = (None, pages.base.end);
            // Holders ascend: otherwise the search could run in circles in a damaged tree.
            let fits = |(holder, runs): &(u64, Vec<FreeRun>)| {
                *holder >= from && runs.iter().all(|free| free.run.start + free.run.len <= end)
            };
            scan_plain(pages, &self.pending.tree, &pending_key(from, start), &mut |key, value| {
                let Some((holder, runs)) = pending_entry(key, value).filter(fits) else {
                    damaged = Some(());
                    return false;
                };
                if self.protected.binary_search(&holder).is_ok() {
                    holders.push(holder);
                    next = holder.checked_add(1).map(|holder| (holder, 0));
                    return false;
                }
                count += runs.len();
                released.push((holder, runs));
                count < work
            })?;
            if damaged.is_some() {
                return Err(damaged_entry(pages, &self.pending.tree));
            }
        }
        self.pending.released.is_all = count < work;
        self.pending.holders = (released.is_empty() && first.is_none()).then_some(holders);
        Ok(released)
    }

    /// Notes runs in the pending tree, each under its holder.
    pub(super) fn put_pending(
        &mut self,
        pages: &mut WritePages,
        mut held: Vec<(u64, FreeRun)>,
    ) -> Result<()> {
        if !held.is_empty() {
            self.pending.holders = None;
        }
        held.sort_unstable_by_key(|(holder, free)| (*holder, free.run.start));
        for of_one in held.chunk_by(|(a, _), (b, _)| a == b) {
            for entry in of_one.chunks(PENDING_RUNS) {
                let (holder, first) = entry[0];
                let mut value = Vec::with_capacity(entry.len() * PENDING_LEN);
                for (_, free) in entry {
                    self.pending.pages += u64::from(free.run.len);
                    encode_pending(&mut value, free);
                }
                let key = pending_key(holder, first.run.start);
                put_plain(pages, &mut self.pending.tree, &key, &value)?;
            }
        }
        Ok(())
    }
}

/// Where runs stand that this snapshot holds, from a page on.
pub(crate) fn pending_key(holder: u64, start: PageNo) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&holder.to_be_bytes());
    key[8..].copy_from_slice(&start.to_be_bytes());
    key
}

pub(super) fn encode_pending(out: &mut Vec<u8>, free: &FreeRun) {
    out.extend_from_slice(&free.run.start.to_be_bytes());
    out.extend_from_slice(&free.run.len.to_be_bytes());
    out.extend_from_slice(&free.birth.to_be_bytes());
    out.extend_from_slice(&free.freed.to_be_bytes());
}

/// An entry of the pending tree: its holder and the runs, ascending, at least one; `None` if no
/// store wrote it.
pub(crate) fn pending_entry(key: &[u8], value: &[u8]) -> Option<(u64, Vec<FreeRun>)> {
    let (key, start): (&[u8; 8], &[u8]) = key.split_first_chunk()?;
    let runs = value.chunks(PENDING_LEN).map(decode_pending).collect::<Option<Vec<_>>>()?;
    let first = runs.first().filter(|_| runs.len() <= PENDING_RUNS)?;
    let ascend = runs.windows(2).all(|two| two[0].run.start + two[0].run.len <= two[1].run.start);
    let fits = ascend && start == first.run.start.to_be_bytes();
    fits.then_some((u64::from_be_bytes(*key), runs))
}

/// The runs of an entry of the pending tree.
pub(crate) fn pending_runs(key: &[u8], value: &[u8]) -> Option<Vec<Run>> {
    let (_, runs) = pending_entry(key, value)?;
    Some(runs.iter().map(|free| free.run).collect())
}

fn decode_pending(value: &[u8]) -> Option<FreeRun> {
    let value: &[u8; PENDING_LEN] = value.try_into().ok()?;
    let run = ready_entry(&value[..4], &value[4..8])?;
    let birth = u64::from_be_bytes(value[8..16].try_into().ok()?);
    let freed = u64::from_be_bytes(value[16..].try_into().ok()?);
    Some(FreeRun { run, birth, freed })
}
