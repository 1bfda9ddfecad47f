//! From a commit to the wake-up of a follower in another process.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use hedgerow::Durability;
use hedgerow::stream::Follow;
use hedgerow::tree::{Store, TableOptions};

use super::{Goal, Row};
use crate::compare::report::median;
use crate::engine::Result;

/// This many commits are waited for.
const COMMITS: u32 = 300;

/// The follower's process.
#[derive(clap::Args)]
pub(crate) struct Options {
    store: PathBuf,
}

/// Nanoseconds of the clock that both processes have.
fn clock() -> Result<u128> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_nanos())
}

/// Prints a line for each step: the commit, and when it was there.
pub(crate) fn follower(options: &Options) -> Result<()> {
    let store = Store::builder().read_only(true).open(&options.store)?;
    let mut follow = Follow::from_now(&store)?;
    let mut out = std::io::stdout().lock();
    writeln!(out, "ready 0")?;
    out.flush()?;
    // The end of its input is not looked at: the parent ends it.
    loop {
        if let Some(step) = follow.step(Some(Duration::from_secs(10)))? {
            let now = clock()?;
            writeln!(out, "{} {now}", step.to())?;
            out.flush()?;
        }
    }
}

/// The median time between just before an unsynced commit and the wake-up.
pub(super) fn wake_up(folder: &Path) -> Result<Row> {
    let path = folder.join("followed");
    let store = Store::create(&path)?;
    let put = |number: u32| -> Result<u128> {
        let mut txn = store.begin_write()?;
        let table = txn.create_table("t", &TableOptions::new())?;
        txn.put(table, b"k", &number.to_le_bytes())?;
        let before = clock()?;
        txn.commit_with(Durability::None)?;
        Ok(before)
    };
    put(0)?;
    let mut child = Command::new(std::env::current_exe()?)
        .arg("follower")
        .arg(&path)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = child.stdout.take().ok_or("the follower has no output")?;
    let mut lines = BufReader::new(lines).lines();
    let mut line = || -> Result<String> { Ok(lines.next().ok_or("the follower ended")??) };
    line()?;
    let (mut times, mut commits) = (Vec::new(), Vec::new());
    for number in 1..=COMMITS {
        // It sleeps again.
        std::thread::sleep(Duration::from_millis(1));
        let start = std::time::Instant::now();
        let before = put(number)?;
        commits.push(start.elapsed().as_secs_f64() * 1e6);
        let said = line()?;
        let (commit, woken) = said.split_once(' ').ok_or("not a line of the follower")?;
        if commit.parse::<u64>()? != store.newest_commit() {
            return Err(format!("the follower saw commit {commit}").into());
        }
        times.push(woken.parse::<u128>()?.saturating_sub(before) as f64 / 1e3);
    }
    child.kill()?;
    child.wait()?;
    let (base, found) = (median(&commits), median(&times));
    let name = "wake-up of a follower beside a put".into();
    Ok(Row { name, unit: "us", base, found, goal: Goal::Within(100.0) })
}
