//! The command line of the benchmarks. Exit codes: 0 measured, 1 a failure or a wrong answer, 2
//! wrong arguments, 3 a needed tool is missing.

mod compare;
mod data;
mod engine;
mod engines;
mod group;
mod instructions;
mod larger_than_memory;
mod leveldb;
mod name;
mod sizes;
#[cfg(feature = "sql")]
mod sql;
mod streams;
mod workload;

use std::process::ExitCode;

use clap::Parser;

/// Benchmarks Hedgerow and other engines: time, and pages and instructions, which do not depend on
/// the load of the machine. Every answer is checked; a wrong one fails the run.
#[derive(Parser)]
#[command(version)]
enum Command {
    /// How many pages the same entries take
    Sizes(sizes::Options),
    /// How many instructions an operation takes (needs valgrind)
    Instructions(instructions::Options),
    /// How fast it is beside other engines
    Compare(compare::Options),
    /// What streams cost beside the raw loops
    Streams(streams::Options),
    /// How our library with LevelDB's interface does beside LevelDB and LMDB
    Leveldb(leveldb::Options),
    /// One engine of that comparison
    #[command(hide = true)]
    LeveldbRun(leveldb::RunOptions),
    /// SQL on stores beside the same on files of SQLite's; `sql runs` is about earlier runs
    #[cfg(feature = "sql")]
    Sql(sql::Options),
    /// How stores do whose data are larger than memory (needs fio, and a control group)
    LargerThanMemory(larger_than_memory::Options),
    /// Loads a store and prints the memory that it took
    #[command(hide = true)]
    Load(compare::memory::Options),
    /// Reads a store with little memory
    #[command(hide = true)]
    Beyond(compare::beyond::Options),
    /// Reads a store at the beginning of a process
    #[command(hide = true)]
    Fresh(compare::fresh::Options),
    /// Works on a store with little memory
    #[command(hide = true)]
    Steps(larger_than_memory::StepOptions),
    /// Follows a store, and prints when there is something new
    #[command(hide = true)]
    Follower(streams::follow::Options),
    /// One workload, as run under valgrind
    #[command(hide = true)]
    Run(instructions::RunOptions),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Sizes(options) => sizes::main(&options),
        Command::Instructions(options) => instructions::main(&options),
        Command::Compare(options) => compare::main(&options),
        Command::Streams(options) => streams::main(&options),
        Command::Leveldb(options) => leveldb::main(&options),
        #[cfg(feature = "sql")]
        Command::Sql(options) => sql::main(&options),
        Command::LeveldbRun(options) => leveldb::run(&options),
        Command::LargerThanMemory(options) => larger_than_memory::main(&options),
        Command::Load(options) => compare::memory::main(&options),
        Command::Beyond(options) => compare::beyond::main(&options),
        Command::Fresh(options) => compare::fresh::main(&options),
        Command::Steps(options) => larger_than_memory::steps(&options),
        Command::Follower(options) => streams::follow::follower(&options),
        Command::Run(options) => instructions::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            let missing = error.is::<engine::Missing>();
            ExitCode::from(if missing { 3 } else { 1 })
        }
    }
}
