//! Portable text: dump, load.

use super::super::{dump, load};
use super::{Filler, keyspace, only_plain, open, read, while_wanted};
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::open::{MAIN, Name};
use crate::portable::{Portable, TableHeader, mdb};
use hedgerow::lsm::Readable;

/// The page size that LMDB's tools get to see; this engine has no pages.
const PAGE_SIZE: u32 = 4096;

/// `dump`.
pub(super) fn dump(args: &dump::Args, json: bool) -> Result<Exit, Failure> {
    let portable = args.portable(json)?;
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
    let mut bytes = 0;
    for space in spaces.iter().filter(|_| portable == Portable::Mdb) {
        for entry in while_wanted(db.range(space, ..)?) {
            let (key, value) = entry?;
            bytes += mdb::entry_bytes(key.len(), value.len());
        }
    }
    let mdb = mdb::Writer::new(args.print, bytes, PAGE_SIZE, name_main);
    let mut dump = args.begin(portable, mdb)?;
    for space in &spaces {
        let (name, user_flags) = (Some(space.name().to_vec()), space.user_flags());
        let about = db.estimate_count(space, ..)?;
        dump.begin(&TableHeader { name, user_flags, ..TableHeader::default() }, Some(about));
        for entry in while_wanted(db.range(space, ..)?) {
            let (key, value) = entry?;
            dump.entry(&key, &value)?;
        }
        dump.end()?;
    }
    dump.finish()?;
    Ok(Exit::Done)
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
