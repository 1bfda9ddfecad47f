//! The library's queues of reads and writes, beside `fio` with io_uring: random reads of 4 KiB of
//! one file past the system's cache, the same number at a time by the same number of threads. In
//! each round all take turns in an order of its own; a ratio is the median of the rounds' ratios to
//! fio, so that a device that is slower at times does not change it.

use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use super::fio;
use super::queues::{Back, Device};
use crate::compare::report::{deviation, median};
use crate::engine::Result;

/// What is asked for.
pub(super) struct Options {
    /// Of the file.
    pub(super) bytes: u64,
    /// Of each measurement.
    pub(super) seconds: u64,
    pub(super) rounds: u32,
}

/// How many reads at a time, by how many threads each.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) depth: usize,
    pub(super) threads: usize,
    pub(super) time: Duration,
}

/// What a reader brought.
#[derive(Clone, Copy)]
pub(super) struct Rate {
    pub(super) reads_per_second: f64,
    /// The time of all processors together, including the kernel's work; it depends less on what
    /// else the machine does.
    pub(super) cpu_micros_per_read: f64,
}

/// Depth, threads, and the least ratio of the ring to fio that is good.
const LOADS: [(usize, usize, Option<f64>); 6] = [
    (1, 1, Some(0.9)),
    (1, 2, None),
    (16, 1, None),
    (16, 2, None),
    (64, 1, Some(0.85)),
    (64, 2, Some(0.85)),
];

/// The readers, fio first.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Fio,
    Queue(Back),
}

const READERS: [Reader; 3] = [Reader::Fio, Reader::Queue(Back::Ring), Reader::Queue(Back::Threads)];

impl Reader {
    /// The name of its column.
    fn name(self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Queue(Back::Ring) => "ring",
            Self::Queue(Back::Threads) => "threads",
        }
    }

    fn measure(self, device: &Device, load: Load) -> Result<Rate> {
        match self {
            Self::Fio => fio::read(device.path(), load),
            Self::Queue(back) => device.read(back, load),
        }
    }
}

/// A load and what each reader brought, a value a round.
struct Row {
    load: Load,
    goal: Option<f64>,
    rates: [Vec<Rate>; READERS.len()],
}

impl Row {
    /// A reader's rates of all rounds.
    fn reads(&self, reader: usize) -> Vec<f64> {
        self.rates[reader].iter().map(|rate| rate.reads_per_second).collect()
    }

    fn cpu(&self, reader: usize) -> f64 {
        let rates = self.rates[reader].iter();
        median(&rates.map(|rate| rate.cpu_micros_per_read).collect::<Vec<_>>())
    }

    /// How a reader's rate stands to fio's.
    fn ratio(&self, reader: usize) -> f64 {
        let pairs = self.reads(reader).into_iter().zip(self.reads(0));
        median(&pairs.map(|(rate, fio)| rate / fio).collect::<Vec<_>>())
    }

    /// Whether the ring is as near to fio as it should be.
    fn is_met(&self) -> Option<bool> {
        Some(self.ratio(1) >= self.goal?)
    }

    fn json(&self) -> Value {
        let readers = READERS.iter().enumerate().map(|(number, reader)| {
            let answer = json!({
                "reads_per_second": median(&self.reads(number)),
                "deviation": deviation(&self.reads(number)),
                "ratio": self.ratio(number),
                "cpu_micros_per_read": self.cpu(number),
                "rounds": self.reads(number),
            });
            (reader.name().to_owned(), answer)
        });
        json!({
            "workload": "random reads of 4 KiB",
            "depth": self.load.depth,
            "threads": self.load.threads,
            "readers": readers.collect::<serde_json::Map<_, _>>(),
            "goal": self.goal,
            "met": self.is_met(),
        })
    }

    fn line(&self) -> String {
        let mut line = format!("{:>5} {:>7}", self.load.depth, self.load.threads);
        for number in 0..READERS.len() {
            let reads = self.reads(number);
            let _ = write!(line, " {:>9.0} ±{:<6.0}", median(&reads), deviation(&reads));
            let _ = write!(line, " {:>5.1}", self.cpu(number));
            if number > 0 {
                let _ = write!(line, " {:>5.2}", self.ratio(number));
            }
        }
        if let (Some(goal), Some(is_met)) = (self.goal, self.is_met()) {
            let _ = write!(line, "  >= {goal} {}", if is_met { "met" } else { "missed" });
        }
        line
    }
}

/// Measures; returns an object and a table.
pub(super) fn measured(folder: &Path, options: &Options) -> Result<(Value, String)> {
    fio::check()?;
    let device = Device::new(folder, options.bytes)?;
    let rows = measure(&device, options)?;
    Ok((report(&device, options, &rows)?, table(&device, &rows)))
}

fn measure(device: &Device, options: &Options) -> Result<Vec<Row>> {
    let time = Duration::from_secs(options.seconds);
    let row = |(depth, threads, goal)| Row {
        load: Load { depth, threads, time },
        goal,
        rates: Default::default(),
    };
    let mut rows: Vec<Row> = LOADS.map(row).into();
    for round in 0..options.rounds as usize {
        for row in &mut rows {
            for turn in 0..READERS.len() {
                let reader = (round + turn) % READERS.len();
                row.rates[reader].push(READERS[reader].measure(device, row.load)?);
            }
        }
    }
    Ok(rows)
}

fn report(device: &Device, options: &Options, rows: &[Row]) -> Result<Value> {
    Ok(json!({
        "fio": fio::version()?,
        "size_mib": options.bytes >> 20,
        "seconds": options.seconds,
        "ring_is": device.back(Back::Ring),
        "rows": rows.iter().map(Row::json).collect::<Vec<_>>(),
    }))
}

fn table(device: &Device, rows: &[Row]) -> String {
    let mut text = String::from(
        "random reads of 4 KiB a second; microseconds of processor a read; ratios to fio\n\n",
    );
    let _ = write!(text, "{:>5} {:>7}", "depth", "threads");
    for reader in READERS {
        let _ = write!(text, " {:>9} {:7} {:>5}", reader.name(), "", "us");
        if reader != Reader::Fio {
            let _ = write!(text, " {:>5}", "ratio");
        }
    }
    text.push_str("  goal of the ring\n");
    for row in rows {
        let _ = writeln!(text, "{}", row.line());
    }
    if device.back(Back::Ring) != "ring" {
        text.push_str(
            "\nThis system grants no io_uring: the column of the ring is that of threads.\n",
        );
    }
    text
}

#[cfg(test)]
mod tests {
    //! Ratios and goals.

    use super::*;

    #[test]
    fn a_ratio_is_that_of_rounds() {
        let load = Load { depth: 64, threads: 1, time: Duration::from_secs(1) };
        let rate = |reads_per_second| Rate { reads_per_second, cpu_micros_per_read: 1.0 };
        let rates = [[100.0, 10.0, 1.0], [90.0, 8.0, 2.0], [50.0, 5.0, 1.0]];
        let rates = rates.map(|rounds| rounds.map(rate).to_vec());
        let row = Row { load, goal: Some(0.85), rates };
        assert_eq!((row.ratio(1), row.ratio(2), row.is_met()), (0.9, 0.5, Some(true)));
        assert!(row.line().ends_with(">= 0.85 met"), "{}", row.line());
        assert_eq!(row.json()["readers"]["threads"]["ratio"], 0.5);
    }
}
