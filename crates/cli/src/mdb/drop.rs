//! mdb_drop: empties or removes a database.

use hedgerow::tree::WriteTxn;

use super::arguments::{Arguments, bytes};
use super::environment::{self, Access, Databases, MAIN};
use super::error::{Code, Ending};
use crate::open;

pub(crate) const OPTIONS: &str = "dns:V";
pub(crate) const USAGE: &str = "[-V] [-n] [-d] [-s subdb] dbpath";

/// Runs the tool.
pub(crate) fn run(mut arguments: Arguments) -> Result<(), Ending> {
    let (mut is_file, mut removes, mut name) = (false, false, None);
    while let Some((letter, value)) = arguments.next()? {
        match letter {
            'V' => return Err(Ending::Version),
            'd' => removes = true,
            'n' => is_file = true,
            _ => name = value,
        }
    }
    let path = arguments.only()?;
    let store = environment::open(&path, is_file, Access::Write)?;
    let begun = store.begin_write();
    let mut txn = begun.map_err(|error| Ending::failed("mdb_txn_begin", Code::of(&error)))?;
    let failed = |error| Ending::failed("mdb_drop", Code::of(&error));
    let all = Databases::of(&txn).map_err(failed)?;
    match name {
        Some(name) => {
            all.find(&bytes(Some(&name)))?;
            empty(&mut txn, &all, &bytes(Some(&name)), removes).map_err(failed)?;
        }
        // The names of the others stand in the main database.
        None => {
            for named in all.named() {
                empty(&mut txn, &all, &named.name, true).map_err(failed)?;
            }
            empty(&mut txn, &all, MAIN, false).map_err(failed)?;
        }
    }
    txn.commit().map_err(|error| Ending::failed("mdb_txn_commit", Code::of(&error)))
}

fn empty(txn: &mut WriteTxn, all: &Databases, name: &[u8], removes: bool) -> hedgerow::Result<()> {
    if removes {
        return txn.drop_table(name).map(|_| ());
    }
    let found = all.named().chain(all.main()).find(|info| info.name == name);
    let Some(info) = found else { return Ok(()) };
    let table = open::table_to_walk(txn, info)?;
    txn.clear_table(table)
}
