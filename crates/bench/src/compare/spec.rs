//! Workloads as data: the files of `crates/bench/workloads`, read and checked. Knows no engine.

use std::fmt;
use std::fs;

use serde::{Deserialize, Serialize};

use super::entry::{KEY_MAX, Shape};
use super::fresh::{self, Fresh};
use crate::engine::{Promise, Result};

/// The workloads that this program brings, by name.
const FILES: &[(&str, &str)] = &[
    ("rows-24-150", include_str!("../../workloads/rows-24-150.toml")),
    ("rows-16-8", include_str!("../../workloads/rows-16-8.toml")),
    ("append-24-150", include_str!("../../workloads/append-24-150.toml")),
    ("append-16-8", include_str!("../../workloads/append-16-8.toml")),
    ("count", include_str!("../../workloads/count.toml")),
    ("ranges", include_str!("../../workloads/ranges.toml")),
    ("count-duplicates", include_str!("../../workloads/count-duplicates.toml")),
    ("samples-duplicates", include_str!("../../workloads/samples-duplicates.toml")),
    ("duplicates", include_str!("../../workloads/duplicates.toml")),
    ("prefixes", include_str!("../../workloads/prefixes.toml")),
    ("prefixes-duplicates", include_str!("../../workloads/prefixes-duplicates.toml")),
    ("values", include_str!("../../workloads/values.toml")),
    ("redb", include_str!("../../workloads/redb.toml")),
    ("commits", include_str!("../../workloads/commits.toml")),
    ("durable", include_str!("../../workloads/durable.toml")),
    ("long-values", include_str!("../../workloads/long-values.toml")),
    ("aged", include_str!("../../workloads/aged.toml")),
    ("chain", include_str!("../../workloads/chain.toml")),
    ("memory", include_str!("../../workloads/memory.toml")),
    ("larger-than-memory", include_str!("../../workloads/larger-than-memory.toml")),
];

/// A store, how it is filled, and what is measured on it, in order.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Workload {
    /// The name of its file.
    #[serde(skip)]
    pub(crate) name: String,
    /// What it shows.
    pub(crate) about: String,
    /// Keys of the store.
    pub(crate) keys: u64,
    /// Values of each key; 0: one, in a table without duplicates.
    #[serde(default)]
    pub(crate) duplicates: u64,
    /// How long keys and values are.
    pub(crate) shape: Shape,
    /// How often everything is done.
    #[serde(default = "three")]
    pub(crate) rounds: u32,
    /// How much smaller it is in the quick run; without this it is not part of the quick run.
    pub(crate) quick: Option<Quick>,
    /// The same with other values; nothing is done without them, if there are any.
    #[serde(default, rename = "variant")]
    variants: Vec<Variant>,
    /// What is done, in order; the first step loads.
    #[serde(rename = "step")]
    pub(crate) steps: Vec<Step>,
}

/// Another length of values, with as many keys.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Variant {
    value: usize,
    keys: u64,
}

/// What makes a workload quick.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Quick {
    /// Keys and operations are divided by this.
    divide: u64,
    /// How often everything is done.
    rounds: u32,
}

/// One measurement.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(crate) struct Step {
    /// What is done.
    #[serde(rename = "do")]
    pub(crate) operation: Operation,
    /// The row's name.
    pub(crate) name: String,
    /// How often, if the time allows.
    #[serde(default = "one")]
    pub(crate) operations: u64,
    /// Seconds after which a measurement that only reads ends.
    #[serde(default = "five")]
    pub(crate) seconds: f64,
    /// Threads that do it together.
    #[serde(default = "one")]
    pub(crate) threads: u64,
    /// Entries or keys of one operation.
    #[serde(default = "one")]
    pub(crate) batch: u64,
    /// Whether commits are durable.
    #[serde(default)]
    pub(crate) durable: bool,
    /// MiB that the engine may take.
    pub(crate) memory_mib: Option<usize>,
    /// What Hedgerow should reach.
    #[serde(default, skip_serializing)]
    pub(crate) goal: Option<Goal>,
    /// What is measured in a process that begins with it, if that is not where the store is open.
    pub(crate) fresh: Option<Fresh>,
}

fn one() -> u64 {
    1
}

fn three() -> u32 {
    3
}

fn five() -> f64 {
    5.0
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Operation {
    /// All entries in random order, one transaction.
    Load,
    /// All entries in order, by the engine's way to append, one transaction.
    Append,
    /// The value of a random key.
    Get,
    /// The values of `batch` random keys at once.
    GetMany,
    /// A random key that is not there.
    Miss,
    /// All entries in order, a cursor's step each.
    Scan,
    /// All entries in order, by the engine's best way.
    ScanPages,
    /// A random key and the `batch` entries from it on.
    Range,
    /// Random keys by `threads` threads.
    ReadThreads,
    /// How many times faster `threads` threads read than one.
    Speedup,
    /// How many entries a range of `batch` keys has.
    Count,
    /// How many distinct keys a range of `batch` keys has.
    CountKeys,
    /// The entry at a random rank.
    Nth,
    /// The rank of a random key.
    Rank,
    /// `batch` entries from the middle of the range of all entries, as an iterator skips to them.
    Page,
    /// How many entries an iterator over all of them counts.
    Iterated,
    /// `batch` even samples.
    Sample,
    /// How many entries there are.
    Len,
    /// All values of a random key.
    Values,
    /// A new key in a transaction of its own, by `threads` threads.
    Put,
    /// `batch` new random keys a transaction.
    PutBatch,
    /// Values of `operations` random keys replaced, one transaction.
    Replace,
    /// `operations` random keys removed, one transaction.
    Remove,
    /// `batch` neighbouring keys removed, one transaction.
    RemoveRange,
    /// `batch` keys removed and `batch` others put a transaction.
    Churn,
    /// The same, each of the former looked up before.
    Block,
    /// Making the files small.
    Compact,
    /// Bytes on disk.
    Size,
    /// Opening and one get.
    Open,
    /// All entries in random order in one transaction of a process of its own: its private memory.
    Memory,
    /// Random keys by `threads` threads of a process with `memory-mib` of memory.
    Beyond,
}

/// How two values of a row compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    /// Time: the ratio says how many times faster.
    Less,
    /// Rate: the ratio says how many times faster.
    More,
    /// An amount: the ratio is the plain quotient.
    Amount,
}

impl Operation {
    /// The unit of its values, and how they compare.
    fn unit(self) -> (&'static str, Better) {
        match self {
            Self::ReadThreads | Self::Beyond => ("gets/s", Better::More),
            Self::Put => ("commits/s", Better::More),
            Self::PutBatch | Self::Churn | Self::Block => ("keys/s", Better::More),
            Self::Speedup => ("x", Better::Amount),
            Self::Size | Self::Memory => ("MiB", Better::Amount),
            Self::Load | Self::Append | Self::Scan | Self::ScanPages => ("ns/entry", Better::Less),
            Self::Replace | Self::Remove | Self::RemoveRange => ("ns/key", Better::Less),
            Self::Compact => ("ms", Better::Less),
            Self::Open => ("us", Better::Less),
            _ => ("ns", Better::Less),
        }
    }

    /// Whether it draws keys that have to be there.
    fn draws(self) -> bool {
        !matches!(
            self,
            Self::RemoveRange
                | Self::Size
                | Self::Compact
                | Self::Scan
                | Self::ScanPages
                | Self::Page
                | Self::Iterated
        )
    }
}

/// A bound of a row: `>= 2.2` of its ratio to LMDB, `value <= 1000` of its value.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Goal {
    of_value: bool,
    at_least: bool,
    number: f64,
}

impl TryFrom<String> for Goal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (of_value, bound) = match text.strip_prefix("value ") {
            Some(bound) => (true, bound),
            None => (false, text.as_str()),
        };
        let (at_least, number) = match (bound.strip_prefix(">= "), bound.strip_prefix("<= ")) {
            (Some(number), _) => (true, number),
            (_, Some(number)) => (false, number),
            _ => return Err(format!("a goal is `[value] >= N` or `[value] <= N`, not `{text}`")),
        };
        let number = number.parse().map_err(|error| format!("{error} in `{text}`"))?;
        Ok(Self { of_value, at_least, number })
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.of_value { "value " } else { "" };
        let sign = if self.at_least { ">=" } else { "<=" };
        write!(f, "{of}{sign} {}", self.number)
    }
}

impl Goal {
    /// A bound of the value.
    pub(crate) fn value_at_most(number: f64) -> Self {
        Self { of_value: true, at_least: false, number }
    }

    /// Whether a row meets it; unknown without the ratio.
    pub(crate) fn met(self, value: f64, ratio: Option<f64>) -> Option<bool> {
        let seen = if self.of_value { value } else { ratio? };
        Some(if self.at_least { seen >= self.number } else { seen <= self.number })
    }
}

impl Step {
    /// The unit of its values, and how they compare.
    pub(crate) fn unit(&self) -> (&'static str, Better) {
        match self.fresh {
            Some(Fresh::Gained) => ("KiB", Better::Amount),
            _ => self.operation.unit(),
        }
    }

    /// Whether its goal is one that has to be met: memory is bounded.
    pub(crate) fn is_bound(&self) -> bool {
        self.fresh == Some(Fresh::Gained) || self.operation == Operation::Memory
    }

    /// What its commits promise.
    pub(crate) fn promise(&self) -> Promise {
        if self.durable { Promise::Durable } else { Promise::Unsynced }
    }
}

impl Workload {
    /// Its variants, or itself if it has none.
    fn varied(mut self) -> Vec<Self> {
        let variants = std::mem::take(&mut self.variants);
        if variants.is_empty() {
            return vec![self];
        }
        let one = |variant: &Variant| {
            let mut workload = self.clone();
            workload.name = format!("{}-{}", self.name, variant.value);
            workload.keys = variant.keys;
            workload.shape.value = variant.value;
            for step in &mut workload.steps {
                step.operations = step.operations.min(variant.keys / 2);
            }
            workload
        };
        variants.iter().map(one).collect()
    }

    /// Reads a workload and checks that it can be done.
    pub(crate) fn parse(name: &str, text: &str) -> Result<Self> {
        let mut workload: Self =
            toml::from_str(text).map_err(|error| format!("workload {name}: {error}"))?;
        workload.name = name.to_owned();
        match workload.fault() {
            None => Ok(workload),
            Some(fault) => Err(format!("workload {name}: {fault}").into()),
        }
    }

    /// What cannot be done, if there is something.
    fn fault(&self) -> Option<String> {
        let Shape { key, key_shared, value, value_least, value_shared } = self.shape;
        let own = if key_shared == 0 { 8 } else { 16 };
        if key < key_shared + own || key > KEY_MAX {
            return Some(format!("a key has {} to {KEY_MAX} bytes", key_shared + own));
        }
        let span = |step: &&Step| matches!(step.operation, Operation::Count | Operation::CountKeys);
        if self.steps.iter().filter(span).any(|step| step.batch >= self.keys) {
            return Some("a range has fewer keys than the store".into());
        }
        if value_least != 0 && (value_least < 8 || value_least > value || self.duplicates != 0) {
            return Some("lengths of values go from 8 up, in a table without duplicates".into());
        }
        if value < value_shared + if self.duplicates == 0 { 1 } else { 8 } {
            return Some("a value is longer than what all share".into());
        }
        use Operation::{Append, Load, Memory};
        let loads = |operation| matches!(operation, Load | Append | Memory);
        if !self.steps.first().is_some_and(|step| loads(step.operation)) {
            return Some("the first step loads".into());
        }
        let mut steps = self.steps.iter().map(|step| step.operation);
        let gap = steps.any(|operation| operation == Operation::RemoveRange);
        let after = steps.find(|operation| gap && operation.draws());
        after.map(|operation| format!("{operation:?} cannot follow RemoveRange"))
    }

    /// The same with the rows of processes that have just begun.
    fn with_fresh(mut self) -> Self {
        let steps = std::mem::take(&mut self.steps);
        let rows = |step: Step| {
            let more = fresh::rows(&step);
            std::iter::once(step).chain(more)
        };
        self.steps = steps.into_iter().flat_map(rows).collect();
        self
    }

    /// The same with fewer keys and operations, if it can be quick.
    fn quickened(mut self) -> Option<Self> {
        let Quick { divide, rounds } = self.quick?;
        self.keys /= divide;
        self.rounds = rounds;
        for step in self.steps.iter_mut().filter(|step| step.fresh.is_none()) {
            step.operations = (step.operations / divide).max(1);
            if step.operation == Operation::RemoveRange {
                step.batch = (step.batch / divide).max(1);
            }
        }
        Some(self)
    }
}

/// The workloads of a choice: `all`, `quick`, a name, or a file that ends in `.toml`.
pub(crate) fn choose(choice: &str) -> Result<Vec<Workload>> {
    if choice.ends_with(".toml") {
        let text = fs::read_to_string(choice).map_err(|error| format!("{choice}: {error}"))?;
        return Ok(Workload::parse(choice, &text)?.with_fresh().varied());
    }
    let all = FILES.iter().map(|(name, text)| Workload::parse(name, text));
    let all: Vec<Workload> =
        all.map(|workload| Ok(workload?.with_fresh())).collect::<Result<_>>()?;
    let names: Vec<String> = all.iter().map(|workload| workload.name.clone()).collect();
    let all = all.into_iter();
    let chosen: Vec<Workload> = match choice {
        "all" => all.collect(),
        "quick" => all.filter_map(Workload::quickened).collect(),
        name => all.filter(|workload| workload.name == name).collect(),
    };
    if chosen.is_empty() {
        let names = names.join(", ");
        return Err(format!("no workload {choice}; there are all, quick, {names}").into());
    }
    Ok(chosen.into_iter().flat_map(Workload::varied).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_workloads() {
        assert!(choose("all").unwrap().len() >= FILES.len());
        assert!(!choose("quick").unwrap().is_empty());
        assert!(choose("nothing").is_err());
    }

    #[test]
    fn scans_and_many_gets_are_also_looked_at_in_new_processes() {
        let quick = choose("quick").unwrap();
        let rows = quick.iter().find(|workload| workload.name == "rows-24-150").unwrap();
        let fresh = |of: &str| -> Vec<_> {
            let is_of = |step: &&Step| step.fresh.is_some() && step.name.starts_with(of);
            let told = |step: &Step| (step.operation, step.fresh, step.operations, step.is_bound());
            rows.steps.iter().filter(is_of).map(told).collect()
        };
        let pages = Operation::ScanPages;
        assert_eq!(
            fresh("full scan, page at a time"),
            [(pages, Some(Fresh::FirstPass), 1, false), (pages, Some(Fresh::Gained), 1, true)]
        );
        let gets = (Operation::Get, Some(Fresh::Gained), 1_000_000, true);
        assert!(fresh("").contains(&gets));
    }

    #[test]
    fn goals_are_read_and_held() {
        let goal = |text: &str| Goal::try_from(text.to_owned());
        assert_eq!(goal(">= 2.2").unwrap().met(1.0, Some(2.3)), Some(true));
        assert_eq!(goal(">= 2.2").unwrap().met(9.0, None), None);
        assert_eq!(goal("value <= 96").unwrap().met(97.0, None), Some(false));
        assert!(goal("2.2").is_err());
        assert_eq!(goal("value <= 96").unwrap().to_string(), "value <= 96");
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let text =
            "about = 'a'\nkeys = 1\nshape = { key = 8, value = 8 }\n[[step]]\nname = 'n'\ndo = ";
        assert!(Workload::parse("a", &format!("{text}'load'")).is_ok());
        assert!(Workload::parse("a", &format!("{text}'get'")).is_err());
        let range =
            "'load'\n[[step]]\nname = 'r'\ndo = 'remove-range'\n[[step]]\nname = 'g'\ndo = 'get'";
        assert!(Workload::parse("a", &format!("{text}{range}")).is_err());
        assert!(Workload::parse("a", &format!("{text}'fly'")).is_err());
    }
}
