//! The `hedgerow` command: its entry point and the one `match` over its subcommands. What a
//! subcommand does stands in its own file under `commands`. A library only so that fuzzers can call
//! [`portable::fuzz::dump`].

#![deny(clippy::print_stderr)]

mod appender;
mod codec;
mod commands;
mod draft;
mod exit;
mod input;
mod json;
mod leveldb;
#[cfg(feature = "lmdb")]
mod lmdb;
mod lmdb_flags;
#[cfg(feature = "lmdb")]
mod lmdb_target;
mod loader;
mod mdb;
mod numbers;
mod open;
mod output;
#[doc(hidden)]
pub mod portable;
mod progress;
mod range;
mod signals;
mod sums;
mod table_flags;
mod tell;
mod wait;

use std::process::ExitCode;

use clap::Parser;

use commands::{Cli, Command};
use exit::{Exit, Failure};

/// Runs the command of this process' arguments.
pub fn main() -> ExitCode {
    if let Some(exit) = run_as_tool() {
        return exit;
    }
    let exit = match Cli::try_parse() {
        Ok(cli) => run(cli),
        Err(answer) if answer.use_stderr() => answer.exit(),
        Err(help) => print_help(&help),
    };
    exit.unwrap_or_else(|failure| failure.report()).into()
}

/// Prints what `--help` or `--version` ask for.
fn print_help(help: &clap::Error) -> Result<Exit, Failure> {
    let mut out = output::Output::stdout();
    match out.is_terminal() {
        true => write!(out, "{}", help.render().ansi())?,
        false => write!(out, "{}", help.render())?,
    }
    out.finish()?;
    Ok(Exit::Done)
}

/// Under the name of one of LMDB's tools the command is that tool.
fn run_as_tool() -> Option<ExitCode> {
    let mut arguments = std::env::args_os();
    let program = arguments.next()?;
    Some(mdb::Tool::of(&program)?.run(&program, arguments.collect()))
}

fn run(Cli { command, json, timeout }: Cli) -> Result<Exit, Failure> {
    wait::set_timeout(timeout);
    signals::catch()?;
    if command.engine() == open::Engine::Lsm {
        return commands::lsm::run(command, json);
    }
    match command {
        Command::Demo(args) => commands::demo::run(args, json),
        Command::Create(args) => commands::create::run(args, json),
        Command::Tables(args) => commands::tables::run(args, json),
        Command::Put(args) => commands::put::run(args, json),
        Command::Get(args) => commands::get::run(args, json),
        Command::Delete(args) => commands::delete::run(args, json),
        Command::Scan(args) => commands::scan::run(args, json),
        Command::Count(args) => commands::count::run(args, json),
        Command::Rank(args) => commands::rank::run(args, json),
        Command::Nth(args) => commands::nth::run(args, json),
        Command::Sample(args) => commands::sample::run(args, json),
        Command::Stat(args) => commands::stat::run(args, json),
        Command::Check(args) => commands::check::run(args, json),
        Command::Salvage(args) => commands::salvage::run(args, json),
        Command::Copy(args) => commands::copy::run(args, json),
        Command::Limit(args) => commands::limit::run(args, json),
        Command::Compact(args) => commands::compact::run(args, json),
        Command::Pin(args) => commands::pin::run(args, json),
        Command::Diff(args) => commands::diff::run(args, json),
        Command::Follow(args) => commands::follow::run(args, json),
        Command::Dump(args) => commands::dump::run(args, json),
        Command::Load(args) => commands::load::run(args, json),
        Command::Convert(args) => commands::convert::run(args, json),
        #[cfg(feature = "sql")]
        Command::Sql(args) => commands::sql::run(args, json),
        Command::Completions(args) => commands::completions::run(args),
        Command::Man(args) => commands::man::run(args),
    }
}
