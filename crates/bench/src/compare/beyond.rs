//! Reading a store that is larger than the memory there is: in a process of its own whose memory a
//! control group of the kernel limits, with none of its files in the system's cache at the start.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::Advice;

use super::entry::{self, Maker, Shape};
use super::memory;
use super::model::Model;
use super::peer::Peer;
use super::reads::Wrong;
use super::spec::Step;
use crate::data::Generator;
use crate::engine::{Engine, Reader, Result, Table};
use crate::group::{self, Group};

/// The arguments of the process.
#[derive(clap::Args)]
pub(crate) struct Options {
    engine: Peer,
    folder: PathBuf,
    group: PathBuf,
    keys: u64,
    key: usize,
    value: usize,
    memory_mib: usize,
    threads: u64,
    seconds: f64,
}

/// Gets a second on a closed store, in a process with `step.memory_mib` of memory.
pub(crate) fn gets(engine: &str, folder: &Path, step: &Step, model: &Model) -> Result<f64> {
    let memory_mib = step.memory_mib.ok_or("larger than what memory?")?;
    let group = Group::new((memory_mib as u64) << 20)?;
    let Shape { key, value, .. } = model.shape;
    let output = Command::new(std::env::current_exe()?)
        .args(["beyond", engine])
        .args([folder, group.path()])
        .args([model.next, key as u64, value as u64].map(|number| number.to_string()))
        .args([memory_mib as u64, step.threads].map(|number| number.to_string()))
        .arg(step.seconds.to_string())
        .output()?;
    memory::answer(&output)
}

/// Joins the group, opens the store, and prints how many gets a second it answers.
pub(crate) fn main(options: &Options) -> Result<()> {
    forget(&options.folder)?;
    group::join(&options.group)?;
    println!("{}", options.engine.beyond(options)?);
    Ok(())
}

/// Lets the system's cache forget all files of a folder.
pub(crate) fn forget(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.metadata()?.is_dir() {
            forget(&entry.path())?;
        } else {
            let file = File::open(entry.path())?;
            file.sync_all()?;
            rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    Ok(())
}

/// Random gets by some threads for some seconds; every value is looked at.
pub(crate) fn run<E: Engine>(options: &Options) -> Result<f64> {
    let Options { keys, key, value, threads, seconds, .. } = *options;
    let store = E::open(&options.folder, Some(options.memory_mib << 19))?;
    let time = Duration::from_secs_f64(seconds);
    let one = |seed| {
        let maker =
            &mut Maker::new(Shape { key, key_shared: 0, value, value_least: 0, value_shared: 0 });
        let mut random = Generator::new(seed);
        store.read(Table { name: "table", duplicates: false }, |txn| {
            let start = Instant::now();
            let mut gets = 0u64;
            while start.elapsed() < time {
                let word = entry::word(random.below(keys));
                let key = maker.own_key(word);
                let wanted = maker.value(entry::value_word(word, 0));
                if txn.get(key.as_ref(), |value| value == *wanted)? != Some(true) {
                    return Err(Wrong(format!("key {}", entry::index(word))).into());
                }
                gets += 1;
            }
            Ok(gets)
        })
    };
    let one = &one;
    let gets = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|seed| scope.spawn(move || one(seed))).collect();
        let gets = threads.into_iter().map(|thread| match thread.join() {
            Ok(gets) => gets,
            Err(_) => Err("a thread panicked".into()),
        });
        gets.sum::<Result<u64>>()
    })?;
    Ok(gets as f64 / seconds)
}
