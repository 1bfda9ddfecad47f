//! `man`: the manual, as the `man` program reads it.

mod examples;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use clap_mangen::Man;

use super::Cli;
use crate::exit::{self, Exit, Failure};
use crate::output::{Existing, ForceArg, Output};
use examples::EXAMPLES;

/// Print the manual page, or write a page for each subcommand
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Write hedgerow.1, hedgerow-scan.1 and so on into this folder, which is made if it is missing
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
    let made = std::fs::create_dir_all(folder);
    made.map_err(|error| Failure::io("make the folder", folder.display(), &error))?;
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
    let rendered = sections(&Man::new(command.clone()), command, &mut page);
    rendered.map_err(|error| Failure::io("write", "the manual page", &error))?;
    Ok(page)
}

/// The sections in their usual order.
fn sections(man: &Man, command: &clap::Command, page: &mut Vec<u8>) -> io::Result<()> {
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(page)?;
    }
    writeln!(page, ".SH \"EXIT STATUS\"")?;
    for (code, meaning) in exit::CODES {
        writeln!(page, ".TP\n.B {code}\n{}", roff(meaning))?;
    }
    writeln!(page, ".SH EXAMPLES")?;
    let is_all = command.has_subcommands();
    for (_, what, how) in EXAMPLES.iter().filter(|(of, ..)| is_all || *of == command.get_name()) {
        writeln!(page, ".PP\n{}\n.PP\n.nf\n.RS\n{}\n.RE\n.fi", roff(what), roff(how))?;
    }
    if command.get_version().is_some() {
        man.render_version_section(page)?;
    }
    Ok(())
}

/// A line of text as the `man` program reads it.
fn roff(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[test]
    fn every_subcommand_has_an_example_that_can_be_run() {
        for command in Cli::command().get_subcommands() {
            let is_there = EXAMPLES.iter().any(|(of, ..)| *of == command.get_name());
            assert!(is_there, "{}", command.get_name());
        }
        for (_, _, how) in EXAMPLES {
            let own = how.split(" | ").last().unwrap();
            let parsed = Cli::try_parse_from(own.split_whitespace());
            assert!(parsed.is_ok(), "{how}: {:?}", parsed.err());
        }
    }
}
