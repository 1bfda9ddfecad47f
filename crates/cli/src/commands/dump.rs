//! `dump`: tables as portable files.

use std::path::PathBuf;

use hedgerow::Error;
use hedgerow::tree::{ReadTxn, Snapshot, Store, TableInfo};

use crate::codec::{FormatArgs, shown};
use crate::exit::{Exit, Failure};
use crate::open::{self, MAIN, OrderName, TableArg};
use crate::output::{ForceArg, Output};
#[cfg(feature = "columns")]
use crate::portable::columns;
use crate::portable::{Layout, Portable, TableHeader, Writer, csv, jsonl, lines, mdb};
use crate::progress::{Progress, Unit};
use crate::signals;
use crate::sums::{SumArg, Sums};
use crate::tell::tell;

/// This much text is gathered before it is written.
const BUFFER_BYTES: usize = 64 << 10;

/// Write a table, or all of them, as portable text, or as Arrow or Parquet files
///
/// `load` reads all of the formats; mdb_load reads the mdb format only. In Arrow and Parquet files
/// keys and values are bytes, or numbers and text if a format says so (`--key-format u64`); the
/// file says how many entries there are, and their checksum, which `load` verifies.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) table: TableArg,
    /// The file to write; `-` is standard output
    #[arg(default_value = "-")]
    pub(super) to: PathBuf,
    /// The format [default: mdb, or jsonl with --json]
    #[arg(long = "as", value_enum, value_name = "PORTABLE")]
    pub(super) portable: Option<Portable>,
    /// All tables (mdb only)
    #[arg(short, long, conflicts_with = "table")]
    pub(super) all: bool,
    /// Write printable bytes as they are instead of as hexadecimal digits (mdb only)
    #[arg(short, long)]
    pub(super) print: bool,
    /// How an Arrow or Parquet file is compressed [default: none, or snappy with --as parquet]
    #[cfg(feature = "columns")]
    #[arg(long, value_enum, value_name = "METHOD")]
    pub(super) compression: Option<columns::Compression>,
    /// Go on after damage, and say how many entries are missing (engine tree)
    #[arg(long)]
    pub(super) skip_damaged: bool,
    #[command(flatten)]
    pub(super) sum: SumArg,
    #[command(flatten)]
    pub(super) force: ForceArg,
    #[command(flatten)]
    pub(super) layout: Layout,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let portable = args.portable(json)?;
    let store = args.table.store.read()?;
    let txn = store.begin_read()?;
    let mut tables = match args.all {
        true => txn.tables()?,
        false => vec![open::info(&txn, &args.table.table)?],
    };
    // Where a dump gives no name, mdb_load goes on in the database before: so ours comes first.
    tables.sort_by_key(|info| info.name != MAIN.as_bytes());
    let bytes = if portable == Portable::Mdb { bytes(&txn, &tables) } else { Ok(0) };
    // Where not all can be read, the file's length is more than enough.
    let bytes = match bytes {
        Err(Error::Corrupt { .. }) => store.stat()?.file_bytes.saturating_mul(2),
        bytes => bytes?,
    };
    let mdb = mdb_writer(&store, &tables, args.print, bytes);
    let mut dump = args.begin(portable, mdb)?;
    let mut missing = 0;
    for info in &tables {
        match table(&mut dump, &txn, info, args.skip_damaged) {
            Ok(lost) => missing += lost,
            Err(failure) => {
                let next = "--skip-damaged goes on behind the damage";
                return Err(dump.stopped(failure, next));
            }
        }
    }
    dump.finish()?;
    Ok(if missing == 0 { Exit::Done } else { Exit::No })
}

impl Args {
    /// The format.
    pub(super) fn portable(&self, json: bool) -> Result<Portable, Failure> {
        let default = if json { Portable::Jsonl } else { Portable::Mdb };
        let portable = self.portable.unwrap_or(default);
        if portable != Portable::Mdb && (self.all || self.print) {
            return Err(Failure::usage("--all and --print are for --as mdb"));
        }
        #[cfg(feature = "columns")]
        if self.compression.is_some() && !portable.has_columns() {
            return Err(Failure::usage("--compression is for --as arrow and --as parquet"));
        }
        self.layout.check(portable).map_err(Failure::Usage)?;
        Ok(portable)
    }

    /// Begins a dump; `mdb` writes it if that is the format.
    pub(super) fn begin(&self, portable: Portable, mdb: mdb::Writer) -> Result<Dump, Failure> {
        let writer = match portable {
            Portable::Mdb => Writer::Mdb(mdb),
            Portable::Lines => Writer::Lines(lines::Writer::new(self.formats, self.layout)),
            Portable::Csv => Writer::Csv(csv::Writer::new(self.formats, self.layout.delimiter)),
            Portable::Jsonl => Writer::Jsonl(jsonl::Writer::new(self.formats)),
            #[cfg(feature = "columns")]
            Portable::Arrow | Portable::Parquet => {
                let (name, compression) = (&self.table.table.0, self.compression);
                let made = columns::Writer::new(portable, name, self.formats, compression);
                Writer::Columns(Box::new(made.map_err(Failure::Usage)?))
            }
        };
        let (progress, out) = (Progress::silent(), Output::to(&self.to, self.force.existing())?);
        let sums = Sums::new(self.sum);
        Ok(Dump { writer, buffer: Vec::new(), out, progress, sums, done: 0 })
    }
}

/// The size that LMDB would need: equal stores give the same, whatever their files are like.
fn bytes(txn: &ReadTxn, tables: &[TableInfo]) -> hedgerow::Result<u64> {
    let mut bytes = 0;
    for info in tables {
        let table = open::table_to_walk(txn, info)?;
        let mut cursor = txn.cursor(table)?;
        while let Some(entry) = cursor.next(txn)? {
            bytes += mdb::entry_bytes(entry.key.len(), entry.value.len());
        }
    }
    Ok(bytes)
}

fn mdb_writer(store: &Store, tables: &[TableInfo], print: bool, bytes: u64) -> mdb::Writer {
    // LMDB's main database cannot hold others while it has duplicates or an order of its own.
    let plain =
        |info: &TableInfo| !info.duplicates && OrderName::of(&info.order) == OrderName::Bytewise;
    let name_main = tables.len() > 1 && !tables.first().is_some_and(plain);
    mdb::Writer::new(print, bytes, store.page_size(), name_main)
}

/// Writes a table. Returns how many of its entries are damaged, where these are skipped.
fn table(dump: &mut Dump, txn: &ReadTxn, info: &TableInfo, skips: bool) -> Result<u64, Failure> {
    dump.begin(&TableHeader::of(info), Some(info.count.values));
    let table = open::table_to_walk(txn, info)?;
    let mut cursor = txn.cursor(table)?;
    let (mut at, mut missing) = (0, 0);
    // After damage the dump goes on by position; a cursor does not know what it could not read.
    let mut is_astray = false;
    while at < info.count.values {
        let found = if is_astray { cursor.seek_nth(txn, at) } else { cursor.next(txn) };
        is_astray = match found {
            Ok(Some(entry)) => {
                dump.entry(&entry.key.to_cow(), &entry.value.to_cow())?;
                false
            }
            Ok(None) => break,
            Err(Error::Corrupt { .. }) if skips => {
                signals::check()?;
                missing += 1;
                true
            }
            Err(error) => return Err(error.into()),
        };
        at += 1;
    }
    dump.end()?;
    if missing > 0 {
        let (name, all) = (shown(&info.name), info.count.values);
        tell!("table {name}: {missing} of {all} entries are damaged and were skipped");
    }
    Ok(missing)
}

/// A dump being written.
pub(super) struct Dump {
    writer: Writer,
    buffer: Vec<u8>,
    out: Output,
    progress: Progress,
    sums: Sums,
    /// Entries of this table so far.
    done: u64,
}

impl Dump {
    /// Begins a table that has `entries` entries, if that is known.
    pub(super) fn begin(&mut self, header: &TableHeader, entries: Option<u64>) {
        if !self.out.is_terminal() {
            self.progress = Progress::new("dumping", Unit::Items, entries);
        }
        self.progress.message(shown(header.name.as_deref().unwrap_or_default()));
        self.done = 0;
        self.sums.begin_table(header.name.as_deref().unwrap_or_default());
        self.writer.table(header, &mut self.buffer);
    }

    /// Writes an entry of the table.
    pub(super) fn entry(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        let written = self.writer.entry(key, value, &mut self.buffer);
        written.map_err(|reason| {
            let number = self.done + 1;
            Failure::other(format!("entry {number}, of the key {}: {reason}", shown(key)))
        })?;
        self.sums.add(key, value);
        self.done += 1;
        if self.buffer.len() >= BUFFER_BYTES {
            self.flush()?;
            self.progress.at(self.done);
        }
        Ok(())
    }

    /// Ends the table.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        self.writer.end(&mut self.buffer).map_err(Failure::Other)
    }

    /// Ends the dump early: standard output gets all that was read. `next` says what helps with
    /// damage.
    pub(super) fn stopped(mut self, failure: Failure, next: &str) -> Failure {
        if !matches!(failure, Failure::ClosedPipe) {
            let _ = self.flush().and_then(|()| self.out.flush());
        }
        match failure {
            Failure::Store(Error::Corrupt { .. }) => {
                failure.and(&format!("the dump ends there; {next}"))
            }
            other => other,
        }
    }

    /// Ends the dump.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.flush()?;
        self.out.finish()?;
        self.sums.say();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.out.bytes(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
