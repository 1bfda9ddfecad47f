//! mdb_stat: databases, readers, free pages in numbers.

use std::ffi::OsString;

use hedgerow::tree::{ReadTxn, Snapshot, Store, StoreStat, TableStat};

use super::arguments::{Arguments, bytes};
use super::environment::{self, Access, Databases, READERS_MAX};
use super::error::{Code, Ending};
use crate::output::Output;

pub(crate) const OPTIONS: &str = "Vaefnrs:";
pub(crate) const USAGE: &str = "[-V] [-n] [-e] [-r[r]] [-f[f[f]]] [-a|-s subdb] dbpath";

#[derive(Default)]
struct Wanted {
    environment: bool,
    free: bool,
    readers: u32,
    all: bool,
    name: Option<OsString>,
    is_file: bool,
}

impl Wanted {
    fn of(arguments: &mut Arguments) -> Result<Self, Ending> {
        let mut wanted = Self::default();
        while let Some((letter, value)) = arguments.next()? {
            match letter {
                'V' => return Err(Ending::Version),
                'a' => wanted.all = true,
                'e' => wanted.environment = true,
                'f' => wanted.free = true,
                'n' => wanted.is_file = true,
                'r' => wanted.readers += 1,
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
pub(crate) fn run(mut arguments: Arguments) -> Result<(), Ending> {
    let wanted = Wanted::of(&mut arguments)?;
    let path = arguments.only()?;
    let store = environment::open(&path, wanted.is_file, Access::Read)?;
    let failed = |error| Ending::failed("mdb_stat", Code::of(&error));
    let mut out = Output::stdout();
    let stat = store.stat().map_err(failed)?;
    if wanted.environment {
        print_environment(&stat, &mut out)?;
    }
    if wanted.readers > 0 {
        print_readers(&store, wanted.readers > 1, &mut out)?;
        if wanted.name.is_none() && !wanted.all && !wanted.free {
            return Ok(out.finish()?);
        }
    }
    if wanted.free {
        // What is free here is no database: like handle 0 of the C interface it has no entries.
        writeln!(out, "Freelist Status")?;
        print_numbers(&TableStat::default(), &mut out)?;
        writeln!(out, "  Free pages: {}", stat.free_pages)?;
    }
    let txn = store.begin_read().map_err(failed)?;
    print_databases(&txn, &wanted, &mut out)?;
    Ok(out.finish()?)
}

fn print_environment(stat: &StoreStat, out: &mut Output) -> Result<(), Ending> {
    let page_size = u64::from(stat.page_size);
    let map_size = environment::map_size(stat.pages * page_size);
    writeln!(out, "Environment Info")?;
    writeln!(out, "  Map address: (nil)")?;
    writeln!(out, "  Map size: {map_size}")?;
    writeln!(out, "  Page size: {page_size}")?;
    writeln!(out, "  Max pages: {}", map_size / page_size)?;
    writeln!(out, "  Number of pages used: {}", stat.pages)?;
    writeln!(out, "  Last transaction ID: {}", shown_id(stat.commit))?;
    writeln!(out, "  Max readers: {READERS_MAX}")?;
    writeln!(out, "  Number of readers used: {}", stat.holders.readers.len())?;
    Ok(())
}

fn print_readers(store: &Store, is_clearing: bool, out: &mut Output) -> Result<(), Ending> {
    let failed = |error| Ending::failed("mdb_reader_list", Code::of(&error));
    writeln!(out, "Reader Table Status")?;
    list_readers(store, out)?;
    if is_clearing {
        let cleared = store.clear_dead_readers().map_err(failed)?;
        writeln!(out, "  {cleared} stale readers cleared.")?;
        list_readers(store, out)?;
    }
    Ok(())
}

fn list_readers(store: &Store, out: &mut Output) -> Result<(), Ending> {
    let readers = store.readers();
    let readers = readers.map_err(|error| Ending::failed("mdb_reader_list", Code::of(&error)))?;
    match readers.is_empty() {
        true => writeln!(out, "(no active readers)")?,
        false => writeln!(out, "    pid     thread     txnid")?,
    }
    for reader in readers {
        let id = shown_id(reader.commit);
        writeln!(out, "{:10} {:x} {id}", reader.process, reader.thread)?;
    }
    Ok(())
}

/// The number of a commit as LMDB counts: from the empty environment, whose making takes three
/// here.
fn shown_id(commit: u64) -> u64 {
    commit.saturating_sub(3)
}

fn print_databases(txn: &ReadTxn, wanted: &Wanted, out: &mut Output) -> Result<(), Ending> {
    let failed = |error| Ending::failed("mdb_stat", Code::of(&error));
    let all = Databases::of(txn).map_err(failed)?;
    let stat = |info| environment::table_stat(txn, info).map_err(failed);
    if let Some(name) = &wanted.name {
        let info = all.find(&bytes(Some(name)))?;
        return print(&name.to_string_lossy(), &stat(info)?, out);
    }
    let own = all.main().map(stat).transpose()?.unwrap_or_default();
    print("Main DB", &with_names(own, txn, all.named().count() as u64), out)?;
    for info in all.named().filter(|_| wanted.all) {
        print(&String::from_utf8_lossy(&info.name), &stat(info)?, out)?;
    }
    Ok(())
}

/// The main database together with the names of the others, which stand in the catalog.
fn with_names(mut main: TableStat, txn: &ReadTxn, names: u64) -> TableStat {
    if names > 0 {
        let catalog = txn.catalog_stat();
        main.depth = main.depth.max(catalog.depth);
        main.branch_pages += catalog.branch_pages;
        main.leaf_pages += catalog.leaf_pages;
        main.overflow_pages += catalog.overflow_pages;
        main.count.values += names;
    }
    main
}

fn print(name: &str, stat: &TableStat, out: &mut Output) -> Result<(), Ending> {
    writeln!(out, "Status of {name}")?;
    print_numbers(stat, out)
}

fn print_numbers(stat: &TableStat, out: &mut Output) -> Result<(), Ending> {
    writeln!(out, "  Tree depth: {}", stat.depth)?;
    writeln!(out, "  Branch pages: {}", stat.branch_pages)?;
    writeln!(out, "  Leaf pages: {}", stat.leaf_pages)?;
    writeln!(out, "  Overflow pages: {}", stat.overflow_pages)?;
    writeln!(out, "  Entries: {}", stat.count.values)?;
    Ok(())
}
