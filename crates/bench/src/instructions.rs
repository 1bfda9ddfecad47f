//! How many instructions an operation takes, counted by valgrind.
//!
//! 1. The stores are filled natively, once per engine, and every workload that writes is run once
//!    natively, committed and looked up in full.
//! 2. This program runs itself under callgrind on such a store, twice per workload: the same work
//!    before, then fewer and more operations. The difference of the two counts, divided by the
//!    difference of the numbers of operations, is the cost of one.
//! 3. The same with an engine that does nothing gives the cost of the loop and its key generator,
//!    which is subtracted.
//!
//! The answers of each run are summed up and compared with those of a sorted array.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::engine::{Missing, Result};
use crate::name::Name;
use crate::workload::{self, PLANS, Plan, Workload};

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Measure one engine only
    #[arg(long)]
    engine: Option<Name>,
    /// Measure these workloads only
    #[arg(long)]
    workload: Vec<Workload>,
    /// Fail if Hedgerow takes more than it may anywhere
    #[arg(long)]
    check: bool,
    /// Keep callgrind's profiles in this folder, for callgrind_annotate
    #[arg(long, value_name = "FOLDER")]
    profiles: Option<PathBuf>,
}

/// The arguments of a run under valgrind.
#[derive(clap::Args)]
pub(crate) struct RunOptions {
    engine: Name,
    workload: Workload,
    operations: u64,
    folder: PathBuf,
}

/// Runs one workload on a prepared store and prints the sum of its answers.
pub(crate) fn run(options: &RunOptions) -> Result<()> {
    let RunOptions { engine, workload, operations, folder } = options;
    engine.run(*workload, *operations, folder, |sum| {
        println!("{sum}");
        // A write transaction is left as it is: neither committed nor undone.
        std::process::exit(0)
    })
}

/// One measured workload.
struct Row {
    plan: &'static Plan,
    /// The loop and the generator alone.
    generator: f64,
    /// Instructions per operation beyond those, of each engine that has the call.
    costs: Vec<(Name, f64)>,
}

/// Measures and prints.
pub(crate) fn main(options: &Options) -> Result<()> {
    find_valgrind()?;
    if let Some(folder) = &options.profiles {
        fs::create_dir_all(folder)?;
    }
    let scratch = tempfile::tempdir()?;
    let bench = Bench { scratch: scratch.path(), profiles: options.profiles.as_deref() };
    let wanted =
        |plan: &&Plan| options.workload.is_empty() || options.workload.contains(&plan.workload);
    let engines = Name::counted(options.engine);
    for engine in engines.iter().chain([&Name::Hollow]) {
        let folder = bench.store(*engine);
        fs::create_dir_all(&folder)?;
        engine.prepare(&folder)?;
    }
    let mut rows = Vec::new();
    for plan in PLANS.iter().filter(wanted) {
        let generator = bench.measure(Name::Hollow, plan)?.unwrap_or(0.0);
        let mut costs = Vec::new();
        for engine in &engines {
            if let Some(all) = bench.measure(*engine, plan)? {
                costs.push((*engine, all - generator));
            }
        }
        rows.push(Row { plan, generator, costs });
    }
    print!("{}", if options.json { to_json(&rows) } else { to_table(&rows, &engines)? });
    match rows.iter().filter_map(Row::excess).collect::<Vec<_>>() {
        over if options.check && !over.is_empty() => Err(over.join("\n").into()),
        _ => Ok(()),
    }
}

impl Row {
    /// What is too much, if something is.
    fn excess(&self) -> Option<String> {
        let ours =
            |(engine, cost): &&(Name, f64)| *engine == Name::Hedgerow && *cost > self.plan.limit;
        let (_, cost) = self.costs.iter().find(ours)?;
        let Plan { name, limit, .. } = self.plan;
        Some(format!(
            "{name} takes {cost:.1} instructions, at most {limit:.1} are allowed: find out why with \
             --profiles, or argue for another bound in src/workload.rs"
        ))
    }
}

fn find_valgrind() -> Result<()> {
    match Command::new("valgrind").arg("--version").output() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Missing(
            "valgrind is not installed: `apt-get install valgrind`, then run this again".into(),
        )
        .into()),
        Err(error) => Err(format!("cannot run valgrind: {error}").into()),
    }
}

/// Where the stores lie and the profiles go.
struct Bench<'a> {
    scratch: &'a Path,
    profiles: Option<&'a Path>,
}

impl Bench<'_> {
    fn store(&self, engine: Name) -> PathBuf {
        self.scratch.join(engine.text())
    }

    /// Instructions per operation; none if the engine does not have the call.
    fn measure(&self, engine: Name, plan: &Plan) -> Result<Option<f64>> {
        if !engine.can(plan.workload) {
            return Ok(None);
        }
        if plan.workload.writes() {
            self.with_copy(engine, |folder| {
                engine.verify_writes(plan.workload, plan.operations[1], folder)
            })?;
        }
        let [few, many] = plan.operations;
        let fewer = self.instructions(engine, plan, few)?;
        let more = self.instructions(engine, plan, many)?;
        Ok(Some((more as f64 - fewer as f64) / (many - few) as f64))
    }

    /// Does something on a copy of an engine's store.
    fn with_copy<T>(&self, engine: Name, work: impl FnOnce(&Path) -> Result<T>) -> Result<T> {
        let copy = tempfile::tempdir_in(self.scratch)?;
        for entry in fs::read_dir(self.store(engine))? {
            let entry = entry?;
            fs::copy(entry.path(), copy.path().join(entry.file_name()))?;
        }
        work(copy.path())
    }

    /// All instructions of one run of this program; its answer is checked.
    fn instructions(&self, engine: Name, plan: &Plan, operations: u64) -> Result<u64> {
        self.with_copy(engine, |folder| {
            let profile = self.profiles.map_or(PathBuf::from("/dev/null"), |profiles| {
                profiles.join(format!("{}.{}.{operations}", engine.text(), plan.name))
            });
            let output = Command::new("valgrind")
                .arg("--tool=callgrind")
                .arg(format!("--callgrind-out-file={}", profile.display()))
                .arg(std::env::current_exe()?)
                .args(["run", engine.text(), plan.name, &operations.to_string()])
                .arg(folder)
                .output()?;
            let (answer, log) =
                (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
            let fail = |what: String| {
                format!("{} on {}, {operations} operations: {what}", plan.name, engine.text())
            };
            if !output.status.success() {
                return Err(fail(format!("valgrind ended with {}\n{log}", output.status)).into());
            }
            let expected = workload::expected(plan.workload, operations).to_string();
            if engine != Name::Hollow && answer.trim() != expected {
                let answer = answer.trim();
                return Err(fail(format!("the answer is {answer}, not {expected}")).into());
            }
            collected(&log).ok_or_else(|| fail(format!("no count in valgrind's log\n{log}")).into())
        })
    }
}

/// The total in callgrind's log: `==1== Collected : 1234`.
fn collected(log: &str) -> Option<u64> {
    let count = log.lines().find_map(|line| line.split_once("Collected :"))?.1;
    count.trim().parse().ok()
}

/// One digit after the point.
fn round(instructions: f64) -> Value {
    json!((instructions * 10.0).round() / 10.0)
}

fn to_json(rows: &[Row]) -> String {
    let (mut object, mut generator) = (Map::new(), Map::new());
    for Row { plan, generator: loop_alone, costs } in rows {
        for (engine, instructions) in costs {
            let key = match engine {
                Name::Hedgerow => plan.name.to_owned(),
                other => format!("{}.{}", other.text(), plan.name),
            };
            object.insert(key, round(*instructions));
        }
        generator.insert(plan.name.into(), round(*loop_alone));
    }
    object.insert("generator".into(), Value::Object(generator));
    object.insert("lmdb_version".into(), json!(crate::engines::lmdb::version()));
    format!("{:#}\n", Value::Object(object))
}

fn to_table(rows: &[Row], engines: &[Name]) -> Result<String> {
    let mut text = String::new();
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.1}"));
    writeln!(text, "Instructions per operation; {}", crate::engines::lmdb::version())?;
    write!(text, "{:<20} {:>9} {:>9}", "operation", "generator", "at most")?;
    for engine in engines {
        write!(text, " {:>9} ", engine.text())?;
    }
    let has_both = engines.contains(&Name::Hedgerow) && engines.contains(&Name::C);
    writeln!(text, "{}", if has_both { "  c : hedgerow" } else { "" })?;
    for row in rows {
        let Row { plan, generator, costs } = row;
        let of = |name| costs.iter().find(|(engine, _)| *engine == name).map(|(_, cost)| *cost);
        write!(text, "{:<20} {generator:>9.1} {:>9}", plan.name, number(Some(plan.limit)))?;
        for engine in engines {
            let cost = of(*engine);
            let over = *engine == Name::Hedgerow && row.excess().is_some();
            write!(text, " {:>9}{}", number(cost), if over { '!' } else { ' ' })?;
        }
        if let (Some(face), Some(own)) = (of(Name::C), of(Name::Hedgerow)) {
            write!(text, " {:>13.2}", face / own)?;
        }
        writeln!(text)?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::collected;

    #[test]
    fn the_total_is_found_in_a_log() {
        let log = "==7== Events    : Ir\n==7== Collected : 3321\n==7== \n";
        assert_eq!(collected(log), Some(3321));
        assert_eq!(collected("==7== killed\n"), None);
    }
}
