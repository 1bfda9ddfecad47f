//! The file in which runs are kept, a line of JSON each, and what can be asked of it.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::run::Run;
use super::show;
use crate::engine::Result;

/// What is asked of earlier runs.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    ask: Option<Ask>,
    #[command(flatten)]
    filter: Filter,
    /// Print JSON
    #[arg(id = "runs-json", long = "json", global = true)]
    json: bool,
    /// Write a page of HTML
    #[arg(id = "runs-html", long = "html", global = true, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Ask {
    /// A line for each run (what is done if nothing is asked)
    List,
    /// The figures of runs, by their names
    Show {
        #[arg(required = true)]
        ids: Vec<String>,
    },
    /// Two runs beside each other
    Compare { first: String, second: String },
    /// Write runs to another file
    Export { to: PathBuf },
    /// Take over the runs of other files that are not here yet
    Merge {
        #[arg(required = true)]
        from: Vec<PathBuf>,
    },
    /// Forget runs, by their names
    Delete {
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// Which runs are meant.
#[derive(clap::Args, Default)]
struct Filter {
    /// Only runs with this number of rows
    #[arg(id = "runs-rows", long = "rows", global = true)]
    rows: Option<u32>,
    /// Only runs with this `synchronous`
    #[arg(id = "runs-synchronous", long = "synchronous", global = true)]
    synchronous: Option<String>,
    /// Only runs whose machine, versions or date have this word
    #[arg(long, global = true, value_name = "WORD")]
    with: Option<String>,
    /// Only runs of this day and later
    #[arg(long, global = true, value_name = "YYYY-MM-DD")]
    since: Option<String>,
    /// Only runs that failed
    #[arg(long, global = true)]
    failed: bool,
}

impl Filter {
    fn takes(&self, run: &Run) -> bool {
        let has = |word: &String| {
            format!("{} {}", run.machine, run.versions)
                .to_lowercase()
                .contains(&word.to_lowercase())
        };
        self.rows.is_none_or(|rows| rows == run.settings.rows)
            && self.synchronous.as_ref().is_none_or(|level| *level == run.settings.synchronous)
            && self.with.as_ref().is_none_or(has)
            && self.since.as_ref().is_none_or(|day| run.date() >= day.as_str())
            && (!self.failed || run.error.is_some())
    }
}

/// The runs of a file; none if there is no file.
fn read(path: &Path) -> Result<Vec<Run>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        read => read.map_err(|e| format!("{}: {e}", path.display()))?,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let run = |(at, line)| {
        serde_json::from_str(line)
            .map_err(|e| format!("{}, line {}: {e}", path.display(), at + 1).into())
    };
    lines.map(run).collect()
}

fn lines(runs: &[Run]) -> Result<String> {
    let mut text = String::new();
    for run in runs {
        text += &serde_json::to_string(run)?;
        text.push('\n');
    }
    Ok(text)
}

/// Replaces the file as a whole.
fn write(path: &Path, runs: &[Run]) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(lines(runs)?.as_bytes())?;
    file.persist(path)?;
    Ok(())
}

/// Adds a run at the end of the file.
pub(super) fn keep(path: &Path, run: &Run) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut file = fs::File::options().create(true).append(true).open(path)?;
    Ok(file.write_all(lines(std::slice::from_ref(run))?.as_bytes())?)
}

/// Adds the runs that are not there yet, and says how many there were.
fn merge(runs: &mut Vec<Run>, others: Vec<Run>) -> usize {
    let before = runs.len();
    for other in others {
        if runs.iter().all(|run| run.id != other.id) {
            runs.push(other);
        }
    }
    runs.sort_by_key(|run| run.began);
    runs.len() - before
}

fn find<'r>(runs: &'r [Run], id: &str) -> Result<&'r Run> {
    let found = runs.iter().find(|run| run.id == id);
    found.ok_or_else(|| {
        format!("there is no run {id}; `bench sql runs` lists those there are").into()
    })
}

/// Answers.
pub(super) fn main(path: &Path, options: &Options) -> Result<()> {
    let mut runs = read(path)?;
    let chosen: Vec<Run> = runs.iter().filter(|run| options.filter.takes(run)).cloned().collect();
    let (text, told, shown): (String, Value, Vec<Run>) = match &options.ask {
        None | Some(Ask::List) => {
            let told = chosen.iter().map(Run::report).collect();
            (show::list(&chosen)?, told, chosen)
        }
        Some(Ask::Show { ids }) => {
            let found = ids.iter().map(|id| find(&runs, id).cloned());
            let found = found.collect::<Result<Vec<_>>>()?;
            let tables = found.iter().map(show::table).collect::<Result<Vec<_>>>()?;
            (tables.join("\n"), found.iter().map(Run::report).collect(), found)
        }
        Some(Ask::Compare { first, second }) => {
            let (first, second) = (find(&runs, first)?, find(&runs, second)?);
            let rows = show::comparison(first, second);
            let rows: Value = rows
                .into_iter()
                .map(|(name, ms, ratios)| json!({"test": name, "ms": ms, "wal_ratios": ratios}))
                .collect();
            let told = json!({"runs": [first.id, second.id], "tests": rows});
            (show::compare(first, second)?, told, vec![first.clone(), second.clone()])
        }
        Some(Ask::Export { to }) => {
            write(to, &chosen)?;
            let count = chosen.len();
            (format!("{count} runs written to {}\n", to.display()), json!({"runs": count}), chosen)
        }
        Some(Ask::Merge { from }) => {
            let mut count = 0;
            for from in from {
                count += merge(&mut runs, read(from)?);
            }
            write(path, &runs)?;
            (format!("{count} runs taken over\n"), json!({"runs": count}), runs)
        }
        Some(Ask::Delete { ids }) => {
            ids.iter().try_for_each(|id| find(&runs, id).map(|_| ()))?;
            runs.retain(|run| !ids.contains(&run.id));
            write(path, &runs)?;
            (format!("{} runs forgotten\n", ids.len()), json!({"runs": ids.len()}), runs)
        }
    };
    if let Some(html) = &options.html {
        fs::write(html, show::page(&shown)?)?;
    }
    print!("{}", if options.json { format!("{told:#}\n") } else { text });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Settings;
    use crate::sql::run::Row;

    fn run(rows: u32, ms: f64) -> Run {
        let settings = Settings {
            rows,
            rounds: 1,
            synchronous: "full".into(),
            row_checksums: false,
            tells: false,
        };
        let mut run = Run::begin(settings).unwrap();
        let mut row = Row::new("count(*)", 3);
        row.ms = vec![vec![ms], vec![2.0 * ms], vec![4.0 * ms]];
        run.rows.push(row);
        run
    }

    #[test]
    fn runs_are_kept_filtered_merged_and_compared() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let runs = [run(10, 8.0), run(20, 2.0), run(20, 1.0)];
        keep(&one, &runs[0]).unwrap();
        keep(&one, &runs[1]).unwrap();
        keep(&two, &runs[1]).unwrap();
        keep(&two, &runs[2]).unwrap();
        let mut all = read(&one).unwrap();
        assert_eq!(all[0].means(), [2.0, 4.0].map(|mean: f64| mean.ln().exp()));
        assert_eq!(merge(&mut all, read(&two).unwrap()), 1);
        let filter = Filter { rows: Some(20), ..Filter::default() };
        assert_eq!(all.iter().filter(|run| filter.takes(run)).count(), 2);
        let none = Filter { with: Some("no such machine".into()), ..Filter::default() };
        assert!(!all.iter().any(|run| none.takes(run)));
        let compared = show::comparison(&runs[0], &runs[2]);
        assert_eq!(compared, [("count(*)".to_owned(), [8.0, 1.0], [2.0, 2.0])]);
        let table = show::table(&runs[0]).unwrap();
        assert!(table.contains("8.00") && table.contains("32.0"), "{table}");
        assert!(show::page(&runs).unwrap().contains(&runs[2].id));
        assert!(find(&runs, "none").is_err());
    }

    #[test]
    fn what_is_asked_of_runs_is_not_what_a_run_is_asked_for() {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: crate::sql::Options,
        }
        let parse = |line: &str| <Line as clap::Parser>::try_parse_from(line.split(' '));
        let filter = |line: &str| {
            let options = parse(line).map_err(|error| error.to_string()).unwrap().options;
            let Some(crate::sql::Earlier::Runs(runs)) = options.earlier else { panic!("{line}") };
            assert_eq!(options.runs, Path::new("f"));
            (runs.filter.rows, runs.filter.synchronous, runs.json)
        };
        assert_eq!(filter("sql runs --runs f"), (None, None, false));
        assert_eq!(filter("sql runs list --runs f --json --rows 7"), (Some(7), None, true));
        let off = "sql runs --synchronous off --runs f show a";
        assert_eq!(filter(off), (None, Some("off".into()), false));
        assert!(parse("sql --rows 500 --runs f").is_ok());
        assert!(parse("sql runs compare a").is_err());
    }

    #[test]
    fn a_broken_line_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs");
        fs::write(&path, "\n{").unwrap();
        let error = read(&path).unwrap_err().to_string();
        assert!(error.contains("runs, line 2: "), "{error}");
    }
}
