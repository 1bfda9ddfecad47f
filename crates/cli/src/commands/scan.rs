//! `scan`: prints the entries of a table or of a range.

use hedgerow::stream::{Scan, Source, Token, Values};
use hedgerow::tree::{Entry, Snapshot, Store, Table};
use serde_json::Map;

use crate::codec::{FormatArgs, shown};
use crate::exit::{Exit, Failure};
use crate::json::{self, List};
use crate::open::{self, MAIN, Name, StoreArg, parse_name};
use crate::range::RangeArgs;
use crate::signals;
use crate::tell::tell;

/// Print entries in order: key, tab, value
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// The table, in the text format [default: main, or that of the token]
    #[arg(short, long, value_name = "NAME", value_parser = parse_name)]
    table: Option<Name>,
    #[command(flatten)]
    pub(super) range: RangeArgs,
    /// Stop after this many entries
    #[arg(long, short = 'n', value_name = "NUMBER", default_value_t = u64::MAX, hide_default_value = true)]
    pub(super) limit: u64,
    /// Print from the last entry to the first
    #[arg(long)]
    pub(super) reverse: bool,
    /// Print only keys, each once
    #[arg(long)]
    pub(super) keys_only: bool,
    /// Say on standard error how to go on later from where this ended
    #[arg(long)]
    pub(super) token: bool,
    /// Go on where another scan ended; table, range and direction are those of that one
    #[arg(long, value_name = "TOKEN", conflicts_with_all = ["from", "after", "to", "before", "prefix", "reverse", "keys_only"])]
    pub(super) resume: Option<Token>,
    #[command(flatten)]
    pub(super) formats: FormatArgs,
}

impl Args {
    /// Whether it begins, or may end, in the middle of a scan.
    pub(super) fn is_part(&self) -> bool {
        self.token || self.resume.is_some()
    }

    /// The table of a scan that begins.
    pub(super) fn table(&self) -> Name {
        self.table.clone().unwrap_or_else(|| Name(MAIN.into()))
    }
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.store.read()?;
    if args.is_part() {
        return part(&store, &args, json);
    }
    let txn = store.begin_read()?;
    let mut printer = Printer::new(json, args.formats, args.keys_only);
    if args.range.is_everything() {
        let table = open::table_to_walk(&txn, &open::info(&txn, &args.table())?)?;
        walk(&txn, table, &args, &mut printer)?;
    } else {
        let table = open::table(&txn, &args.table())?;
        scan_range(&txn, table, &args, &mut printer)?;
    }
    printer.finish()
}

/// A part of a scan, of which the rest can follow.
fn part(store: &Store, args: &Args, json: bool) -> Result<Exit, Failure> {
    let scan = match &args.resume {
        Some(token) => resumed(token, store, args)?,
        None => {
            let txn = store.begin_read()?;
            let table = open::table(&txn, &args.table())?;
            let keys = args.range.keys(&txn, table, args.formats.key())?;
            let scan = Scan::new(args.table().0).range(&keys);
            let scan = if args.reverse { scan.reverse() } else { scan };
            match args.keys_only {
                true => scan.keys_only().values(Values::First),
                false => scan,
            }
        }
    };
    print_part(scan, store, args, json)
}

/// The rest of the scan of a token, which is one of the table that was named, if one was.
pub(super) fn resumed<S: Source>(token: &Token, store: &S, args: &Args) -> Result<Scan, Failure> {
    if let Some(Name(named)) = args.table.as_ref().filter(|named| named.0 != token.table()) {
        let (theirs, named) = (shown(token.table()), shown(named));
        return Err(Failure::usage(format!("the token is one of table {theirs}, not {named}")));
    }
    Ok(Scan::resume(token, store)?)
}

/// Prints pairs, and says where they end.
pub(super) fn print_part<S: Source>(
    scan: Scan,
    store: &S,
    args: &Args,
    json: bool,
) -> Result<Exit, Failure> {
    let keys_only = scan.is_keys_only();
    let mut pairs = scan.pairs(store)?;
    let mut printer = Printer::new(json, args.formats, keys_only);
    while printer.printed < args.limit
        && let Some(pair) = pairs.next().transpose()?
    {
        signals::check()?;
        printer.print_pair(&pair.key().to_cow(), &pair.value().to_cow())?;
    }
    let token = pairs.token()?;
    printer.finish()?;
    if args.token {
        tell!("{token}");
    }
    Ok(Exit::Done)
}

/// All of the table, in an order that may be unknown to us.
fn walk<S: Snapshot>(
    txn: &S,
    table: Table,
    args: &Args,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let mut cursor = txn.cursor(table)?;
    let mut entry = if args.reverse { cursor.last(txn)? } else { cursor.first(txn)? };
    while let Some(found) = entry {
        if printer.printed >= args.limit {
            break;
        }
        printer.print(&found)?;
        entry = match (args.keys_only, args.reverse) {
            (false, false) => cursor.next(txn)?,
            (false, true) => cursor.prev(txn)?,
            (true, false) => cursor.next_key(txn)?,
            (true, true) => cursor.prev_key(txn)?,
        };
    }
    Ok(())
}

fn scan_range<S: Snapshot>(
    txn: &S,
    table: Table,
    args: &Args,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let keys = args.range.keys(txn, table, args.formats.key())?;
    let mut range = txn.range(table, &keys)?;
    let mut last = None;
    while printer.printed < args.limit {
        let entry = if args.reverse { range.next_back() } else { range.next() };
        let Some(entry) = entry.transpose()? else { break };
        if args.keys_only && last.replace(entry.key) == Some(entry.key) {
            continue;
        }
        printer.print(&entry)?;
    }
    Ok(())
}

/// Prints entries, or keys, as lines or as one JSON array.
pub(crate) struct Printer {
    list: List,
    formats: FormatArgs,
    keys_only: bool,
    line: Vec<u8>,
    pub(crate) printed: u64,
}

impl Printer {
    /// To standard output.
    pub(crate) fn new(json: bool, formats: FormatArgs, keys_only: bool) -> Self {
        Self { list: List::new(json), formats, keys_only, line: Vec::new(), printed: 0 }
    }

    /// Prints one entry.
    pub(crate) fn print(&mut self, entry: &Entry<'_>) -> Result<(), Failure> {
        match self.keys_only {
            true => self.print_pair(&entry.key.to_cow(), &[]),
            false => self.print_pair(&entry.key.to_cow(), &entry.value.to_cow()),
        }
    }

    /// Prints a key and its value.
    pub(crate) fn print_pair(&mut self, key: &[u8], value: &[u8]) -> Result<(), Failure> {
        self.printed += 1;
        if self.list.is_json {
            let object = match self.keys_only {
                true => Map::from_iter([json::key_field(key, self.formats)?]).into(),
                false => json::pair(key, value, self.formats)?,
            };
            return self.list.push(&object);
        }
        self.line.clear();
        json::add_key(key, self.formats, &mut self.line)?;
        if !self.keys_only {
            self.line.push(b'\t');
            json::add_value(value, self.formats.value(), &mut self.line)?;
        }
        self.line.push(b'\n');
        self.list.out.bytes(&self.line)
    }

    /// Ends the output.
    pub(crate) fn finish(self) -> Result<Exit, Failure> {
        self.list.finish()
    }
}
