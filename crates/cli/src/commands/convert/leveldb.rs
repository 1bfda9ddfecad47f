//! From and to databases of LevelDB.
//!
//! The new database is made beside its place, and takes its place when every entry of both has
//! been compared. Stopped or killed, the same command goes on where it came to: entries come in
//! order, so that the last key of the new database says how far that is.

use std::ops::Bound;
use std::path::Path;

use crc_fast::{CrcAlgorithm, Digest};
use hedgerow::lsm::{Options, Readable};
use hedgerow::tree::{ReadTxn, Snapshot, Store};
use serde_json::json;

use super::super::lsm::{self, Filler};
use super::Args;
use super::part::{self, Part};
use crate::codec::shown;
use crate::draft::check_vacant;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::leveldb::source::{Database, Lost};
use crate::leveldb::target::Target;
use crate::leveldb::{face, is_database};
use crate::loader::{self, Fill, Loader};
use crate::open::{self, Engine, MAIN, Name, StoreArg};
use crate::output::Output;
use crate::portable::TableHeader;
use crate::progress::{Progress, Unit};
use crate::signals;
use crate::table_flags::TableFlags;
use crate::wait;

/// Entries one after the other.
type Entries<'s> = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), Failure>> + 's>;

/// Makes a database of our library of one of LevelDB.
pub(super) fn from_leveldb(from: &Path, args: &Args, json: bool) -> Result<Exit, Failure> {
    let to = &args.store;
    if face::is_face(from) {
        return Err(Failure::other(format!(
            "{} is a database of our library already, and none of LevelDB",
            from.display()
        )));
    }
    check_vacant(to)?;
    let mut source = Database::open(from, args.salvage)?;
    // As `libleveldb.so.1d` makes databases.
    let engine = args.engine.unwrap_or(Engine::Lsm);
    let about = format!(
        "{} of LevelDB, to the engine {engine:?}: {}",
        super::full(from).display(),
        source.identity()
    );
    let part = Part::begin(to, &about)?;
    let place = face::place_for(engine, part.path());
    let compared = fill(&mut source, engine, &place).and_then(|()| {
        let store = Reading::open(engine, &place, &face::table())?;
        compare(&mut source, store.entries(None)?)
    });
    let compared = accept(&part, compared)?;
    face::publish(part.path(), engine).map_err(|failure| part.kept(failure))?;
    part.publish(part.path(), to)?;
    report(compared, source.lost(), json)
}

/// Makes a database of LevelDB of a table of a store.
pub(super) fn to_leveldb(from: &Path, args: &Args, json: bool) -> Result<Exit, Failure> {
    if is_database(from) {
        return Err(Failure::other(format!("{} is a database of LevelDB already", from.display())));
    }
    check_vacant(&args.store)?;
    let table = args.table.clone().unwrap_or_else(|| match face::is_face(from) {
        true => face::table(),
        false => Name(MAIN.into()),
    });
    let store = Reading::open(Engine::of(from), &face::store_at(from), &table)?;
    let about = format!(
        "the table {} of {}, to LevelDB: {}",
        shown(&table.0),
        super::full(from).display(),
        store.identity()
    );
    let part = Part::begin(&args.store, &about)?;
    let compared = write_out(&store, &part).and_then(|()| {
        let mut written = Database::open(part.path(), false)?;
        compare(&mut written, store.entries(None)?)
    });
    let compared = accept(&part, compared)?;
    part.publish(part.path(), &args.store)?;
    report(compared, &[], json)
}

/// Writes the entries that are in no complete table yet.
fn write_out(store: &Reading, part: &Part) -> Result<(), Failure> {
    let mut target = Target::begin(part.path(), &part.list())?;
    let last = target.last().map(<[u8]>::to_vec);
    let progress = Progress::new("converting", Unit::Items, store.count(last.as_deref())?);
    for (put, entry) in (1..).zip(store.entries(last.as_deref())?) {
        let (key, value) = entry?;
        target.put(&key, &value)?;
        progress.entry(put, put)?;
    }
    target.finish()
}

/// What differs is not gone on with; after any other failure it is.
fn accept(part: &Part, compared: Result<Verdict, Failure>) -> Result<Compared, Failure> {
    match compared.map_err(|failure| part.kept(failure))? {
        Verdict::Same(compared) => Ok(compared),
        Verdict::Different(failure) => {
            part.remove();
            Err(failure)
        }
    }
}

/// Puts the entries that are not there yet into a store.
fn fill(source: &mut Database, engine: Engine, place: &Path) -> Result<(), Failure> {
    let total = source.bytes();
    let (mut filler, last): (Box<dyn Fill>, _) = match engine {
        Engine::Tree => {
            let store = open::write_or_create(Store::builder().file_mode(0o644), place)?;
            let txn = store.begin_read()?;
            let last = match txn.table(face::table().0) {
                Ok(table) => txn.cursor(table)?.last(&txn)?.map(|entry| entry.key.to_vec()),
                Err(hedgerow::Error::NoTable { .. }) => None,
                Err(error) => return Err(error.into()),
            };
            drop(txn);
            (Box::new(Loader::new(store, false)), last)
        }
        Engine::Lsm => {
            let db = wait::opening_left(place, || {
                Options::new().create(true).file_mode(0o644).open(place)
            })?;
            let space = db.keyspace(face::table().0, Default::default())?;
            let last = db.cursor(&space)?.last()?.map(|entry| entry.key.to_vec());
            (Box::new(Filler::new(db, false)), last)
        }
    };
    let progress = Progress::new("converting", Unit::Bytes, Some(total));
    filler.begin_table(face::table(), &loader::Target::AsItIs)?;
    let mut number = 0;
    let put = source.for_each(last.as_deref(), &mut |key, value, read| {
        filler.put(key, value)?;
        number += 1;
        progress.entry(number, read)
    });
    // What was put before a failure need not be put again.
    signals::calm();
    let finished = filler.finish();
    put.and(finished.map(drop))
}

/// A store that is read: one state of it.
enum Reading {
    Tree(Store, ReadTxn, hedgerow::tree::Table),
    Lsm(hedgerow::lsm::Reader, hedgerow::lsm::Keyspace),
}

impl Reading {
    fn open(engine: Engine, path: &Path, table: &Name) -> Result<Self, Failure> {
        Ok(match engine {
            Engine::Tree => {
                let store = StoreArg { store: path.to_path_buf() }.read()?;
                let txn = store.begin_read()?;
                let info = open::info(&txn, table)?;
                if !TableHeader::of(&info).is_plain(&TableFlags::default()) {
                    let table = shown(&table.0);
                    return Err(Failure::other(format!(
                        "LevelDB has one value a key, in bytewise order; the table {table} is of \
                         another kind"
                    )));
                }
                let table = txn.table(&table.0)?;
                Self::Tree(store, txn, table)
            }
            Engine::Lsm => {
                let db = lsm::read_at(path)?;
                let missing = || hedgerow::Error::NoTable { name: table.0.clone() };
                let space = db.find_keyspace(&table.0)?.ok_or_else(missing)?;
                Self::Lsm(db, space)
            }
        })
    }

    /// What tells this state of the store from others.
    fn identity(&self) -> String {
        match self {
            Self::Tree(store, txn, _) => part::state(Some(store.id()), txn.id()),
            // It may have no identity yet, and a reader gives it none.
            Self::Lsm(db, _) => part::state(db.id().ok(), db.newest_commit()),
        }
    }

    /// How many entries come after a key; not known at once of a store of the engine lsm.
    fn count(&self, after: Option<&[u8]>) -> Result<Option<u64>, Failure> {
        Ok(match self {
            Self::Tree(_, txn, table) => Some(txn.count_range(*table, keys(after))?.keys),
            Self::Lsm(..) => None,
        })
    }

    /// The entries that come after a key.
    fn entries(&self, after: Option<&[u8]>) -> Result<Entries<'_>, Failure> {
        Ok(match self {
            Self::Tree(_, txn, table) => Box::new(txn.range(*table, keys(after))?.map(|entry| {
                let entry = entry?;
                Ok((entry.key.to_vec(), entry.value.to_vec()))
            })),
            Self::Lsm(db, space) => Box::new(db.range(space, keys(after))?.map(|entry| Ok(entry?))),
        })
    }
}

/// The keys after one, or all.
fn keys(after: Option<&[u8]>) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (after.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// What two databases have in common: how many entries, and a sum over them in their order.
struct Compared {
    entries: u64,
    hash: u64,
}

/// Adds an entry to a sum: lengths and bytes, so that no other entries have the same.
fn add(sum: &mut Digest, key: &[u8], value: &[u8]) {
    for part in [key, value] {
        sum.update(&(part.len() as u64).to_le_bytes());
        sum.update(part);
    }
}

/// How a comparison ends.
enum Verdict {
    Same(Compared),
    /// With what is to be said of it.
    Different(Failure),
}

/// Reads both sides, entry by entry.
///
/// # Errors
/// Those of reading.
fn compare(leveldb: &mut Database, mut ours: Entries<'_>) -> Result<Verdict, Failure> {
    let progress = Progress::new("comparing", Unit::Bytes, Some(leveldb.bytes()));
    let sum = || Digest::new(CrcAlgorithm::Crc64Nvme);
    let (mut sums, mut entries, mut differs) = ([sum(), sum()], 0, false);
    let differ = |key: &[u8]| {
        let key = shown(key);
        Failure::other(format!("the two databases differ at the key \"{key}\"; nothing was made"))
    };
    let seen = leveldb.for_each(None, &mut |key, value, read| {
        let (our_key, our_value) = match ours.next().transpose()? {
            Some(entry) if (key, value) == (&entry.0, &entry.1) => entry,
            _ => {
                differs = true;
                return Err(differ(key));
            }
        };
        add(&mut sums[0], key, value);
        add(&mut sums[1], &our_key, &our_value);
        entries += 1;
        progress.entry(entries, read)
    });
    match seen {
        Err(failure) if differs => return Ok(Verdict::Different(failure)),
        seen => seen?,
    }
    if let Some(more) = ours.next().transpose()? {
        return Ok(Verdict::Different(differ(&more.0)));
    }
    Ok(match sums.map(|sum| sum.finalize()) {
        [hash, ours] if hash == ours => Verdict::Same(Compared { entries, hash }),
        _ => {
            let differ = "the sums over both databases differ; nothing was made";
            Verdict::Different(Failure::other(differ))
        }
    })
}

fn report(compared: Compared, lost: &[Lost], json: bool) -> Result<Exit, Failure> {
    let Compared { entries, hash } = compared;
    let hash = format!("{hash:016x}");
    let mut out = Output::stdout();
    let end = |key: &Option<Vec<u8>>| key.as_ref().map(|key| shown(key));
    if json {
        let lost: Vec<_> = lost
            .iter()
            .map(|lost| {
                let (after, until) = (end(&lost.after), end(&lost.until));
                let Lost { damage, .. } = lost;
                let file = damage.path.display().to_string();
                json!({ "file": file, "offset": damage.offset, "reason": damage.what,
                    "after": after, "until": until })
            })
            .collect();
        json::print(&mut out, &json!({ "entries": entries, "hash": hash, "lost": lost }))?;
    } else {
        writeln!(out, "{entries} entries on both sides, hash {hash}")?;
        for lost in lost {
            let between = match (end(&lost.after), end(&lost.until)) {
                (None, None) => "it is not known which keys".to_owned(),
                (after, until) => {
                    let [after, until] = [after, until].map(|key| {
                        key.map_or_else(|| "an end".to_owned(), |key| format!("\"{key}\""))
                    });
                    format!("keys between {after} and {until}")
                }
            };
            writeln!(out, "lost: {}: {between}", lost.damage)?;
        }
    }
    out.finish()?;
    Ok(if lost.is_empty() { Exit::Done } else { Exit::No })
}
