//! `completions`: a script that lets a shell complete our arguments.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::exit::{Exit, Failure};
use crate::output::Output;

/// Print a shell's completion script
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "hedgerow", &mut script);
    let mut out = Output::stdout();
    out.bytes(&script)?;
    out.finish()?;
    Ok(Exit::Done)
}
