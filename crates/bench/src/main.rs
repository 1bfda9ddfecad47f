//! Hedgerow measured beside other engines: the command line. Exit codes: 0 measured, 1 a failure or
//! a wrong answer, 2 wrong arguments, 3 a tool that is needed is not there.

mod data;
mod engine;
mod hollow;
mod instructions;
mod lmdb;
mod name;
mod sizes;
mod tree;
mod workload;

use std::process::ExitCode;

use clap::Parser;

/// Measures Hedgerow beside LMDB 0.9: pages and instructions, which do not depend on the load of
/// the machine. Every answer is checked; a wrong one fails the run.
#[derive(Parser)]
#[command(version)]
enum Command {
    /// How many pages the same entries take
    Sizes(sizes::Options),
    /// How many instructions an operation takes (needs valgrind)
    Instructions(instructions::Options),
    /// One workload, as run under valgrind
    #[command(hide = true)]
    Run(instructions::RunOptions),
}

fn main() -> ExitCode {
    let done = match Command::parse() {
        Command::Sizes(options) => sizes::main(&options),
        Command::Instructions(options) => instructions::main(&options),
        Command::Run(options) => instructions::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error}");
            let missing = error.is::<instructions::ToolMissing>();
            ExitCode::from(if missing { 3 } else { 1 })
        }
    }
}
