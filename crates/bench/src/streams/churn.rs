//! How long the file becomes while a stream is read beside a writer that churns.

use std::path::Path;
use std::time::Duration;

use hedgerow::Durability;
use hedgerow::stream::{Pairs as Stream, Renewal, Scan};
use hedgerow::tree::{Snapshot as _, Store};

use super::{Goal, Pairs, Row, TABLE, load_tree};
use crate::data::Generator;
use crate::engine::Result;

/// The writer makes this many commits; together they replace each pair about once.
const COMMITS: u64 = 200;
/// A stream that nobody asks for this long is parked.
const PARKED: Duration = Duration::from_millis(20);

/// How a stream is read while the writer works.
#[derive(Clone, Copy)]
enum Reader {
    /// There is none.
    Nobody,
    /// It is read to its end, and exchanges its snapshot every 1,000 pairs.
    Renewing,
    /// It was begun and is asked for nothing any more, but may be parked.
    Abandoned,
    /// The same, but holds its snapshot.
    Holding,
}

/// The file's length beside that of a churn without a reader, in MiB.
pub(super) fn rows(folder: &Path, pairs: Pairs) -> Result<Vec<Row>> {
    let base = churn(folder, pairs, Reader::Nobody)?;
    let cases = [
        ("file after a churn, stream renewed", Reader::Renewing, Goal::AtMost(1.2)),
        ("file after a churn, stream parked", Reader::Abandoned, Goal::AtMost(1.2)),
        ("file after a churn, snapshot held", Reader::Holding, Goal::None),
    ];
    let row = |(name, reader, goal): (&str, _, _)| -> Result<Row> {
        let found = churn(folder, pairs, reader)?;
        Ok(Row { name: name.into(), unit: "MiB", base, found, goal })
    };
    cases.into_iter().map(row).collect()
}

fn churn(folder: &Path, pairs: Pairs, reader: Reader) -> Result<f64> {
    let path = folder.join("churn");
    load_tree(&path, pairs)?;
    let store = Store::open(&path)?;
    let scan = match reader {
        Reader::Renewing => Scan::new(TABLE.name).renewal(Renewal::never().pairs(1_000)),
        Reader::Abandoned => Scan::new(TABLE.name).park_after(PARKED),
        Reader::Nobody | Reader::Holding => Scan::new(TABLE.name),
    };
    let mut stream = scan.pairs(&store)?;
    let mut bytes = 0;
    match reader {
        Reader::Nobody => stream.park()?,
        Reader::Renewing => {}
        Reader::Abandoned => {
            bytes += take(&mut stream, 10)?;
            std::thread::sleep(4 * PARKED);
            if !stream.is_parked() {
                return Err("the stream is not parked".into());
            }
        }
        Reader::Holding => bytes += take(&mut stream, 10)?,
    }
    let (mut key, mut value, mut random) = (Vec::new(), Vec::new(), Generator::new(5));
    for commit in 0..COMMITS {
        let mut txn = store.begin_write()?;
        let table = txn.table(TABLE.name)?;
        for _ in 0..pairs.count / COMMITS {
            let number = random.below(pairs.count);
            pairs.key(number, &mut key);
            pairs.value(number ^ commit, &mut value);
            txn.put(table, &key, &value)?;
        }
        txn.commit_with(Durability::Eventual)?;
        if matches!(reader, Reader::Renewing) {
            bytes += take(&mut stream, pairs.count / COMMITS)?;
        }
    }
    bytes += take(&mut stream, u64::MAX)?;
    if bytes != pairs.bytes() {
        return Err(format!("the stream gave {bytes} bytes and not {}", pairs.bytes()).into());
    }
    drop((stream, store));
    let len = std::fs::metadata(&path)?.len();
    std::fs::remove_file(&path)?;
    Ok(len as f64 / f64::from(1 << 20))
}

/// Takes some pairs; the bytes of their keys and values.
fn take(stream: &mut Stream<Store>, pairs: u64) -> Result<u64> {
    let mut bytes = 0;
    for _ in 0..pairs {
        match stream.see(|key, value| (key.len() + value.len()) as u64)? {
            Some(pair) => bytes += pair,
            None => break,
        }
    }
    Ok(bytes)
}
