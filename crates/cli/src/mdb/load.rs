//! mdb_load: databases from text.

use std::ffi::OsString;
use std::path::Path;

use super::arguments::{Arguments, bytes};
use super::environment::{self, Access, KEY_MAX, MAIN};
use super::error::{Code, Ending};
use crate::codec::Format;
use crate::exit::Failure;
use crate::input::Input;
use crate::lmdb_flags::Flags;
use crate::loader::{Fill, Loader, Target};
use crate::open::Name;
use crate::portable::text_lines::TextLines;
use crate::portable::{BadInput, Event, Reader as _, mdb};

pub(crate) const OPTIONS: &str = "af:ns:NQTV";
pub(crate) const USAGE: &str = "[-V] [-a] [-f input] [-n] [-s name] [-N] [-Q] [-T] dbpath";

#[derive(Default)]
struct Wanted {
    from: Option<OsString>,
    is_file: bool,
    name: Option<OsString>,
    keeps: bool,
    is_headless: bool,
}

impl Wanted {
    fn of(arguments: &mut Arguments) -> Result<Self, Ending> {
        let mut wanted = Self::default();
        while let Some((letter, value)) = arguments.next()? {
            match letter {
                'V' => return Err(Ending::Version),
                'f' => wanted.from = value,
                'n' => wanted.is_file = true,
                's' => wanted.name = value,
                'N' => wanted.keeps = true,
                'T' => wanted.is_headless = true,
                // Sorted input is noticed, and flushes are few.
                _ => {}
            }
        }
        Ok(wanted)
    }
}

/// Runs the tool.
pub(crate) fn run(mut arguments: Arguments) -> Result<(), Ending> {
    let wanted = Wanted::of(&mut arguments)?;
    let path = arguments.only()?;
    let from = wanted.from.as_deref().map_or(Path::new("-"), Path::new);
    let input = Input::try_open(from).map_err(|error| Ending::reopen(from, &error))?;
    let store = environment::open(&path, wanted.is_file, Access::Write)?;
    let mut load = Load {
        name: wanted.name.map_or_else(|| MAIN.to_vec(), |name| bytes(Some(&name))),
        has_duplicates: false,
        loader: Loader::new(store, wanted.keeps),
    };
    match wanted.is_headless {
        true => load.lines(TextLines::new(Box::new(input)))?,
        false => load.dump(mdb::Reader::new(Box::new(input)))?,
    }
    load.loader.finish().map(|_| ()).map_err(|failure| in_call("txn_commit", failure))
}

/// A load under way.
struct Load {
    /// The database that the next entries go to, if a header does not name another one.
    name: Vec<u8>,
    has_duplicates: bool,
    loader: Loader,
}

impl Load {
    fn dump(&mut self, mut reader: mdb::Reader) -> Result<(), Ending> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        loop {
            match reader.next(&mut key, &mut value).map_err(bad)? {
                Event::End => return Ok(()),
                Event::Table(header) => {
                    let flags = Flags::of_header(&header);
                    self.name = header.name.unwrap_or_else(|| std::mem::take(&mut self.name));
                    self.begin(flags)?;
                }
                Event::Entry => self.put(&key, &value)?,
            }
        }
    }

    /// Keys and values on lines of their own.
    fn lines(&mut self, mut lines: TextLines) -> Result<(), Ending> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        self.begin(Flags::default())?;
        while take(&mut lines, true, &mut key)? {
            if !take(&mut lines, false, &mut value)? {
                return Err(bad(lines.bad("failed to read key value")));
            }
            self.put(&key, &value)?;
        }
        Ok(())
    }

    fn begin(&mut self, flags: Flags) -> Result<(), Ending> {
        let options = flags.options();
        self.has_duplicates = flags.has_duplicates();
        let begun = self.loader.begin_table(Name(self.name.clone()), &Target::Made(&options));
        begun.map_err(|failure| in_call("mdb_open", failure))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), Ending> {
        let is_too_long = key.len() > KEY_MAX || self.has_duplicates && value.len() > KEY_MAX;
        if key.is_empty() || is_too_long {
            return Err(Ending::failed("mdb_cursor_put", Code::bad_size()));
        }
        let put = self.loader.put(key, value);
        put.map(|_| ()).map_err(|failure| in_call("mdb_cursor_put", failure))
    }
}

fn take(lines: &mut TextLines, is_key: bool, out: &mut Vec<u8>) -> Result<bool, Ending> {
    let line = if is_key { lines.short() } else { lines.next(|_| Ok(())) };
    let decoded = match line.map_err(bad)? {
        Some(line) => Format::Text.decode_to(line, out),
        None => return Ok(false),
    };
    decoded.map(|()| true).map_err(|reason| bad(lines.bad(reason)))
}

fn bad(BadInput { line, reason }: BadInput) -> Ending {
    Ending::Complained(format!("line {line}: {reason}"))
}

fn in_call(call: &str, failure: Failure) -> Ending {
    match failure {
        Failure::Store(error) => Ending::failed(call, Code::of(&error)),
        other => other.into(),
    }
}
