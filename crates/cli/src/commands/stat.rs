//! `stat`: a store and its tables in numbers and pictures.

mod html;
pub(super) mod page;

use std::path::PathBuf;

use hedgerow::tree::{LevelShape, ReadTxn, Snapshot, StoreStat, TableInfo, TableShape, TableStat};
use serde_json::{Value, json};

use super::pin;
use super::tables::kind;
use crate::codec::shown;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{self, StoreArg};
use crate::output::{ForceArg, Output};

/// Show pages by kind, free space, readers and the shape of every table's tree
///
/// The shape is pages, entries and fill, level by level. For that every page of every table is
/// read, except overflow pages.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) store: StoreArg,
    /// Write one self-contained page with pictures; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(super) html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) force: ForceArg,
}

/// Everything that is shown.
struct Picture {
    path: String,
    store: StoreStat,
    tables: Vec<TablePicture>,
}

/// What is shown of a table.
struct TablePicture {
    info: TableInfo,
    stat: TableStat,
    shape: TableShape,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.store.read()?;
    let stat = store.stat()?;
    let txn = store.begin_read()?;
    let path = store.path().display().to_string();
    let picture = Picture { path, store: stat, tables: tables(&txn)? };
    if let Some(file) = &args.html {
        let mut out = Output::to(file, args.force.existing())?;
        out.bytes(html::page(&picture).as_bytes())?;
        out.finish()?;
        if !json {
            return Ok(Exit::Done);
        }
    }
    json::answer(json, picture.json(), |out| picture.print(out))
}

fn tables(txn: &ReadTxn) -> Result<Vec<TablePicture>, Failure> {
    let mut tables = Vec::new();
    for info in txn.tables()? {
        let table = open::table_to_walk(txn, &info)?;
        let (stat, shape) = (txn.table_stat(table)?, txn.table_shape(table)?);
        tables.push(TablePicture { info, stat, shape });
    }
    Ok(tables)
}

/// How full pages are: 100 times the bytes in use over the bytes that there are. Nothing if there
/// are no pages.
fn fill_percent(levels: &[LevelShape], page_size: u32) -> Option<f64> {
    let pages: u64 = levels.iter().map(|level| level.pages).sum();
    let used: u64 = levels.iter().map(|level| level.used_bytes).sum();
    (pages > 0).then(|| used as f64 / (pages as f64 * f64::from(page_size)) * 100.0)
}

impl TablePicture {
    /// Of leaves and branches together; long values have pages of their own that do not count.
    fn fill_percent(&self) -> Option<f64> {
        fill_percent(&self.shape.levels, self.shape.page_size)
    }

    /// The levels from the root down, each with its number and its fill; the leaves are level 0.
    fn levels(&self) -> impl Iterator<Item = (usize, &LevelShape, f64)> {
        self.shape.levels.iter().enumerate().rev().map(|(number, level)| {
            let fill = fill_percent(std::slice::from_ref(level), self.shape.page_size);
            (number, level, fill.unwrap_or_default())
        })
    }

    fn json(&self) -> Value {
        let mut table = json::table(&self.info);
        table.insert("depth".into(), self.stat.depth.into());
        table.insert("branch_pages".into(), self.stat.branch_pages.into());
        table.insert("leaf_pages".into(), self.stat.leaf_pages.into());
        table.insert("overflow_pages".into(), self.stat.overflow_pages.into());
        table.insert("fill_percent".into(), self.fill_percent().into());
        let levels = self.levels().map(|(number, level, fill)| {
            json!({
                "level": number, "pages": level.pages, "entries": level.entries,
                "used_bytes": level.used_bytes, "fill_percent": fill,
            })
        });
        table.insert("levels".into(), levels.collect());
        table.into()
    }

    fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let (info, stat) = (&self.info, &self.stat);
        let (leaf, branch, overflow) = (stat.leaf_pages, stat.branch_pages, stat.overflow_pages);
        writeln!(out, "table           {}: {}", shown(&info.name), kind(info))?;
        writeln!(out, "  keys, values  {}, {}", stat.count.keys, stat.count.values)?;
        writeln!(
            out,
            "  depth         {} ({leaf} leaf, {branch} branch, {overflow} overflow pages)",
            stat.depth
        )?;
        if let Some(fill) = self.fill_percent() {
            writeln!(out, "  fill          {fill:.1} %")?;
        }
        for (number, level, fill) in self.levels() {
            let (pages, entries) = (level.pages, level.entries);
            writeln!(
                out,
                "  level {number:<7} pages {pages}, entries {entries}, {fill:.1} % full"
            )?;
        }
        Ok(())
    }
}

impl Picture {
    fn json(&self) -> Value {
        let store = &self.store;
        let readers: Vec<Value> = store
            .holders
            .readers
            .iter()
            .map(|reader| {
                json!({
                    "process": reader.process, "thread": reader.thread, "commit": reader.commit,
                    "age_seconds": reader.age.as_secs_f64(),
                })
            })
            .collect();
        let tables: Vec<Value> = self.tables.iter().map(TablePicture::json).collect();
        json!({
            "store": self.path,
            "page_size": store.page_size,
            "commit": store.commit,
            "durable_commit": store.durable_commit,
            "file_bytes": store.file_bytes,
            "max_size": store.max_size,
            "pages": store.pages,
            "branch_pages": store.table_pages.branch_pages,
            "leaf_pages": store.table_pages.leaf_pages,
            "overflow_pages": store.table_pages.overflow_pages,
            "own_pages": store.own_pages,
            "free_pages": store.free_pages,
            "pinned_pages": store.pinned_pages,
            "tables": tables,
            "readers": readers,
            "pins": store.holders.pins.iter().map(pin::json).collect::<Vec<_>>(),
        })
    }

    fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let store = &self.store;
        let pages = &store.table_pages;
        writeln!(out, "store           {}", self.path)?;
        writeln!(out, "page size       {}", store.page_size)?;
        writeln!(out, "commit          {} (durable: {})", store.commit, store.durable_commit)?;
        writeln!(out, "file            {} bytes", store.file_bytes)?;
        match store.max_size {
            Some(size) => writeln!(out, "maximum size    {size} bytes")?,
            None => writeln!(out, "maximum size    none")?,
        }
        writeln!(out, "pages           {}", store.pages)?;
        writeln!(out, "  leaf          {}", pages.leaf_pages)?;
        writeln!(out, "  branch        {}", pages.branch_pages)?;
        writeln!(out, "  overflow      {}", pages.overflow_pages)?;
        writeln!(out, "  own           {}", store.own_pages)?;
        writeln!(out, "  free          {}", store.free_pages)?;
        writeln!(out, "  pinned        {}", store.pinned_pages)?;
        writeln!(out, "readers         {}", store.holders.readers.len())?;
        for reader in &store.holders.readers {
            let age = reader.age.as_secs_f64();
            let (process, thread, commit) = (reader.process, reader.thread, reader.commit);
            writeln!(
                out,
                "  process {process}, thread {thread}: reads commit {commit} since {age:.1} s"
            )?;
        }
        writeln!(out, "pins            {}", store.holders.pins.len())?;
        for pin in &store.holders.pins {
            writeln!(out, "  {}", pin::line(pin))?;
        }
        for table in &self.tables {
            table.print(out)?;
        }
        Ok(())
    }
}
