//! mdb_dump: databases as text, in the format that `portable::mdb` describes.

use std::ffi::OsString;
use std::path::Path;

use hedgerow::tree::{ReadTxn, Snapshot, Store, TableInfo};

use super::arguments::{Arguments, bytes};
use super::environment::{self, Access, Databases, READERS_MAX};
use super::error::{Code, Ending};
use crate::lmdb_flags::Flags;
use crate::open;
use crate::output::{Existing, Output};
use crate::portable::mdb;

pub(crate) const OPTIONS: &str = "af:lnps:V";
pub(crate) const USAGE: &str = "[-V] [-f output] [-l] [-n] [-p] [-a|-s subdb] dbpath";

#[derive(Default)]
struct Wanted {
    all: bool,
    list: bool,
    is_file: bool,
    print: bool,
    name: Option<OsString>,
    to: Option<OsString>,
}

impl Wanted {
    fn of(arguments: &mut Arguments) -> Result<Self, Ending> {
        let mut wanted = Self::default();
        while let Some((letter, value)) = arguments.next()? {
            match letter {
                'V' => return Err(Ending::Version),
                'a' => wanted.all = true,
                'f' => wanted.to = value,
                'l' => (wanted.list, wanted.all) = (true, true),
                'n' => wanted.is_file = true,
                'p' => wanted.print = true,
                _ => wanted.name = value,
            }
            if wanted.all && wanted.name.is_some() {
                return Err(Ending::Usage(None));
            }
        }
        Ok(wanted)
    }
}

/// Runs the tool.
pub(crate) fn run(program: &str, mut arguments: Arguments) -> Result<(), Ending> {
    let wanted = Wanted::of(&mut arguments)?;
    let path = arguments.only()?;
    let store = environment::open(&path, wanted.is_file, Access::Read)?;
    let mut dump = Dump::new(&store, wanted.print, wanted.to.as_deref().map(Path::new))?;
    let failed = |error| Ending::failed("mdb_txn_begin", Code::of(&error));
    let txn = store.begin_read().map_err(failed)?;
    let all = Databases::of(&txn).map_err(failed)?;
    if !wanted.all {
        let name = wanted.name.map(|name| bytes(Some(&name)));
        let info = name.as_deref().map(|name| all.find(name)).transpose()?.or(all.main());
        dump.database(&txn, info, name.as_deref())?;
        return Ok(dump.out.finish()?);
    }
    for info in all.named() {
        match wanted.list {
            true => dump.out.bytes(&[&info.name, b"\n".as_slice()].concat())?,
            false => dump.database(&txn, Some(info), Some(&info.name))?,
        }
    }
    dump.out.finish()?;
    if all.named().next().is_none() && !has_text_keys(&txn, all.main())? {
        let path = path.to_string_lossy();
        let line = format!("{program}: {path} does not contain multiple databases");
        return Err(Ending::Said(line));
    }
    Ok(())
}

/// Whether the main database has a key that could be a name: the original takes every one without a
/// zero in it for a name to try.
fn has_text_keys(txn: &ReadTxn, main: Option<&TableInfo>) -> Result<bool, Ending> {
    let failed = |error| Ending::failed("mdb_cursor_get", Code::of(&error));
    let Some(main) = main else { return Ok(false) };
    let table = open::table_to_walk(txn, main).map_err(failed)?;
    let mut cursor = txn.cursor(table).map_err(failed)?;
    while let Some(entry) = cursor.next_key(txn).map_err(failed)? {
        if entry.key.iter().all(|byte| byte != 0) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A dump being written.
struct Dump {
    print: bool,
    page_size: u32,
    map_size: u64,
    writer: mdb::Writer,
    out: Output,
}

impl Dump {
    fn new(store: &Store, print: bool, to: Option<&Path>) -> Result<Self, Ending> {
        let stat = store.stat().map_err(|error| Ending::failed("mdb_stat", Code::of(&error)))?;
        Ok(Self {
            print,
            page_size: stat.page_size,
            map_size: environment::map_size(stat.pages * u64::from(stat.page_size)),
            writer: mdb::Writer::new(print, stat.file_bytes, stat.page_size, true),
            out: match to {
                None => Output::stdout(),
                Some(path) => Output::try_to(path, Existing::Replace)
                    .map_err(|error| Ending::reopen(path, &error))?,
            },
        })
    }

    /// Writes a database; the main one may never have been used.
    fn database(
        &mut self,
        txn: &ReadTxn,
        info: Option<&TableInfo>,
        name: Option<&[u8]>,
    ) -> Result<(), Ending> {
        let flags = info.map(Flags::of).unwrap_or_default();
        self.header(flags, name)?;
        if let Some(info) = info {
            self.entries(txn, info)?;
        }
        self.out.bytes(mdb::DATA_END)?;
        Ok(())
    }

    fn header(&mut self, flags: Flags, name: Option<&[u8]>) -> Result<(), Ending> {
        let format = if self.print { "print" } else { "bytevalue" };
        write!(self.out, "VERSION=3\nformat={format}\n")?;
        if let Some(name) = name {
            self.out.bytes(&[b"database=", name, b"\n"].concat())?;
        }
        let map_size = self.map_size;
        write!(self.out, "type=btree\nmapsize={map_size}\nmaxreaders={READERS_MAX}\n")?;
        if flags.has_duplicates() {
            writeln!(self.out, "duplicates=1")?;
        }
        for word in flags.words() {
            writeln!(self.out, "{word}=1")?;
        }
        write!(self.out, "db_pagesize={}\nHEADER=END\n", self.page_size)?;
        Ok(())
    }

    fn entries(&mut self, txn: &ReadTxn, info: &TableInfo) -> Result<(), Ending> {
        let failed = |error| Ending::failed("mdb_cursor_get", Code::of(&error));
        let table = open::table_to_walk(txn, info).map_err(failed)?;
        let mut cursor = txn.cursor(table).map_err(failed)?;
        let mut line = Vec::new();
        while let Some(entry) = cursor.next(txn).map_err(failed)? {
            line.clear();
            self.writer.entry(&entry.key.to_cow(), &entry.value.to_cow(), &mut line);
            self.out.bytes(&line)?;
        }
        Ok(())
    }
}
