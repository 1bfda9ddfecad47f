//! mdb_copy: a copy of the newest snapshot, in a folder or to standard output.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::Path;

use hedgerow::Error;
use hedgerow::tree::{CopyOptions, Store};

use super::environment;
use super::error::{Code, Ending};
use crate::output::Output;

pub(crate) const USAGE: &str = "[-V] [-c] [-n] srcpath [dstpath]";

/// Runs the tool. Its options come first, one at a time.
pub(crate) fn run(program: &str, arguments: Vec<OsString>) -> Result<(), Ending> {
    let (mut is_file, mut compact) = (false, false);
    let mut rest = arguments.as_slice();
    while let [first, after @ ..] = rest
        && first.to_string_lossy().starts_with('-')
    {
        match first.to_str() {
            Some("-n") => is_file = true,
            Some("-c") => compact = true,
            Some("-V") => return Err(Ending::Version),
            _ => return Err(Ending::Usage(None)),
        }
        rest = after;
    }
    let (source, target) = match rest {
        [source] => (source, None),
        [source, target] => (source, Some(target)),
        _ => return Err(Ending::Usage(None)),
    };
    let failed = |act: &str, code: Code| {
        let Code { number, text } = code;
        Ending::Said(format!("{program}: {act} failed, error {number} ({text})"))
    };
    let store = open(source, is_file).map_err(|code| failed("opening environment", code))?;
    let options = CopyOptions { compact };
    match target {
        Some(target) => to_path(&store, &environment::data_file(target, is_file), options),
        None => to_stdout(&store, options),
    }
    .map_err(|code| failed("copying", code))
}

fn open(source: &OsStr, is_file: bool) -> Result<Store, Code> {
    let file = environment::data_file(source, is_file);
    Store::builder().read_only(true).open(file).map_err(|error| Code::of(&error))
}

fn to_path(store: &Store, target: &Path, options: CopyOptions) -> Result<(), Code> {
    if target.exists() {
        return Err(Code::exists());
    }
    let copied = store.copy_to(target, options, &mut |_, _| {});
    copied.map_err(|error: Error| Code::of(&error))
}

/// A compact copy is not written from its first byte to its last, so it goes through a temporary
/// file.
fn to_stdout(store: &Store, options: CopyOptions) -> Result<(), Code> {
    if !options.compact {
        let copied = store.copy_into(&mut std::io::stdout().lock());
        return copied.map_err(|error| Code::of(&error));
    }
    let folder = tempfile::tempdir().map_err(|error| Code::of_io(&error))?;
    let path = folder.path().join("copy");
    to_path(store, &path, options)?;
    let mut copy = File::open(&path).map_err(|error| Code::of_io(&error))?;
    let mut out = Output::stdout();
    let sent = out.copy(&mut copy).and_then(|_| out.finish());
    sent.map_err(|_| Code::system(BROKEN_PIPE))
}

const BROKEN_PIPE: i32 = 32;
