//! One engine's store during a workload: it does a step, checks the answers, and gives the value of
//! the step's row.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;

use tempfile::TempDir;

use super::entry::{self, Maker};
use super::model::Model;
use super::reads::{self, Run, Wrong};
use super::spec::{Operation, Step, Workload};
use super::writes::Target;
use super::{beyond, fresh, memory, writes};
use crate::engine::{Engine, Reader, Result, Table};

/// A store with the engine's type forgotten.
pub(crate) trait Session {
    /// Does a step on a store with the content of `model`, and returns the row's value.
    fn run(&mut self, step: &Step, model: &Model) -> Result<f64>;
    /// Compares all entries with the model.
    fn verify(&self, model: &Model) -> Result<()>;
    /// Whether it goes on after a step that it cannot do.
    fn lacks_rows(&self) -> bool {
        false
    }
}

/// A store in a folder that goes with it.
pub(crate) struct Opened<E> {
    /// None only while it is closed for a moment.
    store: Option<E>,
    folder: TempDir,
    table: Table,
    engine: &'static str,
}

/// Tells a model what a step has changed.
pub(crate) fn advance(model: &mut Model, step: &Step) {
    match step.operation {
        Operation::Put | Operation::PutBatch => {
            model.add(step.operations / step.threads * step.threads * step.batch);
        }
        Operation::Replace => model.replaced = model.first + step.operations,
        Operation::Remove => model.remove(step.operations),
        Operation::RemoveRange => model.remove_range(writes::middle(model, step), step.batch),
        Operation::Churn | Operation::Block => {
            model.add(step.operations * step.batch);
            model.remove(step.operations * step.batch);
        }
        _ => {}
    }
}

/// Whether a step changes the store, so that all of it is compared afterwards.
pub(crate) fn changes(operation: Operation) -> bool {
    use Operation::{Append, Load, Put, PutBatch, Replace};
    use Operation::{Block, Churn, Compact, Remove, RemoveRange};
    let puts = matches!(operation, Load | Append | Put | PutBatch | Replace);
    puts || matches!(operation, Remove | RemoveRange | Churn | Block | Compact)
}

impl<E: Engine> Opened<E> {
    /// A new store in a folder of its own below `folder`.
    pub(crate) fn new(engine: &'static str, folder: &Path, workload: &Workload) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix(engine).tempdir_in(folder)?;
        let store = Some(E::open(folder.path(), None)?);
        let table = Table { name: "table", duplicates: workload.duplicates > 0 };
        Ok(Self { store, folder, table, engine })
    }

    fn store(&self) -> Result<&E> {
        Ok(self.store.as_ref().ok_or("the store is closed")?)
    }

    /// A measurement of one read transaction, its answers checked.
    fn read(&self, step: &Step, model: &Model) -> Result<Run> {
        let run = self.store()?.read(self.table, |txn| {
            // The first pass since the store was opened for this row has a row of its own.
            if matches!(step.operation, Operation::Scan | Operation::ScanPages) {
                reads::run(txn, &Step { operations: 1, ..step.clone() }, model)?;
            }
            reads::run(txn, step, model)
        })?;
        let expected = reads::expected(step, model, 0, run.operations);
        if run.sum == expected {
            return Ok(run);
        }
        Err(Wrong(format!("the answers sum up to {}, not {expected}", run.sum)).into())
    }

    fn threads(&self, step: &Step, model: &Model, threads: u64) -> Result<Run> {
        let run = reads::threads(self.store()?, self.table, step, model, threads)?;
        let each = |thread| reads::expected(step, model, thread, step.operations);
        let expected: u64 = (0..threads).map(each).sum();
        if run.sum == expected {
            return Ok(run);
        }
        Err(Wrong(format!("the answers sum up to {}, not {expected}", run.sum)).into())
    }

    /// How many times more gets `step.threads` threads do than one.
    fn speedup(&self, step: &Step, model: &Model) -> Result<f64> {
        let one = self.threads(step, model, 1)?;
        Ok(self.threads(step, model, step.threads)?.rate(1) / one.rate(1))
    }

    /// Nanoseconds from a closed store to the answer of a get. Everything is in the system's cache.
    fn open(&mut self, step: &Step, model: &Model) -> Result<f64> {
        let mut maker = Maker::new(model.shape);
        let word = entry::word(model.first);
        let mut nanos = 0;
        for _ in 0..step.operations {
            self.store = None;
            let start = Instant::now();
            let store = self.store.insert(E::open(self.folder.path(), None)?);
            let found = store.read(self.table, |txn| txn.get(maker.key(word), |_| ()))?;
            nanos += start.elapsed().as_nanos();
            found.ok_or_else(|| Wrong("the key is missing after opening".into()))?;
        }
        Ok(nanos as f64 / step.operations as f64)
    }

    /// What is measured while the store is closed, by another process or by looking at its files.
    fn closed(&mut self, measure: impl FnOnce(&str, &Path) -> Result<f64>) -> Result<f64> {
        self.store = None;
        let value = measure(self.engine, self.folder.path());
        self.store = Some(E::open(self.folder.path(), None)?);
        value
    }

    fn compact(&mut self) -> Result<f64> {
        let store = self.store.take().ok_or("the store is closed")?;
        let start = Instant::now();
        self.store = Some(store.compact(self.folder.path())?);
        Ok(start.elapsed().as_secs_f64() * 1e3)
    }
}

/// MiB on disk of a closed store: what a clean end leaves.
fn size(folder: &Path) -> Result<f64> {
    Ok(allocated(folder)? as f64 / f64::from(1 << 20))
}

/// Bytes that the files in a folder take.
fn allocated(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += metadata.blocks() * 512;
        if metadata.is_dir() {
            bytes += allocated(&entry.path())?;
        }
    }
    Ok(bytes)
}

impl<E: Engine> Session for Opened<E> {
    fn run(&mut self, step: &Step, model: &Model) -> Result<f64> {
        if step.fresh.is_some() {
            return self.closed(|engine, folder| fresh::measure(engine, folder, step, model));
        }
        let target = Target { store: self.store()?, table: self.table, step, model };
        let value = match step.operation {
            Operation::Load => target.load()?.nanos(1),
            Operation::Append => target.append()?.nanos(1),
            Operation::Put => target.put()?.rate(1),
            Operation::PutBatch => target.put()?.rate(step.batch),
            Operation::Replace => target.replace()?.nanos(1),
            Operation::Remove => target.remove()?.nanos(1),
            Operation::RemoveRange => target.remove_range()?.nanos(1),
            Operation::Churn | Operation::Block => target.churn()?.rate(step.batch),
            Operation::Compact => self.compact()?,
            Operation::Size => self.closed(|_, folder| size(folder))?,
            Operation::Open => self.open(step, model)? / 1e3,
            Operation::Memory => memory::of_load(self.engine, self.folder.path(), step, model)?,
            Operation::Beyond => {
                self.closed(|engine, folder| beyond::gets(engine, folder, step, model))?
            }
            Operation::ReadThreads => self.threads(step, model, step.threads)?.rate(1),
            Operation::Speedup => self.speedup(step, model)?,
            Operation::Scan | Operation::ScanPages => {
                self.read(step, model)?.nanos(model.entries())
            }
            Operation::GetMany | Operation::Sample => self.read(step, model)?.nanos(step.batch),
            _ => self.read(step, model)?.nanos(1),
        };
        if matches!(step.operation, Operation::Load | Operation::Append) {
            self.store()?.settle()?;
        }
        Ok(value)
    }

    fn verify(&self, model: &Model) -> Result<()> {
        self.store()?.read(self.table, |txn| reads::verify(txn, model))
    }
}
