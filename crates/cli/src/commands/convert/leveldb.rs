//! From and to databases of LevelDB.
//!
//! The new database is made beside its place, in a folder that ends in `.part`, and takes its place
//! when every entry of both has been compared. `from_leveldb` goes on with such a folder where it
//! was stopped or killed: entries are put in order, so that the last key is how far it came.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use crc_fast::{CrcAlgorithm, Digest};
use hedgerow::lsm::{Options, Readable};
use hedgerow::tree::{ReadTxn, Snapshot, Store};
use serde_json::json;

use super::super::lsm::{self, Filler};
use super::Args;
use crate::codec::shown;
use crate::draft::check_vacant;
use crate::exit::{Exit, Failure};
use crate::json;
use crate::leveldb::face;
use crate::leveldb::source::{Database, Lost};
use crate::leveldb::target::Target;
use crate::loader::{self, Fill, Loader};
use crate::open::{self, Engine, MAIN, Name, StoreArg};
use crate::output::Output;
use crate::portable::TableHeader;
use crate::progress::{Progress, Unit};
use crate::signals;
use crate::table_flags::TableFlags;

/// Progress is shown, and Ctrl-C checked for, once in this many entries.
const STRIDE: u64 = 1 << 12;
/// In a folder that is being made: what it is made of.
const SOURCE: &str = "SOURCE";

/// Entries one after the other.
type Entries<'s> = Box<dyn Iterator<Item = Result<(Vec<u8>, Vec<u8>), Failure>> + 's>;

/// Makes a database of our library of one of LevelDB.
pub(super) fn from_leveldb(from: &Path, args: &Args, json: bool) -> Result<Exit, Failure> {
    let to = &args.store;
    check_vacant(to)?;
    let mut source = Database::open(from, args.salvage)?;
    let engine = args.engine.unwrap_or(Engine::Tree);
    let about = format!("{} {engine:?} {}\n", full(from).display(), source.identity());
    let part = Part::begin(to, &about)?;
    let place = face::place_for(engine, part.path());
    fill(&mut source, engine, &place).map_err(|failure| {
        failure.and("what came over so far is kept: the same command goes on from there")
    })?;
    let store = Reading::open(engine, &place, &face::table())?;
    let compared = compare(&mut source, store.entries()?);
    drop(store);
    // What differs is not gone on with.
    let compared = compared.inspect_err(|_| part.remove())?;
    face::publish(part.path(), engine)?;
    part.publish(to)?;
    report(compared, source.lost(), json)
}

/// Makes a database of LevelDB of a table of a store.
pub(super) fn to_leveldb(from: &Path, args: &Args, json: bool) -> Result<Exit, Failure> {
    check_vacant(&args.store)?;
    let table = args.table.clone().unwrap_or_else(|| match face::is_face(from) {
        true => face::table(),
        false => Name(MAIN.into()),
    });
    let store = Reading::open(Engine::of(from), &face::store_at(from), &table)?;
    let part = Part::begin(&args.store, "")?;
    let progress = Progress::new("converting", Unit::Items, store.count()?);
    let mut target = Target::new(part.path());
    for (put, entry) in (1..).zip(store.entries()?) {
        let (key, value) = entry?;
        target.put(&key, &value)?;
        step(&progress, put, put)?;
    }
    target.finish()?;
    drop(progress);
    let mut written = Database::open(part.path(), false)?;
    let compared = compare(&mut written, store.entries()?)?;
    drop(written);
    part.publish(&args.store)?;
    report(compared, &[], json)
}

/// A path in full, as far as that can be said.
fn full(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

/// Now and then says how far it is.
fn step(progress: &Progress, number: u64, at: u64) -> Result<(), Failure> {
    if number.is_multiple_of(STRIDE) {
        progress.at(at);
        signals::check()?;
    }
    Ok(())
}

/// A folder in which a database is being made.
struct Part(PathBuf);

impl Part {
    /// Takes the folder up where it was left, if it is made of the same and that is said; else it
    /// is made anew.
    fn begin(to: &Path, about: &str) -> Result<Self, Failure> {
        let mut path = to.as_os_str().to_owned();
        path.push(".part");
        let part = Self(path.into());
        let (path, note) = (part.path(), part.path().join(SOURCE));
        let refused = |error: io::Error| Failure::io("make", path.display(), &error);
        match fs::read_to_string(&note) {
            Ok(there) if there == about && !about.is_empty() => return Ok(part),
            Ok(_) => part.remove(),
            Err(_) if path.exists() => check_vacant(path)?,
            Err(_) => {}
        }
        fs::create_dir_all(path).and_then(|()| fs::write(&note, about)).map_err(refused)?;
        Ok(part)
    }

    fn path(&self) -> &Path {
        &self.0
    }

    /// What cannot be removed is left: there is another failure to tell of.
    fn remove(&self) {
        let _ = fs::remove_dir_all(&self.0);
    }

    /// Gives the folder its name.
    fn publish(self, to: &Path) -> Result<(), Failure> {
        let renamed = || -> io::Result<()> {
            fs::remove_file(self.0.join(SOURCE))?;
            File::open(&self.0)?.sync_all()?;
            fs::rename(&self.0, to)?;
            let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty());
            File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
        };
        renamed().map_err(|error| Failure::io("give a name to", to.display(), &error))
    }
}

/// Puts the entries that are not there yet into a store.
fn fill(source: &mut Database, engine: Engine, place: &Path) -> Result<(), Failure> {
    let total = source.bytes();
    let (mut filler, last): (Box<dyn Fill>, _) = match engine {
        Engine::Tree => {
            let store = match place.exists() {
                true => StoreArg { store: place.to_path_buf() }.write()?,
                false => open::create(Store::builder().file_mode(0o644), place)?,
            };
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
            let db = Options::new().create(true).open(place)?;
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
        step(&progress, number, read)
    });
    // What was put before a failure need not be put again.
    filler.finish()?;
    put
}

/// A store that is read: one state of it.
enum Reading {
    Tree(ReadTxn, hedgerow::tree::Table),
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
                Self::Tree(txn, table)
            }
            Engine::Lsm => {
                let db = lsm::read_at(path)?;
                let missing = || hedgerow::Error::NoTable { name: table.0.clone() };
                let space = db.find_keyspace(&table.0)?.ok_or_else(missing)?;
                Self::Lsm(db, space)
            }
        })
    }

    /// How many entries there are; not known at once of a store of the engine lsm.
    fn count(&self) -> Result<Option<u64>, Failure> {
        Ok(match self {
            Self::Tree(txn, table) => Some(txn.count(*table)?.keys),
            Self::Lsm(..) => None,
        })
    }

    fn entries(&self) -> Result<Entries<'_>, Failure> {
        Ok(match self {
            Self::Tree(txn, table) => Box::new(txn.range(*table, ..)?.map(|entry| {
                let entry = entry?;
                Ok((entry.key.to_vec(), entry.value.to_vec()))
            })),
            Self::Lsm(db, space) => Box::new(db.range(space, ..)?.map(|entry| Ok(entry?))),
        })
    }
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

/// Reads both sides, entry by entry.
///
/// # Errors
/// If one side has an entry that the other one has not.
fn compare(leveldb: &mut Database, mut ours: Entries<'_>) -> Result<Compared, Failure> {
    let progress = Progress::new("comparing", Unit::Bytes, Some(leveldb.bytes()));
    let sum = || Digest::new(CrcAlgorithm::Crc64Nvme);
    let (mut sums, mut entries) = ([sum(), sum()], 0);
    let differ = |key: &[u8]| {
        let key = shown(key);
        Failure::other(format!("the two databases differ at the key \"{key}\"; nothing was made"))
    };
    leveldb.for_each(None, &mut |key, value, read| {
        let (our_key, our_value) = ours.next().unwrap_or_else(|| Err(differ(key)))?;
        if (key, value) != (&our_key, &our_value) {
            return Err(differ(key));
        }
        add(&mut sums[0], key, value);
        add(&mut sums[1], &our_key, &our_value);
        entries += 1;
        step(&progress, entries, read)
    })?;
    if let Some(more) = ours.next() {
        return Err(differ(&more?.0));
    }
    match sums.map(|sum| sum.finalize()) {
        [hash, ours] if hash == ours => Ok(Compared { entries, hash }),
        _ => Err(Failure::other("the sums over both databases differ; nothing was made")),
    }
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
    Ok(if lost.is_empty() { Exit::Done } else { Exit::Failed })
}
