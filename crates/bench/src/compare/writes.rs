//! The measurements that change a store: what each does. The caller updates the model.

use std::ops::Range;
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

use super::entry::{self, Maker};
use super::model::Model;
use super::reads::{Run, Wrong};
use super::spec::{Operation, Step};
use crate::engine::{Engine, Reader as _, Result, Table, Writer};

/// A store, its table, the step to do and what holds before it.
pub(crate) struct Target<'a, E> {
    pub(crate) store: &'a E,
    pub(crate) table: Table,
    pub(crate) step: &'a Step,
    pub(crate) model: &'a Model,
}

impl<E: Engine> Target<'_, E> {
    /// Changes something in one transaction, as the step's commits promise.
    fn write(&self, work: impl FnOnce(&mut E::Writer<'_>, &mut Maker) -> Result<()>) -> Result<()> {
        let maker = &mut Maker::new(self.model.shape);
        self.store.write(self.table, self.step.promise(), |txn| work(txn, maker))
    }

    /// Loads all entries in random order in one transaction.
    pub(crate) fn load(&self) -> Result<Run> {
        let Model { first, next, duplicates, .. } = *self.model;
        let start = Instant::now();
        self.write(|txn, maker| {
            for number in 0..duplicates.max(1) {
                for index in first..next {
                    let word = entry::word(index);
                    let (key, value) = maker.entry(word, entry::value_word(word, number));
                    txn.put(key, value)?;
                }
            }
            Ok(())
        })?;
        Ok(Run { operations: self.model.entries(), time: start.elapsed(), sum: 0 })
    }

    /// Appends all entries in order in one transaction.
    pub(crate) fn append(&self) -> Result<Run> {
        let start = Instant::now();
        self.write(|txn, maker| {
            for word in &self.model.sorted {
                let (key, value) = maker.entry(*word, entry::value_word(*word, 0));
                txn.append(key, value)?;
            }
            Ok(())
        })?;
        Ok(Run { operations: self.model.entries(), time: start.elapsed(), sum: 0 })
    }

    /// Puts new keys by several threads, `step.batch` a transaction.
    pub(crate) fn put(&self) -> Result<Run> {
        let Step { threads, batch, .. } = *self.step;
        let each = self.step.operations / threads;
        let duplicates = self.model.duplicates;
        let barrier = Barrier::new(threads as usize);
        let one = |thread: u64| {
            barrier.wait();
            let start = Instant::now();
            let from = self.model.next + thread * each * batch;
            let maker = &mut Maker::new(self.model.shape);
            for first in (from..from + each * batch).step_by(batch as usize) {
                let put =
                    |txn: &mut E::Writer<'_>| put_all(txn, maker, first..first + batch, duplicates);
                match threads {
                    1 => self.store.write(self.table, self.step.promise(), put)?,
                    _ => self.store.write_beside(self.table, self.step.promise(), put)?,
                }
            }
            Ok(start)
        };
        let one = &one;
        let starts: Vec<Instant> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || one(i))).collect();
            let ends = threads.into_iter().map(|thread| match thread.join() {
                Ok(done) => done,
                Err(_) => Err("a thread panicked".into()),
            });
            ends.collect::<Result<_>>()
        })?;
        let time = starts.iter().map(Instant::elapsed).max().unwrap_or_default();
        Ok(Run { operations: each * threads, time, sum: 0 })
    }

    /// Replaces the values of the keys of the lowest indexes in one transaction.
    pub(crate) fn replace(&self) -> Result<Run> {
        let start = Instant::now();
        let operations = self.step.operations;
        self.write(|txn, maker| {
            for index in self.model.first..self.model.first + operations {
                let word = entry::word(index);
                let (key, value) = maker.entry(word, entry::value_word(word, 1));
                txn.replace(key, value)?;
            }
            Ok(())
        })?;
        Ok(Run { operations, time: start.elapsed(), sum: 0 })
    }

    /// Removes the keys of the lowest indexes in one transaction.
    pub(crate) fn remove(&self) -> Result<Run> {
        let (first, operations) = (self.model.first, self.step.operations);
        let start = Instant::now();
        self.write(|txn, maker| remove_all(txn, maker, first..first + operations))?;
        Ok(Run { operations, time: start.elapsed(), sum: 0 })
    }

    /// Removes `step.batch` neighbouring keys from the middle in one transaction.
    pub(crate) fn remove_range(&self) -> Result<Run> {
        let sorted = &self.model.sorted;
        let from = middle(self.model, self.step) as usize;
        let (low, high) = (sorted[from], sorted[from + self.step.batch as usize]);
        let start = Instant::now();
        self.write(|txn, maker| {
            let high = maker.own_key(high);
            txn.delete_range(maker.key(low), high.as_ref())
        })?;
        Ok(Run { operations: self.step.batch, time: start.elapsed(), sum: 0 })
    }

    /// Removes the oldest keys and puts new ones, `step.batch` of each a transaction. In the
    /// block-chain workload they are looked up before, as spending coins does.
    pub(crate) fn churn(&self) -> Result<Run> {
        let Step { operations, batch, .. } = *self.step;
        let start = Instant::now();
        for done in (0..operations * batch).step_by(batch as usize) {
            let (old, new) = (self.model.first + done, self.model.next + done);
            if self.step.operation == Operation::Block {
                self.find_all(old..old + batch)?;
            }
            self.write(|txn, maker| {
                remove_all(txn, maker, old..old + batch)?;
                put_all(txn, maker, new..new + batch, self.model.duplicates)
            })?;
        }
        Ok(Run { operations, time: start.elapsed(), sum: 0 })
    }

    /// Looks at entries one by one, and at all of their values.
    fn find_all(&self, indexes: Range<u64>) -> Result<()> {
        let maker = &mut Maker::new(self.model.shape);
        self.store.read(self.table, |txn| {
            for index in indexes {
                let word = entry::word(index);
                let (key, value) = maker.entry(word, entry::value_word(word, 0));
                if txn.get(key, |found| found == *value)? != Some(true) {
                    return Err(Wrong(format!("key {index} before it is removed")).into());
                }
            }
            Ok(())
        })
    }
}

/// The rank of the first key of the range that a step removes.
pub(crate) fn middle(model: &Model, step: &Step) -> u64 {
    (model.keys() - step.batch) / 2
}

/// Puts new keys with all of their values.
fn put_all<W: Writer>(
    txn: &mut W,
    maker: &mut Maker,
    indexes: Range<u64>,
    duplicates: u64,
) -> Result<()> {
    for word in indexes.map(entry::word) {
        for number in 0..duplicates.max(1) {
            let (key, value) = maker.entry(word, entry::value_word(word, number));
            txn.put(key, value)?;
        }
    }
    Ok(())
}

fn remove_all<W: Writer>(txn: &mut W, maker: &mut Maker, indexes: Range<u64>) -> Result<()> {
    for index in indexes {
        txn.delete(maker.key(entry::word(index)))?;
    }
    Ok(())
}
