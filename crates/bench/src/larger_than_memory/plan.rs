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

/// What the device does without a store, a value a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Probe {
    /// Random reads a second: one at a time, 64 of one thread, 64 of each of two.
    Reads1,
    Reads64,
    Reads64By2,
    /// Writes of 4 KiB into written space with a flush each.
    Flushes,
}

impl Probe {
    /// The row that needs it.
    pub(super) const ALL: [(Self, Row); 4] = [
        (Self::Reads1, Row::Get),
        (Self::Reads64, Row::MultiGet),
        (Self::Reads64By2, Row::MultiGet),
        (Self::Flushes, Row::Durable),
    ];
}

/// What was measured in all rounds.
#[derive(Default)]
pub(super) struct Results {
    pub(super) steps: BTreeMap<(Kind, Step), Vec<Taken>>,
    pub(super) probes: BTreeMap<Probe, Vec<f64>>,
    /// Of each engine: the most bytes that its processes had for themselves, the most with the
    /// cache of files, and how often the kernel ended one.
    pub(super) memory: BTreeMap<Kind, (u64, u64, u64)>,
    /// What became of engines that failed.
    pub(super) failures: Vec<String>,
    /// Opening after an end by force: seconds, and bytes that were there.
    pub(super) openings: Vec<(f64, u64)>,
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
    /// The figures behind it.
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

    fn probe(&self, probe: Probe) -> &[f64] {
        self.probes.get(&probe).map_or(&[], Vec::as_slice)
    }

    /// Items a second until everything was merged.
    fn drained(&self, kind: Kind) -> Vec<f64> {
        let (loads, merges) = (self.steps.get(&(kind, Load)), self.steps.get(&(kind, Compact)));
        let pairs = loads.into_iter().flatten().zip(merges.into_iter().flatten());
        pairs.map(|(a, b)| a.operations as f64 / (a.seconds + b.seconds)).collect()
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
            let rates = ratio(&self.rates(ours, Load), &self.rates(theirs, Load));
            lines.extend(rates.map(|rates| least(Row::Load, what, rates, goal)));
        }
        for (what, ours, theirs, goal) in [
            ("to RocksDB without its log", HedgerowHeld, RocksdbNoLog, 4.0),
            ("to RocksDB", Hedgerow, Rocksdb, 4.0),
            ("to fjall", Hedgerow, Fjall, 2.0),
        ] {
            let rates = ratio(&self.drained(ours), &self.drained(theirs));
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
        for (row, what, step, probe, goal) in [
            (Row::MultiGet, "one thread, to fio with 64", MultiGet, Probe::Reads64, 0.85),
            (Row::MultiGet, "two threads, to fio with 64 each", MultiGet2, Probe::Reads64By2, 0.85),
            (Row::Get, "to fio with one", Get, Probe::Reads1, 0.9),
        ] {
            let rates = ratio(&self.rates(Kind::Hedgerow, step), self.probe(probe));
            let mut peers = String::new();
            for kind in [Kind::RocksdbNoLog, Kind::Fjall] {
                let step = if step == MultiGet2 { MultiGet } else { step };
                if let Some((ratio, _)) = ratio(&self.rates(kind, step), self.probe(probe)) {
                    peers += &format!(", {} {ratio:.2}", kind.name());
                }
            }
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
        let rates = ratio(&one, self.probe(Probe::Flushes));
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
        let slowest = self.openings.iter().map(|(seconds, bytes)| seconds / (*bytes as f64 / 1e9));
        if !self.openings.is_empty() {
            let slowest = slowest.fold(0.0, f64::max);
            let from = format!("{} times", self.openings.len());
            lines.push(most(Row::Kill, "opening, seconds a GB", slowest, 1.0, from));
        }
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

    #[test]
    fn every_row_has_somebody_who_does_it() {
        for row in [Row::Load, Row::MultiGet, Row::Get, Row::Scan, Row::Durable, Row::Space] {
            assert!(scenarios(&[row]).iter().any(|scenario| scenario.kind == Kind::Hedgerow));
        }
        assert!(scenarios(&[Row::Kill]).is_empty());
    }
}
