//! Portable text: dump, load.

use super::super::{dump, load};
use super::{Filler, keyspace, only_plain, open, read, while_wanted};
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::open::{MAIN, Name};
use crate::portable::{Portable, TableHeader, mdb};
use hedgerow::Error;
use hedgerow::lsm::{Keyspace, Readable, Reader};

/// The page size that LMDB's tools get to see; this engine has no pages.
const PAGE_SIZE: u32 = 4096;

/// `dump`.
pub(super) fn dump(args: &dump::Args, json: bool) -> Result<Exit, Failure> {
    let portable = args.portable(json)?;
    if args.skip_damaged {
        return Err(Failure::usage(
            "--skip-damaged is for the engine tree; of a store of the engine lsm `hedgerow salvage` \
             brings over what is sound",
        ));
    }
    let db = read(&args.table.store)?;
    let mut names = match args.all {
        true => db.keyspaces()?,
        false => vec![args.table.table.0.clone()],
    };
    // Where a dump gives no name, mdb_load goes on in the database before: so ours comes first.
    names.sort_by_key(|name| name != MAIN.as_bytes());
    let name_main = names.len() > 1 && names.first().is_none_or(|name| name != MAIN.as_bytes());
    let spaces: Result<Vec<_>, Failure> =
        names.into_iter().map(|name| keyspace(&db, &Name(name))).collect();
    let spaces = spaces?;
    let bytes = if portable == Portable::Mdb { bytes(&db, &spaces) } else { Ok(0) };
    // Where not all can be read, the files' length is more than enough.
    let bytes = match bytes {
        Err(Failure::Store(Error::Corrupt { .. })) => db.stat().bytes().saturating_mul(2),
        bytes => bytes?,
    };
    let mdb = mdb::Writer::new(args.print, bytes, PAGE_SIZE, name_main);
    let mut dump = args.begin(portable, mdb)?;
    for space in &spaces {
        if let Err(failure) = table(&mut dump, &db, space) {
            let next = "`hedgerow salvage` brings over what is sound to a new store";
            return Err(dump.stopped(failure, next));
        }
    }
    dump.finish()?;
    Ok(Exit::Done)
}

/// The size that LMDB would need.
fn bytes(db: &Reader, spaces: &[Keyspace]) -> Result<u64, Failure> {
    let mut bytes = 0;
    for space in spaces {
        for entry in while_wanted(db.range(space, ..)?) {
            let (key, value) = entry?;
            bytes += mdb::entry_bytes(key.len(), value.len());
        }
    }
    Ok(bytes)
}

/// Writes a table.
fn table(dump: &mut dump::Dump, db: &Reader, space: &Keyspace) -> Result<(), Failure> {
    let (name, user_flags) = (Some(space.name().to_vec()), space.user_flags());
    let about = db.estimate_count(space, ..)?;
    dump.begin(&TableHeader { name, user_flags, ..TableHeader::default() }, Some(about));
    for entry in while_wanted(db.range(space, ..)?) {
        let (key, value) = entry?;
        dump.entry(&key, &value)?;
    }
    dump.end()
}

/// `load`.
pub(super) fn load(args: &load::Args, json: bool) -> Result<Exit, Failure> {
    args.check()?;
    if args.flags.need_tree() {
        return Err(only_plain(args.table.as_ref().map(|name| name.0.as_slice())));
    }
    let input = Input::open(&args.from)?;
    let db = open(&args.store)?;
    load::load(args, input, Box::new(Filler::new(db, args.keep)), json)
}
