//! The command under the names of LMDB's tools (mdb_stat, mdb_dump, mdb_load, mdb_copy, mdb_drop):
//! the same options, the same output, the same exit codes, over the stores that programs linked to
//! our liblmdb make. A tool a file; nothing here is reached under the command's own name.

mod arguments;
mod copy;
mod drop;
mod dump;
mod environment;
mod error;
mod load;
mod stat;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::ExitCode;

use arguments::Arguments;
use error::Ending;

use crate::output::Output;
use crate::signals;
use crate::tell::tell;

/// What the tools print for -V: the version of LMDB's interface, and ours.
const VERSION: &str = concat!("LMDB 0.9.33: (Hedgerow ", env!("CARGO_PKG_VERSION"), ")");

/// One of LMDB's tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tool {
    Stat,
    Dump,
    Load,
    Copy,
    Drop,
}

impl Tool {
    /// The tool whose name this program was started under, if it was one.
    pub(crate) fn of(program: &OsStr) -> Option<Self> {
        match Path::new(program).file_name()?.to_str()? {
            "mdb_stat" => Some(Self::Stat),
            "mdb_dump" => Some(Self::Dump),
            "mdb_load" => Some(Self::Load),
            "mdb_copy" => Some(Self::Copy),
            "mdb_drop" => Some(Self::Drop),
            _ => None,
        }
    }

    fn usage(self) -> &'static str {
        match self {
            Self::Stat => stat::USAGE,
            Self::Dump => dump::USAGE,
            Self::Load => load::USAGE,
            Self::Copy => copy::USAGE,
            Self::Drop => drop::USAGE,
        }
    }

    /// Runs as this tool.
    pub(crate) fn run(self, program: &OsStr, arguments: Vec<OsString>) -> ExitCode {
        let program = program.to_string_lossy();
        let ending = signals::catch().map_err(Ending::from).and_then(|()| match self {
            Self::Stat => stat::run(Arguments::new(stat::OPTIONS, arguments)),
            Self::Dump => dump::run(&program, Arguments::new(dump::OPTIONS, arguments)),
            Self::Load => load::run(Arguments::new(load::OPTIONS, arguments)),
            Self::Copy => copy::run(&program, arguments),
            Self::Drop => drop::run(Arguments::new(drop::OPTIONS, arguments)),
        });
        match ending {
            Ok(()) => return ExitCode::SUCCESS,
            Err(Ending::Version) => return print_version(),
            Err(Ending::Usage(complaint)) => {
                if let Some(complaint) = complaint {
                    tell!("{program}: {complaint}");
                }
                tell!("usage: {program} {}", self.usage());
            }
            Err(Ending::Said(line)) => tell!("{line}"),
            Err(Ending::Complained(line)) => tell!("{program}: {line}"),
            Err(Ending::Silent) => {}
        }
        ExitCode::FAILURE
    }
}

fn print_version() -> ExitCode {
    let mut out = Output::stdout();
    match writeln!(out, "{VERSION}").and_then(|()| out.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_go_by_the_last_part_of_the_name() {
        assert_eq!(Tool::of(OsStr::new("/usr/bin/mdb_stat")), Some(Tool::Stat));
        assert_eq!(Tool::of(OsStr::new("mdb_drop")), Some(Tool::Drop));
        assert_eq!(Tool::of(OsStr::new("/usr/bin/mdb_stat/hedgerow")), None);
        assert_eq!(Tool::of(OsStr::new("")), None);
    }
}
