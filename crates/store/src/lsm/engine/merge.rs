//! The work on tables and segments that becomes due: flushing buffers, merging tables, collecting
//! and arranging values.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Inner;
use crate::Result;
use crate::canary::{Bug, is_planted};
use crate::lsm::closing::Closing;
use crate::lsm::levels::compact::{self, Plan, Sizes};
use crate::lsm::levels::debt;
use crate::lsm::levels::run::{self, Numbers, Output, Rules};
use crate::lsm::levels::table_file::TableFile;
use crate::lsm::levels::version::{Edit, Segment, Version};
use crate::lsm::log::segment::Identity;
use crate::lsm::table::TableMeta;
use crate::lsm::values::moving::Moves;
use crate::lsm::values::needed::Needed;
use crate::lsm::values::{arrange, gc};
use crate::observe::{Done, Work, tell, within};
use crate::sync::locked;

#[cfg(test)]
mod tests;

/// Work on tables and segments.
enum Due {
    /// Forgetting tables of which nothing is needed.
    Forget(Vec<u32>),
    Merge(Plan),
    /// To collect values of segments.
    Collect(Vec<u32>),
}

impl Due {
    /// How much garbage it removes; `None` if removing garbage is not its purpose.
    fn removed_bytes(&self, version: &Version) -> Option<u64> {
        match self {
            Self::Forget(_) => None,
            // It is known then, and not yet removed.
            Self::Merge(plan) => {
                let mut tables = version.tables().map(|(_, table)| table);
                let hides = |table: &TableFile| {
                    plan.upper.contains(&table.meta.number) && table.hidden() > 0
                };
                tables.any(|table| hides(table)).then_some(0)
            }
            Self::Collect(victims) => {
                let chosen = version.segments().filter(|s| victims.contains(&s.identity.number));
                let garbage = |segment: &Segment| {
                    segment.bytes().saturating_sub(version.live(segment.identity.number))
                };
                Some(chosen.map(garbage).sum())
            }
        }
    }
}

/// The bytes of those of these segments that are there and not written to any more.
fn segment_bytes(version: &Version, numbers: &[u32]) -> u64 {
    let chosen = version.segments().filter(|s| numbers.contains(&s.identity.number));
    chosen.map(Segment::bytes).sum()
}

impl Inner {
    /// Writes all frozen buffers to tables, the oldest first.
    pub(crate) fn flush_frozen(&self) -> Result<()> {
        let _turn = locked(&self.turns.flushing);
        loop {
            let (begun, current) = (Instant::now(), self.current());
            let Some(oldest) = current.frozen.last() else { return Ok(()) };
            // All that is to be in it is; and its table may point to where its values stand.
            self.clock.wait_for(oldest.last_seq);
            self.seal_ended()?;
            let number = || self.new_number();
            let output = Output {
                version: &current.version,
                rules: Rules { snapshots: self.clock.readers(), is_last: false },
                table_bytes: u64::MAX,
                numbers: Numbers::new(&number),
                may_share: false,
                leaves: 0,
                // The next opening need not read the log, then.
                closing: &Closing::default(),
            };
            let mut source = oldest.buffer.walk();
            let pieces = output.rules.pieces(&oldest.buffer.tombstones());
            let write = || run::write_tables(&output, &mut source, &pieces);
            let tables = within(Work::LSM_FLUSH, &self.directory.path, write)?;
            self.told_tables(Work::LSM_FLUSH, tables.iter());
            let added = tables.into_iter().map(|meta| Edit::AddTable { level: 0, meta });
            let edits = added.chain([Edit::Flushed { seq: oldest.last_seq }]).collect();
            self.install(edits, |current| {
                current.frozen.pop();
            })?;
            // Writers learn now how much they hid, not only when a merge is done.
            let version = Arc::clone(&self.current().version);
            debt::estimate(&version, &self.turns.closing);
            self.note(&version);
            if let Some(first) = version.log().map(|segment| segment.identity.number).min() {
                self.logs.warm.let_go(&self.directory.blocks, first);
            }
            self.background.flushed(oldest.buffer.data_bytes(), begun.elapsed());
            self.background.made_room();
        }
    }

    /// Does one piece of due work; returns whether there was any.
    pub(crate) fn merge_once(&self) -> Result<bool> {
        let mut idle = locked(&self.turns.merging);
        let is_futile = *idle == Some(self.current().version.flushed);
        let Some(due) = self.due(is_futile)? else { return Ok(false) };
        let (begun, version) = (Instant::now(), Arc::clone(&self.current().version));
        let removed = due.removed_bytes(&version);
        // What follows may make that worth while again.
        *idle = None;
        match due {
            Due::Forget(tables) => {
                let removed = tables.into_iter().map(|number| Edit::RemoveTable { number });
                self.install(removed.collect(), |_| {})?;
            }
            Due::Merge(plan) => self.run_plan(&version, &plan, Moves::NONE, false)?,
            Due::Collect(victims) => {
                let flushed = version.flushed;
                *idle = (!self.collect(version, victims)?).then_some(flushed);
            }
        }
        if let Some(bytes) = removed {
            self.background.removed(bytes, begun.elapsed());
        }
        Ok(true)
    }

    /// What should be done next; while writers wait for space, that is more. Nothing is collected
    /// where that `is_futile`: what surrounds values, and where they were, takes space, too.
    fn due(&self, is_futile: bool) -> Result<Option<Due>> {
        let version = Arc::clone(&self.current().version);
        let hidden = run::hidden(&version, &self.clock.readers())?;
        if !hidden.is_empty() {
            return Ok(Some(Due::Forget(hidden)));
        }
        debt::estimate(&version, &self.turns.closing);
        self.note(&version);
        let sizes = Sizes::new(self.options.table_bytes, self.options.segment_bytes);
        let bounds = gc::Bounds::steady(&version, self.options.segment_bytes);
        let next = |sizes: &Sizes, bounds: &gc::Bounds| {
            let merge = compact::choose(&version, sizes);
            let merge = merge.map(|plan| compact::fit(&version, plan, self.room_for_merges()));
            let merge = merge.map(Due::Merge);
            let victims = || Some(gc::choose(&version, bounds)).filter(|list| !list.is_empty());
            merge.or_else(|| if is_futile { None } else { victims().map(Due::Collect) })
        };
        Ok(match next(&sizes, &bounds) {
            None if self.background.take_pressure() => next(&sizes.pressed(), &bounds.pressed()),
            due => due,
        })
    }

    /// Does what a plan says, by two threads if it `may_share` the work.
    fn run_plan(
        &self,
        version: &Version,
        plan: &Plan,
        moves: Moves<'_>,
        may_share: bool,
    ) -> Result<()> {
        let number = || self.new_number();
        let output = Output {
            version,
            rules: Rules {
                snapshots: self.clock.readers(),
                is_last: plan.is_last || is_planted(Bug::TombstoneDropped),
            },
            table_bytes: compact::table_bytes(
                version,
                plan,
                self.room_for_merges(),
                self.options.table_bytes,
            ),
            numbers: Numbers::new(&number),
            may_share,
            leaves: self.kept_by_merges(),
            closing: &self.turns.closing,
        };
        let merge = || run::compact(&output, plan, moves);
        let edits = within(Work::LSM_MERGE, &self.directory.path, merge)?;
        self.told_tables(
            Work::LSM_MERGE,
            edits.iter().filter_map(|edit| match edit {
                Edit::AddTable { meta, .. } => Some(meta),
                _ => None,
            }),
        );
        self.install(edits, |_| {})
    }

    /// Tells which tables were written.
    fn told_tables<'m>(&self, work: Work, tables: impl Iterator<Item = &'m TableMeta> + Clone) {
        tell(&self.directory.path, || {
            let sum = |of: fn(&TableMeta) -> u64| Some(tables.clone().map(of).sum());
            let (entries, bytes) = (sum(|meta| meta.entries), sum(|meta| meta.bytes));
            Done { tables: sum(|_| 1), entries, bytes, ..work.done() }
        });
    }

    /// Collects segments, step by step, in one round; returns whether what was written in their
    /// place is shorter.
    fn collect(&self, version: Arc<Version>, mut victims: Vec<u32>) -> Result<bool> {
        let needed = Needed::find(&version, &victims, &self.turns.closing)?;
        // A held version holds its files: each is let go before the next one is made.
        drop(version);
        let (mut before, mut after) = (0, 0);
        while !victims.is_empty() {
            let version = Arc::clone(&self.current().version);
            let step = gc::next_step(&version, &mut victims, self.options.segment_bytes);
            let salt = self.directory.random();
            let identity = Identity { number: self.new_number(), salt, first_seq: 0 };
            before += segment_bytes(&version, &step);
            let output = (identity, self.kept_by_merges());
            let collect = || gc::collect(&version, &needed, &step, output, &self.turns.closing);
            let edits = within(Work::LSM_COLLECT, &self.directory.path, collect)?;
            self.install(edits, |_| {})?;
            let bytes = segment_bytes(&self.current().version, &[identity.number]);
            tell(&self.directory.path, || {
                let (segments, bytes) = (Some(step.len() as u64), Some(bytes));
                Done { segments, bytes, ..Work::LSM_COLLECT.done() }
            });
            after += bytes;
            if self.background.is_stopped() {
                break;
            }
        }
        Ok(after < before)
    }

    /// Merges everything into one level, and collects values until little else is left.
    pub(crate) fn compact(&self) -> Result<()> {
        self.flush()?;
        let mut idle = locked(&self.turns.merging);
        *idle = None;
        let begun = self.clock.next_file.load(Ordering::Relaxed);
        loop {
            let version = Arc::clone(&self.current().version);
            // What was written since then holds what must be remembered only.
            let may_forget = |meta: &TableMeta| {
                meta.number < begun && meta.tombstones + meta.ranges + meta.shadowed > 0
            };
            let Some(plan) = compact::choose_full(&version, may_forget) else { break };
            let plan = compact::fit(&version, plan, self.room_for_merges());
            // The caller waits for it, so it may use the processors.
            self.run_plan(&version, &plan, Moves::NONE, self.background.is_on())?;
        }
        self.arrange()
    }

    /// Writes segments anew until they hold little else than what is needed, and values stand in
    /// the order of keys where much is written for it.
    fn arrange(&self) -> Result<()> {
        // A held version holds its files: each is let go before the next one is made.
        let now = || Arc::clone(&self.current().version);
        let chosen = |version: Arc<Version>| -> Result<Vec<u32>> {
            Ok(arrange::choose(&version, &arrange::sample(&version)?))
        };
        let (mut left, segment_bytes) = (chosen(now())?, self.options.segment_bytes);
        while !left.is_empty() {
            let segments =
                arrange::next_batch(&now(), &mut left, segment_bytes, self.room_for_merges());
            let plans = arrange::plans(&now(), &segments);
            for plan in plans {
                let moves = Moves { segments: &segments, segment_bytes };
                self.run_plan(&now(), &plan, moves, false)?;
            }
        }
        Ok(())
    }
}
