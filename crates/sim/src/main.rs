//! The command line of the simulator. Its subcommands stand in `commands`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod commands;

/// Holds Hedgerow's engines against a reference model, and makes everything around them fail.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Model(commands::model::Model),
    Compaction(commands::compaction::Compaction),
    Crash(commands::crash::Crash),
    Faults(commands::faults::Faults),
    Processes(commands::processes::Processes),
    #[command(hide = true)]
    Play(commands::processes::Play),
    Readers(commands::readers::Readers),
    Growth(commands::growth::Growth),
    /// Changes the structures of stores, repairs their checksums and makes every call.
    Hostile(commands::hostile::Arguments),
    /// Writes the files that the corpora of the fuzz targets begin with.
    Corpus(commands::hostile::Corpus),
    /// Flips single bits in pages in use: check must notice each.
    Flips(commands::hostile::Flips),
    Canaries(commands::canaries::Canaries),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A panic of the engine is a finding like any other: its text is printed with that, once.
    std::panic::set_hook(Box::new(|_| {}));
    match arguments.command {
        Command::Model(command) => command.run(),
        Command::Compaction(command) => command.run(),
        Command::Crash(command) => command.run(),
        Command::Faults(command) => command.run(),
        Command::Processes(command) => command.run(),
        Command::Play(command) => command.run(),
        Command::Readers(command) => command.run(),
        Command::Growth(command) => command.run(),
        Command::Hostile(arguments) => commands::hostile::hostile(&arguments),
        Command::Corpus(arguments) => commands::hostile::corpus(&arguments),
        Command::Flips(arguments) => commands::hostile::flips(&arguments),
        Command::Canaries(command) => command.run(),
    }
}
