//! `stat`: a store and its tables in numbers and pictures.

mod html;

use std::path::PathBuf;

use hedgerow::tree::{ReadTxn, Snapshot, StoreStat, TableInfo, TableStat};
use serde_json::{Value, json};

use super::tables::kind;
use crate::codec::Format;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::open::{self, StoreArg};
use crate::output::Output;

/// Show pages by kind, free space, readers and the shape of every table's tree
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    #[command(flatten)]
    store: StoreArg,
    /// Write one self-contained page with pictures; `-` is standard output
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Everything that is shown.
struct Picture {
    path: String,
    store: StoreStat,
    tables: Vec<(TableInfo, TableStat)>,
}

/// Runs the subcommand.
pub(crate) fn run(args: Args, json: bool) -> Result<Exit, Failure> {
    let store = args.store.read()?;
    let stat = store.stat()?;
    let txn = store.begin_read()?;
    let path = store.path().display().to_string();
    let picture = Picture { path, store: stat, tables: tables(&txn)? };
    if let Some(file) = &args.html {
        let mut out = Output::to(file)?;
        out.bytes(html::page(&picture).as_bytes())?;
        out.finish()?;
        if !json {
            return Ok(Exit::Done);
        }
    }
    let mut out = Output::stdout();
    match json {
        true => json::print(&mut out, &picture.json())?,
        false => picture.print(&mut out)?,
    }
    out.finish()?;
    Ok(Exit::Done)
}

fn tables(txn: &ReadTxn) -> Result<Vec<(TableInfo, TableStat)>, Failure> {
    let mut tables = Vec::new();
    for info in txn.tables()? {
        let table = open::table_to_walk(txn, &info)?;
        tables.push((info, txn.table_stat(table)?));
    }
    Ok(tables)
}

impl Picture {
    fn json(&self) -> Value {
        let store = &self.store;
        let readers: Vec<Value> = store
            .readers
            .iter()
            .map(|reader| {
                json!({
                    "process": reader.process, "thread": reader.thread, "commit": reader.commit,
                    "age_seconds": reader.age.as_secs_f64(),
                })
            })
            .collect();
        let tables: Vec<Value> = self
            .tables
            .iter()
            .map(|(info, stat)| {
                let mut table = json::table(info);
                table.insert("depth".into(), stat.depth.into());
                table.insert("branch_pages".into(), stat.branch_pages.into());
                table.insert("leaf_pages".into(), stat.leaf_pages.into());
                table.insert("overflow_pages".into(), stat.overflow_pages.into());
                table.into()
            })
            .collect();
        json!({
            "store": self.path,
            "page_size": store.page_size,
            "commit": store.commit,
            "durable_commit": store.durable_commit,
            "file_bytes": store.file_bytes,
            "pages": store.pages,
            "branch_pages": store.table_pages.branch_pages,
            "leaf_pages": store.table_pages.leaf_pages,
            "overflow_pages": store.table_pages.overflow_pages,
            "own_pages": store.own_pages,
            "free_pages": store.free_pages,
            "pinned_pages": store.pinned_pages,
            "tables": tables,
            "readers": readers,
        })
    }

    fn print(&self, out: &mut Output) -> Result<(), Failure> {
        let store = &self.store;
        let pages = &store.table_pages;
        writeln!(out, "store           {}", self.path)?;
        writeln!(out, "page size       {}", store.page_size)?;
        writeln!(out, "commit          {} (durable: {})", store.commit, store.durable_commit)?;
        writeln!(out, "file            {} bytes", store.file_bytes)?;
        writeln!(out, "pages           {}", store.pages)?;
        writeln!(out, "  leaf          {}", pages.leaf_pages)?;
        writeln!(out, "  branch        {}", pages.branch_pages)?;
        writeln!(out, "  overflow      {}", pages.overflow_pages)?;
        writeln!(out, "  own           {}", store.own_pages)?;
        writeln!(out, "  free          {}", store.free_pages)?;
        writeln!(out, "  pinned        {}", store.pinned_pages)?;
        writeln!(out, "readers         {}", store.readers.len())?;
        for reader in &store.readers {
            let age = reader.age.as_secs_f64();
            let (process, thread, commit) = (reader.process, reader.thread, reader.commit);
            writeln!(
                out,
                "  process {process}, thread {thread}: reads commit {commit} since {age:.1} s"
            )?;
        }
        for (info, stat) in &self.tables {
            writeln!(out, "table           {}: {}", Format::Text.encode(&info.name), kind(info))?;
            writeln!(out, "  keys, values  {}, {}", stat.count.keys, stat.count.values)?;
            let (leaf, branch, overflow) =
                (stat.leaf_pages, stat.branch_pages, stat.overflow_pages);
            writeln!(
                out,
                "  depth         {} ({leaf} leaf, {branch} branch, {overflow} overflow pages)",
                stat.depth
            )?;
        }
        Ok(())
    }
}
