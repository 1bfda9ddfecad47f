//! `dump`: tables as portable text.

use std::path::PathBuf;

use hedgerow::tree::{ReadTxn, Snapshot, Store, TableInfo};

use crate::codec::{Format, FormatArgs};
use crate::exit::{Exit, Failure};
use crate::open::{self, MAIN, OrderName, TableArg};
use crate::output::Output;
use crate::portable::{Portable, TableHeader, Writer, csv, jsonl, lines, mdb};
use crate::progress::{Progress, Unit};

/// So much text is gathered before it is written.
const BUFFER_BYTES: usize = 64 << 10;

/// Write a table, or all of them, as portable text
///
/// `load` reads all of the formats; mdb_load reads the mdb format only.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    table: TableArg,
    /// The file to write; `-` is standard output
    #[arg(default_value = "-")]
    to: PathBuf,
    /// Which format [default: mdb, or jsonl with --json]
    #[arg(long = "as", value_enum, value_name = "PORTABLE")]
    portable: Option<Portable>,
    /// All tables (mdb only)
    #[arg(short, long, conflicts_with = "table")]
    all: bool,
    /// Printable bytes as they are instead of hexadecimal digits (mdb only)
    #[arg(short, long)]
    print: bool,
    #[command(flatten)]
    formats: FormatArgs,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let default = if json { Portable::Jsonl } else { Portable::Mdb };
    let portable = args.portable.unwrap_or(default);
    if portable != Portable::Mdb && (args.all || args.print) {
        return Err(Failure::usage("--all and --print are for --as mdb"));
    }
    let store = args.table.store.read()?;
    let txn = store.begin_read()?;
    let mut tables = match args.all {
        true => txn.tables()?,
        false => vec![open::info(&txn, &args.table.table)?],
    };
    // Where a dump gives no name, mdb_load goes on in the database before: so ours comes first.
    tables.sort_by_key(|info| info.name != MAIN.as_bytes());
    let writer = match portable {
        Portable::Mdb => Writer::Mdb(mdb_writer(&store, &tables, args.print)?),
        Portable::Lines => Writer::Lines(lines::Writer::new(args.formats)),
        Portable::Csv => Writer::Csv(csv::Writer::new(args.formats)),
        Portable::Jsonl => Writer::Jsonl(jsonl::Writer::new(args.formats)),
    };
    let mut dump = Dump { writer, buffer: Vec::new(), out: Output::to(&args.to)? };
    for info in &tables {
        dump.table(&txn, info)?;
    }
    dump.flush()?;
    dump.out.finish()?;
    Ok(Exit::Done)
}

fn mdb_writer(store: &Store, tables: &[TableInfo], print: bool) -> Result<mdb::Writer, Failure> {
    let stat = store.stat()?;
    // LMDB's main database cannot hold others while it has duplicates or an order of its own.
    let plain =
        |info: &TableInfo| !info.duplicates && OrderName::of(&info.order) == OrderName::Bytewise;
    let name_main = tables.len() > 1 && !tables.first().is_some_and(plain);
    Ok(mdb::Writer::new(print, stat.file_bytes, stat.page_size, name_main))
}

/// A dump being written.
struct Dump {
    writer: Writer,
    buffer: Vec<u8>,
    out: Output,
}

impl Dump {
    fn table(&mut self, txn: &ReadTxn, info: &TableInfo) -> Result<(), Failure> {
        let progress = match self.out.is_terminal() {
            true => Progress::silent(),
            false => Progress::new("dumping", Unit::Items, Some(info.count.values)),
        };
        progress.message(Format::Text.encode(&info.name));
        let table = open::table_to_walk(txn, info)?;
        self.writer.table(&TableHeader::of(info), &mut self.buffer);
        let mut cursor = txn.cursor(table)?;
        let mut done = 0;
        while let Some(entry) = cursor.next(txn)? {
            let (key, value) = (entry.key.to_cow(), entry.value.to_cow());
            self.writer.entry(&key, &value, &mut self.buffer);
            done += 1;
            if self.buffer.len() >= BUFFER_BYTES {
                self.flush()?;
                progress.at(done);
            }
        }
        self.writer.end(&mut self.buffer);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        self.out.bytes(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
