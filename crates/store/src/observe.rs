//! What a program can watch stores by: spans and events with the feature `tracing`, numbers with
//! the feature `metrics`. Neither is on unless it is asked for, and without them nothing is done.
//! Looking up a key and moving a cursor tell nothing in any case.
//!
//! # Spans and events
//!
//! Their target is `hedgerow`. Each has the fields `engine` (`tree` or `lsm`) and `store`, the
//! path. A span of the level *debug* is open while this thread does one of the pieces of work
//! below, and is named after it. When the work is done an event of the same name follows, with the
//! number of the newest `commit` where that is known, and with the fields of the histograms below:
//! *trace* for `commit` and `spill`, *debug* for all others. A failure of the system, or damage, is
//! an event of the level *error* with the field `error`. What a caller may expect, such as a store
//! that is not there, is one of the level *debug*.
//!
//! [`Store::stat`](crate::tree::Store::stat) tells at the level *debug* which reader reads the
//! oldest commit, if pages are kept for readers.
//!
//! A subscriber or a recorder is called while locks of the store are held: it must not use the
//! store that it is told of.
//!
//! # Numbers
//!
//! All have the label `store`, the path. The first three rows stand for as many numbers of each
//! piece of work.
//!
//! | name | kind | unit | meaning |
//! |---|---|---|---|
//! | `hedgerow_ENGINE_WORK_count` | counter | | how often it was done; with `way`, see below |
//! | `hedgerow_ENGINE_WORK_failure` | counter | | how often the system or damage was in the way |
//! | `hedgerow_ENGINE_WORK_seconds` | histogram | seconds | how long it took, also if it failed |
//! | `hedgerow_tree_replay_records` | histogram | commits | of the log, replayed at opening |
//! | `hedgerow_tree_commit_pages` | histogram | pages | written by a commit |
//! | `hedgerow_tree_commit_bytes` | histogram | bytes | the same |
//! | `hedgerow_tree_spill_pages` | histogram | pages | written before their commit |
//! | `hedgerow_tree_spill_bytes` | histogram | bytes | the same |
//! | `hedgerow_tree_compact_moved_pages` | histogram | pages | moved to the front of the file |
//! | `hedgerow_tree_compact_steps` | histogram | commits | that this took |
//! | `hedgerow_lsm_replay_entries` | histogram | operations | of the log, replayed at opening |
//! | `hedgerow_lsm_commit_entries` | histogram | operations | of batches written together |
//! | `hedgerow_lsm_commit_bytes` | histogram | bytes | that they took in the log |
//! | `hedgerow_lsm_flush_tables` | histogram | tables | made of a full buffer |
//! | `hedgerow_lsm_flush_entries` | histogram | entries | in these tables |
//! | `hedgerow_lsm_flush_bytes` | histogram | bytes | of these tables |
//! | `hedgerow_lsm_merge_tables` | histogram | tables | written by a merge |
//! | `hedgerow_lsm_merge_entries` | histogram | entries | in these tables |
//! | `hedgerow_lsm_merge_bytes` | histogram | bytes | of these tables |
//! | `hedgerow_lsm_collect_segments` | histogram | segments | whose values were collected |
//! | `hedgerow_lsm_collect_bytes` | histogram | bytes | that the collected values take |
//!
//! WORK of the tree engine is `open`, `replay`, `commit`, `checkpoint`, `spill` and `compact`, that
//! of the log-structured engine `open`, `replay`, `commit`, `flush`, `merge`, `collect` and
//! `compact`; `replay` and `spill` are part of others and have no time of their own. Commits have
//! the label `way`: `log` if a flushed log made them durable, `flush` if a flush of their pages
//! did, `none` if they were not flushed.
//!
//! These are set when [`Store::stat`](crate::tree::Store::stat) or
//! [`Db::stat`](crate::lsm::Db::stat) is called, to what it returns, and have the names of its
//! fields: a program that exports them calls it from time to time. Those of levels have the label
//! `level`.
//!
//! | name | kind | unit | meaning |
//! |---|---|---|---|
//! | `hedgerow_tree_commit` | gauge | | number of the newest commit |
//! | `hedgerow_tree_durable_commit` | gauge | | number of the newest one on stable storage |
//! | `hedgerow_tree_file_bytes` | gauge | bytes | length of the file |
//! | `hedgerow_tree_pages` | gauge | pages | in use up to the last one, and free |
//! | `hedgerow_tree_free_pages` | gauge | pages | free for the next transaction |
//! | `hedgerow_tree_pinned_pages` | gauge | pages | freed, but still seen by a snapshot |
//! | `hedgerow_tree_own_pages` | gauge | pages | of the catalog and of free space |
//! | `hedgerow_tree_tables` | gauge | tables | of the newest commit |
//! | `hedgerow_tree_readers` | gauge | readers | live read transactions |
//! | `hedgerow_tree_pins` | gauge | pins | commits that stay readable under a name |
//! | `hedgerow_lsm_segments` | gauge | segments | of the log and of collected values |
//! | `hedgerow_lsm_segment_bytes` | gauge | bytes | of these, but for the one written to |
//! | `hedgerow_lsm_live_segment_bytes` | gauge | bytes | of these that tables point to |
//! | `hedgerow_lsm_log_bytes` | gauge | bytes | of segments that hold what no table does |
//! | `hedgerow_lsm_snapshots` | gauge | snapshots | held, pins aside |
//! | `hedgerow_lsm_pins` | gauge | pins | commits that stay readable under a name |
//! | `hedgerow_lsm_kept_entries` | gauge | entries | that only pins and snapshots see |
//! | `hedgerow_lsm_last_seq` | gauge | | last sequence number of the newest commit |
//! | `hedgerow_lsm_levels_tables` | gauge | tables | of a level, which is a label |
//! | `hedgerow_lsm_levels_bytes` | gauge | bytes | of these tables |
//! | `hedgerow_lsm_levels_entries` | gauge | entries | of these tables |
//! | `hedgerow_lsm_levels_tombstones` | gauge | entries | of these that are deletions |
//! | `hedgerow_lsm_memory_limit` | gauge | bytes | that the store may take |
//! | `hedgerow_lsm_memory_memtables` | gauge | bytes | of entries that are in no table yet |
//! | `hedgerow_lsm_memory_finders` | gauge | bytes | of indexes and filters |
//! | `hedgerow_lsm_memory_blocks` | gauge | bytes | of blocks in the cache |
//! | `hedgerow_lsm_memory_values` | gauge | bytes | of separated values in the cache |
//! | `hedgerow_lsm_memory_moved` | gauge | bytes | of lists of collected values |
//! | `hedgerow_lsm_memory_buffers` | gauge | bytes | of buffers |
//! | `hedgerow_lsm_memory_written` | gauge | bytes | of files that are being written |
//! | `hedgerow_lsm_memory_log` | gauge | bytes | of the log, kept for the next opening |
//! | `hedgerow_lsm_reads_gets` | counter | keys | that were looked up |
//! | `hedgerow_lsm_reads_cache_hits` | counter | reads | that the cache answered |
//! | `hedgerow_lsm_reads_cache_misses` | counter | reads | that it did not |
//! | `hedgerow_lsm_reads_blocks` | counter | reads | of a data block |
//! | `hedgerow_lsm_reads_values` | counter | reads | of a separated value |
//! | `hedgerow_lsm_reads_ahead` | counter | reads | of several blocks at once |
//! | `hedgerow_lsm_reads_prefetched` | counter | reads | of values for scans |
//! | `hedgerow_lsm_reads_others` | counter | reads | of indexes and filters |
//! | `hedgerow_lsm_reads_turns` | counter | calls | of the system for queues of reads |

use std::path::Path;
use std::time::Instant;

use crate::{Error, Result};

/// Whether anything is told.
const IS_ON: bool = cfg!(any(feature = "tracing", feature = "metrics"));

/// A piece of work: the engine's name and its own.
#[derive(Clone, Copy, Default)]
#[cfg_attr(
    not(any(feature = "tracing", feature = "metrics")),
    expect(dead_code, reason = "nobody is told")
)]
pub(crate) struct Work(&'static str, &'static str);

impl Work {
    pub(crate) const TREE_OPEN: Self = Self("tree", "open");
    pub(crate) const TREE_REPLAY: Self = Self("tree", "replay");
    pub(crate) const TREE_COMMIT: Self = Self("tree", "commit");
    pub(crate) const TREE_CHECKPOINT: Self = Self("tree", "checkpoint");
    pub(crate) const TREE_SPILL: Self = Self("tree", "spill");
    pub(crate) const TREE_COMPACT: Self = Self("tree", "compact");
    pub(crate) const LSM_OPEN: Self = Self("lsm", "open");
    pub(crate) const LSM_REPLAY: Self = Self("lsm", "replay");
    pub(crate) const LSM_COMMIT: Self = Self("lsm", "commit");
    pub(crate) const LSM_FLUSH: Self = Self("lsm", "flush");
    pub(crate) const LSM_MERGE: Self = Self("lsm", "merge");
    pub(crate) const LSM_COLLECT: Self = Self("lsm", "collect");
    pub(crate) const LSM_COMPACT: Self = Self("lsm", "compact");

    /// It is done: what it consisted of is to be filled in.
    pub(crate) fn done(self) -> Done {
        Done { work: self, ..Done::default() }
    }
}

/// A piece of work that is done. The names of the fields are those of the reports.
#[derive(Default)]
#[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only events have all fields"))]
pub(crate) struct Done {
    pub(crate) work: Work,
    /// How a commit was made durable.
    pub(crate) way: Option<&'static str>,
    /// The newest commit after it.
    pub(crate) commit: Option<u64>,
    pub(crate) records: Option<u64>,
    pub(crate) entries: Option<u64>,
    pub(crate) pages: Option<u64>,
    pub(crate) moved_pages: Option<u64>,
    pub(crate) steps: Option<u64>,
    pub(crate) tables: Option<u64>,
    pub(crate) segments: Option<u64>,
    pub(crate) bytes: Option<u64>,
}

/// Does a piece of work, in a span; tells how long it took, and its failure.
#[inline]
pub(crate) fn within<T>(work: Work, store: &Path, f: impl FnOnce() -> Result<T>) -> Result<T> {
    if !IS_ON {
        return f();
    }
    let _span = traces::span(work, store);
    let begun = Instant::now();
    let result = f();
    numbers::time(work, store, begun.elapsed());
    if let Err(error) = &result {
        let is_expected = !matches!(
            error,
            Error::Io { .. }
                | Error::Corrupt { .. }
                | Error::Poisoned { .. }
                | Error::CommitFailed { .. }
        );
        traces::failed(work, store, error, is_expected);
        if !is_expected {
            numbers::failed(work, store);
        }
    }
    result
}

/// Tells of a piece of work that is done.
#[inline]
pub(crate) fn tell(store: &Path, done: impl FnOnce() -> Done) {
    if IS_ON {
        let done = done();
        traces::done(store, &done);
        numbers::done(store, &done);
    }
}

/// Tells of the reader that holds back the most space: its process, its thread and its commit.
#[inline]
pub(crate) fn held_back(
    store: &Path,
    pages: u64,
    reader: impl FnOnce() -> Option<(u32, u64, u64)>,
) {
    if IS_ON && let Some((process, thread, commit)) = reader() {
        traces::held_back(store, pages, [u64::from(process), thread, commit]);
    }
}

/// Sets numbers to what a report says, under a common beginning of their names; with the number of
/// a level, if they belong to one.
#[inline]
pub(crate) fn state<const N: usize>(
    store: &Path,
    front: &str,
    level: Option<usize>,
    fields: impl FnOnce() -> [(&'static str, u64); N],
) {
    if IS_ON {
        numbers::state(store, front, level, &fields());
    }
}

/// The same for counts since the store was opened.
#[inline]
pub(crate) fn counts<const N: usize>(
    store: &Path,
    front: &str,
    fields: impl FnOnce() -> [(&'static str, u64); N],
) {
    if IS_ON {
        numbers::counts(store, front, &fields());
    }
}

#[cfg(feature = "tracing")]
mod traces {
    //! Spans and events.

    use std::path::Path;

    use tracing::span::EnteredSpan;
    use tracing::{debug, debug_span, error, trace};

    use super::{Done, Work};
    use crate::Error;

    pub(super) fn span(Work(engine, name): Work, store: &Path) -> EnteredSpan {
        macro_rules! named {
            ($($name:literal)*) => {
                match name {
                    $($name => debug_span!(target: "hedgerow", $name, engine, store = %store.display()),)*
                    _ => tracing::Span::none(),
                }
            };
        }
        named!("open" "commit" "checkpoint" "compact" "flush" "merge" "collect").entered()
    }

    pub(super) fn done(store: &Path, done: &Done) {
        let Done { work: Work(engine, name), way, commit, records, entries, .. } = *done;
        let Done { pages, moved_pages, steps, tables, segments, bytes, .. } = *done;
        macro_rules! event {
            ($level:ident) => {
                $level!(
                    target: "hedgerow",
                    engine, store = %store.display(), way, commit, records, entries, pages,
                    moved_pages, steps, tables, segments, bytes, "{name}"
                )
            };
        }
        if matches!(name, "commit" | "spill") { event!(trace) } else { event!(debug) }
    }

    pub(super) fn failed(work: Work, store: &Path, error: &Error, is_expected: bool) {
        let (Work(engine, name), store) = (work, store.display());
        if is_expected {
            debug!(target: "hedgerow", engine, %store, %error, "{name}");
        } else {
            error!(target: "hedgerow", engine, %store, %error, "{name}");
        }
    }

    pub(super) fn held_back(store: &Path, pages: u64, [process, thread, commit]: [u64; 3]) {
        let store = store.display();
        debug!(target: "hedgerow", %store, pages, process, thread, commit, "a reader holds back pages");
    }
}

#[cfg(not(feature = "tracing"))]
mod traces {
    //! Nothing.

    use std::path::Path;

    use super::{Done, Work};
    use crate::Error;

    pub(super) struct Span;

    pub(super) fn span(_: Work, _: &Path) -> Span {
        Span
    }

    pub(super) fn done(_: &Path, _: &Done) {}
    pub(super) fn failed(_: Work, _: &Path, _: &Error, _: bool) {}
    pub(super) fn held_back(_: &Path, _: u64, _: [u64; 3]) {}
}

#[cfg(feature = "metrics")]
mod numbers {
    //! Counters, gauges and histograms.

    use std::path::Path;
    use std::time::Duration;

    use metrics::{Label, counter, gauge, histogram};

    use super::{Done, Work};

    fn name(Work(engine, name): Work, field: &str) -> String {
        format!("hedgerow_{engine}_{name}_{field}")
    }

    fn label(store: &Path) -> Label {
        Label::new("store", store.display().to_string())
    }

    pub(super) fn time(work: Work, store: &Path, time: Duration) {
        histogram!(name(work, "seconds"), vec![label(store)]).record(time.as_secs_f64());
    }

    pub(super) fn failed(work: Work, store: &Path) {
        counter!(name(work, "failure"), vec![label(store)]).increment(1);
    }

    pub(super) fn done(store: &Path, done: &Done) {
        let way = done.way.map(|way| Label::new("way", way));
        let labels: Vec<Label> = [label(store)].into_iter().chain(way).collect();
        counter!(name(done.work, "count"), labels).increment(1);
        let fields = [
            ("records", done.records),
            ("entries", done.entries),
            ("pages", done.pages),
            ("moved_pages", done.moved_pages),
            ("steps", done.steps),
            ("tables", done.tables),
            ("segments", done.segments),
            ("bytes", done.bytes),
        ];
        for (field, value) in fields {
            if let Some(value) = value {
                histogram!(name(done.work, field), vec![label(store)]).record(value as f64);
            }
        }
    }

    pub(super) fn state(store: &Path, front: &str, level: Option<usize>, fields: &[(&str, u64)]) {
        let level = level.map(|level| Label::new("level", level.to_string()));
        let labels: Vec<Label> = [label(store)].into_iter().chain(level).collect();
        for (field, value) in fields {
            gauge!(format!("hedgerow_{front}_{field}"), labels.clone()).set(*value as f64);
        }
    }

    pub(super) fn counts(store: &Path, front: &str, fields: &[(&str, u64)]) {
        for (field, value) in fields {
            counter!(format!("hedgerow_{front}_{field}"), vec![label(store)]).absolute(*value);
        }
    }
}

#[cfg(not(feature = "metrics"))]
mod numbers {
    //! Nothing.

    use std::path::Path;
    use std::time::Duration;

    use super::{Done, Work};

    pub(super) fn time(_: Work, _: &Path, _: Duration) {}
    pub(super) fn failed(_: Work, _: &Path) {}
    pub(super) fn done(_: &Path, _: &Done) {}
    pub(super) fn state(_: &Path, _: &str, _: Option<usize>, _: &[(&str, u64)]) {}
    pub(super) fn counts(_: &Path, _: &str, _: &[(&str, u64)]) {}
}
