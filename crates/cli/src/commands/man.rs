//! `man`: the manual, as the `man` program reads it.

use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use super::Cli;
use crate::exit::{Exit, Failure};
use crate::output::{Existing, ForceArg, Output};

/// Print the manual page, or write a page for each subcommand
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Write hedgerow.1, hedgerow-scan.1 and so on into this folder
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    #[command(flatten)]
    force: ForceArg,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args) -> Result<Exit, Failure> {
    let mut command = Cli::command();
    command.build();
    match args.folder {
        Some(folder) => write_all(&command, &folder, args.force.existing())?,
        None => {
            let mut out = Output::stdout();
            out.bytes(&page(&command)?)?;
            out.finish()?;
        }
    }
    Ok(Exit::Done)
}

fn write_all(command: &clap::Command, folder: &Path, existing: Existing) -> Result<(), Failure> {
    let subcommands = command.get_subcommands().filter(|command| command.get_name() != "help");
    for command in std::iter::once(command).chain(subcommands) {
        let name = command.get_display_name().unwrap_or(command.get_name());
        let path = folder.join(format!("{name}.1"));
        let mut out = Output::to(&path, existing)?;
        out.bytes(&page(command)?)?;
        out.finish()?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> Result<Vec<u8>, Failure> {
    let mut page = Vec::new();
    let rendered = Man::new(command.clone()).render(&mut page);
    rendered.map_err(|error| Failure::io("write", "the manual page", &error))?;
    Ok(page)
}
