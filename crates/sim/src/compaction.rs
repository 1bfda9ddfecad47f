//! Curves of write and space amplification: the planners of the log-structured engine over millions
//! of operations on a simulated store.

use hedgerow::Result;
pub use hedgerow::lsm::simulate::{Shape, Tally};

use hedgerow::lsm::simulate::Simulation;

use crate::rng::Rng;

/// What is done to a store after every key was put once, in random order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// Nothing.
    Load,
    /// Values are put anew, under all keys alike.
    Uniform,
    /// The same, four fifths of it under one fifth of the keys, and so on.
    Skewed,
    /// The same, from the first key to the last one.
    Sequential,
    /// Half of the operations delete and half put.
    Deletes,
    /// Half of the keys get new values, then half are deleted.
    Halves,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Load, Self::Uniform, Self::Skewed, Self::Sequential, Self::Deletes, Self::Halves];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Uniform => "uniform",
            Self::Skewed => "skewed",
            Self::Sequential => "sequential",
            Self::Deletes => "deletes",
            Self::Halves => "halves",
        }
    }
}

/// What a run is like.
#[derive(Clone, Copy, Debug)]
pub struct CompactionSettings {
    /// What is done.
    pub workload: Workload,
    /// What the store is like.
    pub shape: Shape,
    /// How many keys.
    pub keys: u32,
    /// Operations after the load.
    pub ops: u64,
    /// The seed of the order.
    pub seed: u64,
    /// The number of points of the curve.
    pub points: u64,
}

/// The default store of `CompactionSettings`: the sizes of a real one divided by sixteen, with 1
/// KiB under each key.
pub fn shape(separated: bool) -> Shape {
    Shape {
        key_bytes: 16,
        value_bytes: 1024,
        separated,
        memtable_bytes: 2 << 20,
        segment_bytes: 4 << 20,
        table_bytes: 2 << 20,
    }
}

/// How a run went.
#[derive(Clone, Debug)]
pub struct Curve {
    /// When every key was put.
    pub loaded: Tally,
    /// Points after that: operations, and what the store had come to.
    pub points: Vec<(u64, Tally)>,
    /// After a full compaction.
    pub compacted: Tally,
}

/// Runs a workload.
///
/// # Errors
/// If a plan does not fit the version that it was made for.
pub fn run(settings: &CompactionSettings) -> Result<Curve> {
    let mut rng = Rng::new(settings.seed, 60);
    let mut store = Simulation::new(settings.shape, settings.keys)?;
    let mut keys: Vec<u32> = (0..settings.keys).collect();
    for last in (1..keys.len()).rev() {
        keys.swap(last, rng.index(last + 1));
    }
    for &key in &keys {
        store.put(key)?;
    }
    let loaded = store.tally();
    let ops = match settings.workload {
        Workload::Load => 0,
        Workload::Halves => u64::from(settings.keys),
        _ => settings.ops,
    };
    let every = (ops / settings.points.max(1)).max(1);
    let mut points = Vec::new();
    for op in 1..=ops {
        step(settings, &mut store, &mut rng, &keys, op)?;
        if op % every == 0 {
            points.push((op, store.tally()));
            store.forget_peak();
        }
    }
    store.compact()?;
    Ok(Curve { loaded, points, compacted: store.tally() })
}

fn step(
    settings: &CompactionSettings,
    store: &mut Simulation,
    rng: &mut Rng,
    keys: &[u32],
    op: u64,
) -> Result<()> {
    let count = keys.len();
    match settings.workload {
        Workload::Load => Ok(()),
        Workload::Uniform => store.put(rng.index(count) as u32),
        Workload::Skewed => store.put(keys[skewed(rng, count)]),
        Workload::Sequential => store.put(((op - 1) % count as u64) as u32),
        Workload::Deletes => {
            let key = rng.index(count) as u32;
            if rng.chance(1, 2) { store.delete(key) } else { store.put(key) }
        }
        Workload::Halves => {
            let key = keys[((op - 1) as usize * 7919) % count];
            if op * 2 <= count as u64 { store.put(key) } else { store.delete(key) }
        }
    }
}

/// A number below `count`: four fifths of them fall on the first fifth, and so on.
fn skewed(rng: &mut Rng, count: usize) -> usize {
    let mut range = count;
    while range > 5 && rng.chance(4, 5) {
        range /= 5;
    }
    rng.index(range)
}
