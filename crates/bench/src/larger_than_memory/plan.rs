//! Which engines do what for each row of the table, and what the goals of the rows are: data and
//! functions of what was measured.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::items::ITEM;
use super::steps::{Step, Taken};
use crate::compare::report::median;
use crate::engines::beyond::Kind;

/// A row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(super) enum Row {
    /// All items put by two threads, not flushed
    Load,
    /// The same until everything is merged
    Drained,
    /// Bytes given to the device for each byte of the items
    Written,
    /// Random gets, many at a time
    MultiGet,
    /// Random gets, one at a time
    Get,
    /// All items in order
    Scan,
    /// Durable puts of one thread and of 64
    Durable,
    /// What the store takes for each live byte after overwriting and deleting half
    Space,
    /// What the processes take of the memory
    Memory,
    /// Opening after an end by force
    Kill,
    /// How long a put takes at most while others are compacted
    Latency,
    /// The library's queues of reads beside fio, in a table of their own
    Queues,
}

/// What is done with one store, from its making on.
pub(super) struct Scenario {
    pub(super) kind: Kind,
    pub(super) steps: &'static [Step],
    /// The rows that need it.
    rows: &'static [Row],
}

use Step::{Compact, CompactAgain, Delete, Durable, Durable64, Get, Latency, Load};
use Step::{MultiGet, MultiGet2, Overwrite, Scan, ScanAgain};

const LOADS: &[Row] = &[Row::Load, Row::Drained, Row::Written, Row::Memory];

const SCENARIOS: &[Scenario] = &[
    Scenario { kind: Kind::Hedgerow, steps: &[Load, Compact], rows: LOADS },
    Scenario { kind: Kind::HedgerowHeld, steps: &[Load, Compact], rows: LOADS },
    Scenario { kind: Kind::Rocksdb, steps: &[Load, Compact], rows: LOADS },
    Scenario { kind: Kind::RocksdbNoLog, steps: &[Load, Compact], rows: LOADS },
    Scenario { kind: Kind::Fjall, steps: &[Load, Compact], rows: LOADS },
    Scenario {
        kind: Kind::Hedgerow,
        steps: &[Load, Compact, MultiGet, MultiGet2, Get],
        rows: &[Row::MultiGet, Row::Get],
    },
    Scenario {
        kind: Kind::RocksdbNoLog,
        steps: &[Load, Compact, MultiGet, Get],
        rows: &[Row::MultiGet, Row::Get],
    },
    Scenario {
        kind: Kind::Fjall,
        steps: &[Load, Compact, MultiGet, Get],
        rows: &[Row::MultiGet, Row::Get],
    },
    Scenario {
        kind: Kind::Hedgerow,
        steps: &[Load, Compact, Scan, Overwrite, Compact, ScanAgain],
        rows: &[Row::Scan],
    },
    Scenario { kind: Kind::HedgerowInline, steps: &[Load, Compact, Scan], rows: &[Row::Scan] },
    Scenario { kind: Kind::RocksdbNoLog, steps: &[Load, Compact, Scan], rows: &[Row::Scan] },
    Scenario { kind: Kind::Blobdb, steps: &[Load, Compact, Scan], rows: &[Row::Scan] },
    Scenario {
        kind: Kind::Hedgerow,
        steps: &[Load, Overwrite, Delete, CompactAgain],
        rows: &[Row::Space],
    },
    Scenario {
        kind: Kind::Rocksdb,
        steps: &[Load, Overwrite, Delete, CompactAgain],
        rows: &[Row::Space],
    },
    Scenario {
        kind: Kind::Fjall,
        steps: &[Load, Overwrite, Delete, CompactAgain],
        rows: &[Row::Space],
    },
    Scenario { kind: Kind::Hedgerow, steps: &[Durable, Durable64], rows: &[Row::Durable] },
    Scenario { kind: Kind::Rocksdb, steps: &[Durable, Durable64], rows: &[Row::Durable] },
    Scenario { kind: Kind::Hedgerow, steps: &[Load, Latency], rows: &[Row::Latency] },
];

/// The scenarios that some rows need.
pub(super) fn scenarios(rows: &[Row]) -> Vec<&'static Scenario> {
    let is_needed = |scenario: &&Scenario| scenario.rows.iter().any(|row| rows.contains(row));
    SCENARIOS.iter().filter(is_needed).collect()
}

/// A step that a process did.
pub(super) struct Done {
    pub(super) step: Step,
    pub(super) taken: Taken,
    /// Reads of the device a second right before, if the step is compared with these.
    pub(super) beside: Option<f64>,
}

/// What was measured in all rounds.
#[derive(Default)]
pub(super) struct Results {
    pub(super) steps: BTreeMap<(Kind, Step), Vec<Taken>>,
    /// Reads of the device a second right before each of some steps.
    pub(super) beside: BTreeMap<(Kind, Step), Vec<f64>>,
    /// Writes of 4 KiB into written space with a flush each, a second.
    pub(super) flushes: Vec<f64>,
    /// Items a second put, merged and collected.
    pub(super) drained: BTreeMap<Kind, Vec<f64>>,
    /// For each engine: the most bytes that its processes had for themselves, the most with the
    /// cache of files, and how often the kernel killed one.
    pub(super) memory: BTreeMap<Kind, (u64, u64, u64)>,
    /// Engines that failed, and at what.
    pub(super) failures: Vec<(Kind, String)>,
    /// Opening after an end by force: seconds, and bytes that were there.
    pub(super) openings: Vec<(f64, u64)>,
    /// The same with nothing of it in the system's cache.
    pub(super) cold_openings: Vec<(f64, u64)>,
    /// Bytes a second that the device gave in order during the run.
    pub(super) streams: Vec<f64>,
    pub(super) items: u64,
    pub(super) limit: u64,
}

/// A goal and how it stands.
pub(super) struct Line {
    pub(super) row: Row,
    pub(super) what: String,
    pub(super) value: f64,
    /// The bound, and whether it is the least or the most.
    pub(super) goal: f64,
    pub(super) is_least: bool,
    /// The figures that it comes from.
    pub(super) from: String,
}

impl Line {
    pub(super) fn is_met(&self) -> bool {
        if self.is_least { self.value >= self.goal } else { self.value <= self.goal }
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "row": format!("{:?}", self.row), "what": self.what, "value": self.value,
            "goal": self.goal, "is_least": self.is_least, "met": self.is_met(), "from": self.from,
        })
    }
}

fn least(row: Row, what: &str, (value, from): (f64, String), goal: f64) -> Line {
    Line { row, what: what.to_owned(), value, goal, is_least: true, from }
}

fn most(row: Row, what: &str, value: f64, goal: f64, from: String) -> Line {
    Line { row, what: what.to_owned(), value, goal, is_least: false, from }
}

/// The median of the rounds' ratios, and the two medians.
fn ratio(ours: &[f64], theirs: &[f64]) -> Option<(f64, String)> {
    if ours.is_empty() || theirs.is_empty() {
        return None;
    }
    let ratios: Vec<f64> = ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect();
    Some((median(&ratios), format!("{:.0} / {:.0}", median(ours), median(theirs))))
}

impl Results {
    fn each(&self, kind: Kind, step: Step, f: impl Fn(&Taken) -> f64) -> Vec<f64> {
        self.steps.get(&(kind, step)).map_or_else(Vec::new, |taken| taken.iter().map(f).collect())
    }

    fn rates(&self, kind: Kind, step: Step) -> Vec<f64> {
        self.each(kind, step, Taken::rate)
    }

    /// Takes what a process did.
    pub(super) fn note(&mut self, kind: Kind, done: &[Done]) {
        for &Done { step, taken, beside } in done {
            self.steps.entry((kind, step)).or_default().push(taken);
            self.beside.entry((kind, step)).or_default().extend(beside);
        }
        if let [
            Done { step: Load, taken: load, .. },
            Done { step: Compact, taken: merge, .. },
            ..,
        ] = done
        {
            let rate = load.operations as f64 / (load.seconds + merge.seconds);
            self.drained.entry(kind).or_default().push(rate);
        }
    }

    /// How a step stands to reads of the device right before.
    fn beside(&self, kind: Kind, step: Step) -> Option<(f64, String)> {
        ratio(&self.rates(kind, step), self.beside.get(&(kind, step))?)
    }

    /// Items a second until everything was merged.
    fn drained(&self, kind: Kind) -> Vec<f64> {
        self.drained.get(&kind).cloned().unwrap_or_default()
    }

    /// A ratio to a peer; a peer that failed counts as slower than any result of ours.
    fn to_peer(&self, peer: Kind, (ours, theirs): (&[f64], &[f64])) -> Option<(f64, String)> {
        ratio(ours, theirs).or_else(|| {
            let (_, what) = self.failures.iter().find(|(kind, _)| *kind == peer)?;
            (!ours.is_empty()).then(|| (f64::INFINITY, format!("{:.0}, {what}", median(ours))))
        })
    }

    /// Every goal of some rows for which something was measured.
    pub(super) fn lines(&self, rows: &[Row]) -> Vec<Line> {
        let lines = [self.loads(), self.gets(), self.scans(), self.durable(), self.rest()];
        let lines = lines.into_iter().flatten();
        lines.filter(|line| rows.contains(&line.row)).collect()
    }

    fn loads(&self) -> Vec<Line> {
        use Kind::{Fjall, Hedgerow, HedgerowHeld, Rocksdb, RocksdbNoLog};
        let mut lines = Vec::new();
        for (what, ours, theirs, goal) in [
            ("to RocksDB without its log, groups held back", HedgerowHeld, RocksdbNoLog, 2.0),
            ("to RocksDB, both handed to the system", Hedgerow, Rocksdb, 3.5),
            ("to fjall, both handed to the system", Hedgerow, Fjall, 2.0),
        ] {
            let rates = self.to_peer(theirs, (&self.rates(ours, Load), &self.rates(theirs, Load)));
            lines.extend(rates.map(|rates| least(Row::Load, what, rates, goal)));
        }
        for (what, ours, theirs, goal) in [
            ("to RocksDB without its log", HedgerowHeld, RocksdbNoLog, 4.0),
            ("to RocksDB", Hedgerow, Rocksdb, 4.0),
            ("to fjall", Hedgerow, Fjall, 2.0),
        ] {
            let rates = self.to_peer(theirs, (&self.drained(ours), &self.drained(theirs)));
            lines.extend(rates.map(|rates| least(Row::Drained, what, rates, goal)));
        }
        let logical = (self.items * ITEM) as f64;
        let amplification =
            |kind, step| median(&self.each(kind, step, |taken| taken.written as f64 / logical));
        if self.steps.contains_key(&(Hedgerow, Compact)) {
            let of = |kind| {
                let load = amplification(kind, Load);
                (load, load + amplification(kind, Compact))
            };
            let (load, all) = of(Hedgerow);
            let peer = of(Rocksdb);
            let from = |peer: f64| format!("RocksDB {peer:.2}");
            lines.push(most(Row::Written, "of the load", load, 1.15, from(peer.0)));
            lines.push(most(Row::Written, "with a full compaction", all, 1.5, from(peer.1)));
        }
        lines
    }

    fn gets(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for (row, what, step, goal) in [
            (Row::MultiGet, "one thread, to fio with 64", MultiGet, 0.85),
            (Row::MultiGet, "two threads, to fio with 64 each", MultiGet2, 0.85),
            (Row::Get, "to fio with one", Get, 0.9),
        ] {
            let mut peers = String::new();
            for kind in [Kind::RocksdbNoLog, Kind::Fjall] {
                if let Some((ratio, _)) = self.beside(kind, step) {
                    peers += &format!(", {} {ratio:.2}", kind.name());
                }
            }
            let rates = self.beside(Kind::Hedgerow, step);
            let rates = rates.map(|(value, from)| (value, from + &peers));
            lines.extend(rates.map(|rates| least(row, what, rates, goal)));
        }
        lines
    }

    fn scans(&self) -> Vec<Line> {
        use Kind::{Blobdb, Hedgerow, HedgerowInline, RocksdbNoLog};
        let mut lines = Vec::new();
        for (what, ours, theirs, goal) in [
            ("inline values, to RocksDB", (HedgerowInline, Scan), (RocksdbNoLog, Scan), 1.0),
            ("collected values, to inline", (Hedgerow, ScanAgain), (HedgerowInline, Scan), 0.6),
            ("values not collected, to BlobDB", (Hedgerow, Scan), (Blobdb, Scan), 2.0),
        ] {
            let rates = ratio(&self.rates(ours.0, ours.1), &self.rates(theirs.0, theirs.1));
            lines.extend(rates.map(|rates| least(Row::Scan, what, rates, goal)));
        }
        lines
    }

    fn durable(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let one = self.rates(Kind::Hedgerow, Durable);
        let rates = ratio(&one, &self.flushes);
        let what = "one thread, to writes with a flush each";
        lines.extend(rates.map(|rates| least(Row::Durable, what, rates, 0.9)));
        let many = self.rates(Kind::Hedgerow, Durable64);
        if !many.is_empty() {
            let from = match ratio(&many, &self.rates(Kind::Rocksdb, Durable64)) {
                Some((ratio, _)) => format!("{ratio:.1} x RocksDB"),
                None => String::new(),
            };
            let rate = (median(&many), from);
            lines.push(least(Row::Durable, "64 threads, a second", rate, 100_000.0));
        }
        lines
    }

    fn rest(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let worst = |kind| {
            let ratios = [Load, Overwrite, Delete, CompactAgain]
                .map(|step| self.each(kind, step, |taken| taken.space_ratio));
            ratios.concat().into_iter().fold(0.0, f64::max)
        };
        let after = |kind| {
            // Half of the items are live then.
            let live = (self.items / 2 * ITEM) as f64;
            median(&self.each(kind, CompactAgain, |taken| taken.space as f64 / live))
        };
        if self.steps.contains_key(&(Kind::Hedgerow, CompactAgain)) {
            let (rocks, fjall) = (worst(Kind::Rocksdb), worst(Kind::Fjall));
            let from = format!("RocksDB {rocks:.2}, fjall {fjall:.2}");
            lines.push(most(Row::Space, "at all times", worst(Kind::Hedgerow), 1.4, from));
            let (rocks, fjall) = (after(Kind::Rocksdb), after(Kind::Fjall));
            let from = format!("RocksDB {rocks:.2}, fjall {fjall:.2}");
            lines.push(most(Row::Space, "after compaction", after(Kind::Hedgerow), 1.1, from));
        }
        for (kind, &(own, peak, killed)) in &self.memory {
            let value = own as f64 / self.limit as f64;
            let from = format!("with the cache of files {:.2}", peak as f64 / self.limit as f64);
            let what = format!("{}, ended by the kernel {killed} times", kind.name());
            let value = if killed > 0 { f64::INFINITY } else { value };
            if matches!(kind, Kind::Hedgerow | Kind::HedgerowHeld | Kind::HedgerowInline) {
                lines.push(most(Row::Memory, &what, value, 1.1, from));
            }
        }
        lines.extend(self.slowest_opening("opening, seconds a GB", &self.openings));
        let what = "the same, nothing in the system's cache";
        lines.extend(self.slowest_opening(what, &self.cold_openings));
        let of = |f: fn(&Taken) -> f64| self.each(Kind::Hedgerow, Latency, f);
        let slow = of(|taken| taken.slowness.percentile * 1e3);
        if !slow.is_empty() {
            let what = "99.9th percentile at 70 % of the rate, ms";
            let from = format!("{:.0} a second", median(&of(|taken| taken.slowness.kept_up)));
            lines.push(most(Row::Latency, what, median(&slow), 10.0, from));
            let space = of(|taken| taken.space_ratio).into_iter().fold(0.0, f64::max);
            lines.push(most(Row::Latency, "space meanwhile", space, 1.4, String::new()));
        }
        lines
    }

    fn slowest_opening(&self, what: &str, openings: &[(f64, u64)]) -> Option<Line> {
        let of = |(seconds, bytes): &(f64, u64)| seconds / (*bytes as f64 / 1e9);
        let slowest = openings.iter().max_by(|a, b| of(a).total_cmp(&of(b)))?;
        let from = format!(
            "{} times; {:.0} ms for {:.0} MB; the device alone takes {:.2} s a GB",
            openings.len(),
            slowest.0 * 1e3,
            slowest.1 as f64 / 1e6,
            1e9 / median(&self.streams),
        );
        Some(most(Row::Kill, what, of(slowest), 1.0, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_held_against_ratios_of_rounds() {
        let mut results = Results { items: 100, limit: 1, ..Results::default() };
        let taken = |seconds| Taken { operations: 100, seconds, ..Taken::default() };
        results.steps.insert((Kind::Hedgerow, Load), [1.0, 2.0, 1.0].map(taken).to_vec());
        results.steps.insert((Kind::Rocksdb, Load), [4.0, 6.0, 4.0].map(taken).to_vec());
        let lines = results.lines(&[Row::Load, Row::Scan]);
        assert_eq!(lines.len(), 1);
        assert_eq!((lines[0].value, lines[0].is_met()), (4.0, true));
        assert!(results.lines(&[Row::Durable]).is_empty());
    }

    fn done(step: Step, seconds: f64, beside: Option<f64>) -> Done {
        Done { step, taken: Taken { operations: 100, seconds, ..Taken::default() }, beside }
    }

    #[test]
    fn a_peer_that_failed_is_behind() {
        let mut results = Results { items: 100, limit: 1, ..Results::default() };
        let done = |seconds| [done(Load, seconds, None), done(Compact, seconds, None)];
        results.note(Kind::Hedgerow, &done(1.0));
        assert!(results.lines(&[Row::Load, Row::Drained]).is_empty());
        results.failures.push((Kind::Fjall, "fjall was ended".to_owned()));
        let lines = results.lines(&[Row::Load, Row::Drained]);
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.is_met() && line.from.contains("fjall was ended")));
        results.note(Kind::Fjall, &done(0.5));
        let lines = results.lines(&[Row::Load, Row::Drained]);
        assert!(lines.iter().all(|line| line.value == 0.5 && !line.is_met()));
    }

    #[test]
    fn reads_are_held_against_the_device_right_before() {
        let mut results = Results::default();
        let rates = [100.0, 50.0, 400.0].map(Some);
        let gets = [1.0, 2.0, 1.0].into_iter().zip(rates).map(|(s, rate)| done(Get, s, rate));
        results.note(Kind::Hedgerow, &gets.collect::<Vec<_>>());
        let lines = results.lines(&[Row::Get, Row::MultiGet]);
        assert_eq!((lines.len(), lines[0].value), (1, 1.0));
        assert_eq!(results.drained(Kind::Hedgerow), [0.0; 0]);
    }

    #[test]
    fn the_slowest_opening_counts() {
        let mut results = Results { streams: vec![5e8], ..Results::default() };
        results.openings = vec![(0.5, 1_000_000_000), (0.1, 50_000_000), (0.2, 400_000_000)];
        results.cold_openings = vec![(1.0, 200_000_000)];
        let lines = results.lines(&[Row::Kill]);
        assert!((lines[0].value - 2.0).abs() < 1e-9 && (lines[1].value - 5.0).abs() < 1e-9);
        assert_eq!(lines[0].from, "3 times; 100 ms for 50 MB; the device alone takes 2.00 s a GB");
    }

    #[test]
    fn every_row_has_somebody_who_does_it() {
        for row in [Row::Load, Row::MultiGet, Row::Get, Row::Scan, Row::Durable, Row::Space] {
            assert!(scenarios(&[row]).iter().any(|scenario| scenario.kind == Kind::Hedgerow));
        }
        assert!(scenarios(&[Row::Kill]).is_empty());
    }
}
