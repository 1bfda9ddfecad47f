//! The processes that work on stores: starting and watching them, and reading what they report.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use super::Session;
use super::plan::{Done, Results, Scenario};
use super::steps::Step;
use crate::compare::beyond::forget;
use crate::data::Generator;
use crate::engine::Result;
use crate::engines::beyond::Kind;
use crate::group::Group;

/// How often a process is looked at.
const WATCH: Duration = Duration::from_millis(20);

/// What a process did, how it ended, and the most bytes that it had for itself.
struct Said {
    done: Vec<Done>,
    complaint: String,
    status: ExitStatus,
    own: u64,
}

fn start(
    session: &Session<'_>,
    group: Option<&Group>,
    folder: &Path,
    (kind, items): (Kind, u64),
    steps: &[Step],
) -> Result<Child> {
    let names =
        steps.iter().map(|step| Ok(serde_json::to_value(step)?.as_str().map(str::to_owned)));
    let names: Vec<String> = names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let engine = clap::ValueEnum::to_possible_value(&kind).ok_or("an engine without a name")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["steps", engine.get_name()]).arg(folder);
    command.args([items, session.limit, session.options.seconds].map(|n| n.to_string()));
    command.arg(names.join(","));
    if let Some(group) = group {
        command.arg("--group").arg(group.path());
    }
    Ok(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Reads what a process says until it ends; `probe` measures the device whenever it waits for that.
fn follow(
    mut child: Child,
    group: Option<&Group>,
    probe: impl Fn(Step) -> Result<f64>,
) -> Result<Said> {
    let stdout = BufReader::new(child.stdout.take().ok_or("a process without output")?);
    let mut stderr = child.stderr.take().ok_or("a process without output")?;
    let mut stdin = child.stdin.take().ok_or("a process without input")?;
    let (line_to, line_from) = mpsc::channel();
    let lines = thread::spawn(move || stdout.lines().try_for_each(|line| line_to.send(line)));
    let complaint = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).map(|_| text)
    });
    let (mut own, mut done, mut beside) = (0, Vec::new(), None);
    loop {
        match line_from.recv_timeout(WATCH) {
            Ok(line) => match serde_json::from_str(&line?)? {
                (step, Some(taken)) => done.push(Done { step, taken, beside: beside.take() }),
                (step, None) => {
                    beside = Some(probe(step)?);
                    // A process that has ended by now is reported below.
                    let _ = writeln!(stdin);
                }
            },
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        own = own.max(group.map_or(Ok(0), Group::own)?);
    }
    let status = child.wait()?;
    lines.join().map_err(|_| "a reading thread panicked")?.map_err(|_| "nobody listens")?;
    let complaint = complaint.join().map_err(|_| "a reading thread panicked")??;
    Ok(Said { done, complaint: complaint.trim().to_owned(), status, own })
}

/// Does a scenario in a process of its own.
pub(super) fn run(session: &Session<'_>, scenario: &Scenario, results: &mut Results) -> Result<()> {
    let folder = tempfile::tempdir_in(session.folder())?;
    let group = session.group()?;
    let of = (scenario.kind, session.items);
    let child = start(session, group.as_ref(), folder.path(), of, scenario.steps)?;
    let said = follow(child, group.as_ref(), |step| session.probe(step))?;
    results.note(scenario.kind, &said.done);
    let killed = group.as_ref().map_or(Ok(0), Group::killed)?;
    let peak = group.as_ref().map_or(Ok(0), Group::peak)?;
    let memory = results.memory.entry(scenario.kind).or_default();
    *memory = (memory.0.max(said.own), memory.1.max(peak), memory.2 + killed);
    if said.status.success() {
        return Ok(());
    }
    let name = scenario.kind.name();
    let last = said.done.last();
    let done = last.map_or_else(String::new, |done| format!(" after {:?}", done.step));
    let what = match killed > 0 {
        true => format!("{name} was ended by the kernel{done}: it took more memory than there is"),
        false => format!("{name} failed{done}: {}, {}", said.status, said.complaint),
    };
    // A peer that fails is one of the results; a wrong answer, or a failure of ours, fails the run.
    if killed == 0 && (name.starts_with("hedgerow") || said.complaint.contains("a wrong answer")) {
        return Err(what.into());
    }
    results.failures.push((scenario.kind, what));
    Ok(())
}

/// Loads until it is killed, opens the store and looks for what was durable; returns how many
/// seconds opening took, and how many bytes there were. If `is_cold`, the system's cache is emptied
/// before, as if the machine had stopped; otherwise it is left as it is.
pub(super) fn kill(session: &Session<'_>, number: u32, is_cold: bool) -> Result<(f64, u64)> {
    let folder = tempfile::tempdir_in(session.folder())?;
    let group = session.group()?;
    let of = (Kind::Hedgerow, u64::MAX);
    let mut child = start(session, group.as_ref(), folder.path(), of, &[Step::UntilKilled])?;
    let wait = 200 + Generator::new(number.into()).below(1300);
    let stdout = BufReader::new(child.stdout.take().ok_or("a process without output")?);
    let lines = thread::spawn(move || stdout.lines().map_while(|line| line.ok()).last());
    thread::sleep(Duration::from_millis(wait));
    child.kill()?;
    child.wait()?;
    let last = lines.join().map_err(|_| "a reading thread panicked")?;
    // The last line may have been cut; the one before it was whole, and says less.
    let durable = last.and_then(|line| line.parse::<u64>().ok()).map_or(0, |index| index + 1);
    if is_cold {
        forget(folder.path())?;
    }
    let steps = [Step::Recovered];
    let child = start(session, group.as_ref(), folder.path(), (of.0, durable), &steps)?;
    let said = follow(child, group.as_ref(), |_| Ok(0.0))?;
    if !said.status.success() {
        return Err(format!("after end {number} by force: {}", said.complaint).into());
    }
    let taken = said.done.first().ok_or("a process that says nothing")?.taken;
    Ok((taken.seconds, taken.space))
}
