//! Our library with LevelDB's interface, on both engines, beside LevelDB itself and LMDB: single
//! operations, and the workload of Bitcoin Core's chain state. Each engine has a process of its
//! own, so that processor time and written bytes are its own; they run one after the other.

mod coins;
mod resources;
mod rows;
mod utxo;

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::engine::{Engine as Adapter, Result};
use crate::engines::level::{CoreLevelDb, Face, Of};
use crate::engines::lmdb;
use rows::Rows;
use utxo::{Measured, Size};

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Engine {
    /// LevelDB, as Debian packages it
    Leveldb,
    /// Our library on the engine tree
    Tree,
    /// Our library on the engine lsm
    Lsm,
    /// LMDB, with MDB_NOSYNC where a commit is not durable
    Lmdb,
}

const ALL: [Engine; 4] = [Engine::Leveldb, Engine::Tree, Engine::Lsm, Engine::Lmdb];

/// What is asked for.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// How large the chain state is
    #[arg(long, value_enum, default_value = "standard")]
    size: Size,
    /// How many entries the single operations have; 0 leaves them out
    #[arg(long, default_value_t = 1_000_000)]
    entries: u64,
    /// Only these engines
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<Engine>,
    /// The folder to work in; it is made if it does not exist
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// What one process is asked for.
#[derive(clap::Args)]
pub(crate) struct RunOptions {
    #[arg(long, value_enum)]
    engine: Engine,
    #[arg(long, value_enum)]
    size: Size,
    #[arg(long)]
    entries: u64,
    #[arg(long)]
    folder: PathBuf,
}

/// What one engine took.
#[derive(Debug, serde::Serialize, serde::Deserialize)]
struct Taken {
    rows: Rows,
    longest_ms: f64,
    chain: Measured,
}

/// One engine, in this process.
pub(crate) fn run(options: &RunOptions) -> Result<()> {
    let taken = match options.engine {
        Engine::Leveldb => take::<Of<CoreLevelDb>>(options)?,
        Engine::Tree => take::<Of<Face<false>>>(options)?,
        Engine::Lsm => take::<Of<Face<true>>>(options)?,
        Engine::Lmdb => take::<lmdb::Environment>(options)?,
    };
    println!("{}", serde_json::to_string(&taken)?);
    Ok(())
}

fn take<E: Adapter>(options: &RunOptions) -> Result<Taken> {
    let folder = options.folder.join("chain");
    std::fs::create_dir(&folder)?;
    let chain = utxo::run::<E>(&folder, options.size)?;
    std::fs::remove_dir_all(&folder)?;
    let (rows, longest_ms) = match options.entries {
        0 => (Rows::new(), 0.0),
        entries => rows::run::<E>(&options.folder, entries)?,
    };
    Ok(Taken { rows, longest_ms, chain })
}

/// All engines, one after the other.
pub(crate) fn main(options: &Options) -> Result<()> {
    let engines = if options.engines.is_empty() { &ALL[..] } else { &options.engines };
    let mut all = Vec::new();
    for &engine in engines {
        eprintln!("{engine:?} ...");
        let taken = measure(engine, options)?;
        all.push((format!("{engine:?}").to_lowercase(), lines(&taken)));
    }
    if options.json {
        let engines: serde_json::Map<_, _> = all
            .into_iter()
            .map(|(name, lines)| {
                (name, lines.into_iter().collect::<serde_json::Map<_, _>>().into())
            })
            .collect();
        println!("{}", json!({ "size": format!("{:?}", options.size), "engines": engines }));
        return Ok(());
    }
    print(&all);
    Ok(())
}

fn measure(engine: Engine, options: &Options) -> Result<Taken> {
    let folder = match &options.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder)?;
            tempfile::tempdir_in(folder)?
        }
        None => tempfile::tempdir()?,
    };
    let name = |value: &dyn std::fmt::Debug| format!("{value:?}").to_lowercase();
    let output = Command::new(std::env::current_exe()?)
        .args(["leveldb-run", "--engine", &name(&engine), "--size", &name(&options.size)])
        .args(["--entries", &options.entries.to_string(), "--folder"])
        .arg(folder.path())
        .stderr(Stdio::inherit())
        .output()?;
    match output.status.success() {
        true => Ok(serde_json::from_slice(&output.stdout)?),
        false => Err(format!("{engine:?}: {}", output.status).into()),
    }
}

/// Everything that was measured, with its name.
fn lines(taken: &Taken) -> Vec<(String, serde_json::Value)> {
    const MB: f64 = 1e6;
    let Taken { rows, longest_ms, chain } = taken;
    let mut lines: Vec<(String, f64)> = Vec::new();
    let mut line = |name: &str, number: f64| lines.push((name.to_owned(), number));
    for (name, us) in rows {
        line(&format!("{name} (us)"), *us);
    }
    line("longest single put (ms)", *longest_ms);
    for (name, usage) in [("load", &chain.load), ("blocks", &chain.blocks)] {
        line(&format!("chain, {name} (s)"), usage.seconds);
        line(&format!("chain, {name}, processor (s)"), usage.processor_seconds);
        line(&format!("chain, {name}, written (MB)"), usage.written_bytes as f64 / MB);
    }
    line("chain, flushes of the blocks (s)", chain.flush_seconds);
    line("chain, gets of the blocks (us)", chain.get_us);
    line("chain, scan (us)", chain.scan_us);
    line("chain, random get (us)", chain.random_get_us);
    line("chain, missing get (us)", chain.missing_get_us);
    line("chain, files (MB)", chain.file_bytes as f64 / MB);
    line("chain, coins at the end", chain.live as f64);
    line("chain, gets", chain.gets as f64);
    let rounded = |number: f64| json!((number * 1000.0).round() / 1000.0);
    lines.into_iter().map(|(name, number)| (name, rounded(number))).collect()
}

fn print(all: &[(String, Vec<(String, serde_json::Value)>)]) {
    let Some((_, first)) = all.first() else { return };
    print!("{:40}", "");
    all.iter().for_each(|(name, _)| print!("{name:>14}"));
    println!();
    for (index, (name, _)) in first.iter().enumerate() {
        print!("{name:40}");
        for (_, lines) in all {
            print!("{:>14}", lines[index].1.to_string());
        }
        println!();
    }
}
