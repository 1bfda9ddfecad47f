//! Cases in child processes: one that a signal ends, that does not come back or that takes too much
//! memory is a finding, and the next seed goes on in another child.

use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::{CaseReport, Templates, remember_panics, run_case};
use crate::lsm::hostile::Hostile;

/// How long one case may take.
const CASE_MAX: Duration = Duration::from_secs(60);
/// How much private memory a child may have, in KiB. The maps of files are not counted.
const MEMORY_MAX_KIB: u64 = 1 << 20;

/// What came of all cases.
#[derive(Debug, Default)]
pub struct Summary {
    /// Cases that were run.
    pub cases: u64,
    /// Calls that were answered.
    pub done: u64,
    /// Calls that were refused.
    pub refused: u64,
    /// Each seed that ended badly, and how.
    pub findings: Vec<(u64, String)>,
}

/// Runs the cases of these seeds in this process, and prints a line before and after each.
///
/// # Errors
/// Errors of the system, if stores cannot be written.
pub fn child(seeds: &[u64], folder: &Path) -> std::io::Result<()> {
    let templates = Templates::new(folder).map_err(std::io::Error::other)?;
    run_cases(seeds, |seed| run_case(&templates, seed, folder))
}

/// The same for the log-structured engine.
///
/// # Errors
/// If the store that is changed cannot be made.
pub fn lsm_child(seeds: &[u64]) -> std::io::Result<()> {
    let hostile = Hostile::new().map_err(std::io::Error::other)?;
    run_cases(seeds, |seed| hostile.run_case(seed))
}

fn run_cases(
    seeds: &[u64],
    run_case: impl Fn(u64) -> std::io::Result<CaseReport>,
) -> std::io::Result<()> {
    remember_panics();
    let mut out = std::io::stdout();
    for seed in seeds {
        writeln!(out, "begin {seed}")?;
        out.flush()?;
        let report = run_case(*seed)?;
        let panic = report.panic.map(|text| {
            format!("panic: {}; {}", text.replace('\n', " "), report.changes.join("; "))
        });
        let panic = panic.unwrap_or_default();
        writeln!(out, "end {seed} {} {} {panic}", report.done, report.refused)?;
    }
    out.flush()
}

/// Runs cases of an engine in children of the program `program`, one after the other.
///
/// # Errors
/// Errors of the system, if no child can be started.
pub fn run(program: &Path, engine: &str, seeds: &[u64]) -> std::io::Result<Summary> {
    let mut summary = Summary::default();
    let mut left = seeds;
    while let (Some(first), Some(last)) = (left.first(), left.last()) {
        let next = one_child(program, engine, *first..=*last, &mut summary)?;
        left = &left[left.iter().position(|seed| *seed >= next).unwrap_or(left.len())..];
    }
    Ok(summary)
}

/// Runs seeds until the child ends. Returns the seed with which to go on.
fn one_child(
    program: &Path,
    engine: &str,
    seeds: RangeInclusive<u64>,
    summary: &mut Summary,
) -> std::io::Result<u64> {
    let (first, last) = seeds.into_inner();
    let folder = tempfile::tempdir()?;
    let mut child = Command::new("sh")
        .arg("-c")
        .arg(format!("ulimit -c 0; ulimit -d {MEMORY_MAX_KIB}; exec \"$0\" \"$@\""))
        .arg(program)
        .args(["hostile", "--engine", engine, "--seeds", &format!("{first}..{last}"), "--child"])
        .arg(folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let lines = lines_of(&mut child);
    let mut running = None;
    loop {
        match lines.recv_timeout(CASE_MAX) {
            Ok(line) => note(&line, &mut running, summary),
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                child.kill()?;
                child.wait()?;
                let seed = running.unwrap_or(first);
                let seconds = CASE_MAX.as_secs();
                summary.findings.push((seed, format!("not done after {seconds} seconds")));
                return Ok(seed + 1);
            }
        }
    }
    let status = child.wait()?;
    if status.success() {
        return Ok(last + 1);
    }
    let mut said = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        // What it said last, if anything: a refused allocation does.
        let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
    }
    let seed = running.unwrap_or(first);
    summary.findings.push((seed, format!("{status} {}", said.trim())));
    Ok(seed + 1)
}

fn lines_of(child: &mut Child) -> Receiver<String> {
    let (sender, lines) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
    }
    lines
}

fn note(line: &str, running: &mut Option<u64>, summary: &mut Summary) {
    let mut words = line.splitn(5, ' ');
    let kind = words.next().unwrap_or_default();
    let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let seed = number();
    if kind == "begin" {
        *running = Some(seed);
        return;
    }
    summary.cases += 1;
    summary.done += number();
    summary.refused += number();
    if let Some(text) = words.next().filter(|text| !text.is_empty()) {
        summary.findings.push((seed, text.to_owned()));
    }
}
