//! Private memory of a process while it loads a store: run in a process of its own, because memory
//! that another measurement took is not given back.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use super::entry::{self, Maker, Shape};
use super::model::Model;
use super::peer::Peer;
use super::spec::Step;
use crate::engine::{Engine, Error, Promise, Result, Table, Writer};

/// The arguments of the process.
#[derive(clap::Args)]
pub(crate) struct Options {
    engine: Peer,
    folder: PathBuf,
    keys: u64,
    key: usize,
    value: usize,
    /// MiB that the engine may take
    memory_mib: Option<usize>,
}

/// The most MiB that an engine's process had for itself while it loaded what a model holds.
pub(crate) fn of_load(engine: &str, folder: &Path, step: &Step, model: &Model) -> Result<f64> {
    let folder = tempfile::tempdir_in(folder)?;
    let Shape { key, value, .. } = model.shape;
    let output = Command::new(std::env::current_exe()?)
        .args(["load", engine])
        .arg(folder.path())
        .args([model.next.to_string(), key.to_string(), value.to_string()])
        .args(step.memory_mib.map(|memory| memory.to_string()))
        .output()?;
    answer(&output)
}

/// What a process of this program has printed.
pub(crate) fn answer<T: FromStr>(output: &Output) -> Result<T>
where
    T::Err: Into<Error>,
{
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    String::from_utf8_lossy(&output.stdout).trim().parse().map_err(Into::into)
}

/// Loads, and prints the most MiB that this process had for itself during the load.
pub(crate) fn main(options: &Options) -> Result<()> {
    let done = AtomicBool::new(false);
    let peak = thread::scope(|scope| {
        let watch = scope.spawn(|| watch(&done));
        let loaded = options.engine.load(options);
        done.store(true, Ordering::SeqCst);
        let peak = watch.join().map_err(|_| "the watching thread panicked")??;
        loaded.map(|()| peak)
    })?;
    println!("{:.1}", peak as f64 / 1024.0);
    Ok(())
}

/// Loads a new store in one transaction.
pub(crate) fn load<E: Engine>(options: &Options) -> Result<()> {
    let Options { key, value, keys, .. } = *options;
    let memory = options.memory_mib.map(|memory| memory << 20);
    let store = E::open(&options.folder, memory)?;
    let maker =
        &mut Maker::new(Shape { key, key_shared: 0, value, value_least: 0, value_shared: 0 });
    store.write(Table { name: "table", duplicates: false }, Promise::Durable, |txn| {
        for index in 0..keys {
            let word = entry::word(index);
            let (key, value) = maker.entry(word, entry::value_word(word, 0));
            txn.put(key, value)?;
        }
        Ok(())
    })
}

/// Looks every few milliseconds until the load is over; returns the most KiB seen.
fn watch(done: &AtomicBool) -> Result<u64> {
    let mut peak = 0;
    while !done.load(Ordering::SeqCst) {
        peak = peak.max(private_about()?);
        thread::sleep(Duration::from_millis(5));
    }
    Ok(peak.max(private_about()?))
}

/// KiB of memory that no file backs, as the system keeps count: cheap, and a little late.
fn private_about() -> Result<u64> {
    kib("/proc/self/status", "RssAnon:")
}

/// The same, counted now.
pub(crate) fn private() -> Result<u64> {
    kib("/proc/self/smaps_rollup", "Anonymous:")
}

fn kib(file: &str, name: &str) -> Result<u64> {
    let text = fs::read_to_string(file)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB"));
    Ok(kib.ok_or_else(|| format!("no {name} in {file}"))?.trim().parse()?)
}
