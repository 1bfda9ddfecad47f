//! Estimates how many keys lie in a range, from the indexes of tables and the upper levels of
//! memtables.

use super::view::View;
use crate::Result;
use crate::lsm::levels::table_file::TableFile;
use crate::lsm::tombstones::{Pieces, Tombstone};

/// About how many keys there are from the full key `from` on and before `to`.
///
/// # Errors
/// If a table cannot be read.
pub(crate) fn keys(view: &View, from: &[u8], to: &[u8]) -> Result<u64> {
    if from >= to {
        return Ok(0);
    }
    let current = &view.current;
    let (mut sum, mut deleted) = (0.0, Vec::new());
    for buffer in current.buffers() {
        sum += buffer.estimate(from, to) as f64;
        for pieces in buffer.pieces().iter() {
            deleted.extend(pieces.within(from, Some(to), newest));
        }
    }
    let inside = |table: &&TableFile| {
        let bounds = &table.meta.bounds;
        bounds.first.as_slice() < to && !bounds.is_before(from)
    };
    let tables = view.version().tables().map(|(_, table)| &**table);
    let tables: Vec<&TableFile> = tables.filter(inside).collect();
    for table in tables.iter().filter(|table| table.meta.ranges > 0) {
        deleted.extend(table.open()?.pieces().within(from, Some(to), newest));
    }
    for table in tables {
        sum += keys_of(table, from, to, &deleted)?;
    }
    Ok(sum.max(0.0).round() as u64)
}

/// The newest one of tombstones over the same keys.
fn newest(seqs: &[u64]) -> Vec<u64> {
    seqs.iter().take(1).copied().collect()
}

/// What a table adds: its entries in the range less those that newer ranges delete; a tombstone
/// takes itself and the key that it deletes.
fn keys_of(table: &TableFile, from: &[u8], to: &[u8], deleted: &[Tombstone]) -> Result<f64> {
    let meta = &table.meta;
    let open = table.open()?;
    let between = |from: &[u8], to: &[u8]| -> Result<f64> {
        let is_all = from <= meta.bounds.first.as_slice() && meta.bounds.is_before(to);
        Ok(if is_all { meta.entries } else { open.estimate(from, to)? } as f64)
    };
    let mut entries = between(from, to)?;
    let newer: Vec<Tombstone> = deleted.iter().filter(|t| t.seq > meta.seqs.1).cloned().collect();
    for piece in Pieces::newest(&newer).within(from, Some(to), newest) {
        if meta.bounds.first < piece.end && !meta.bounds.is_before(&piece.start) {
            entries -= between(&piece.start, &piece.end)?;
        }
    }
    let gone = (2 * meta.tombstones + meta.shadowed) as f64 / (meta.entries as f64).max(1.0);
    Ok(entries * (1.0 - gone))
}

#[cfg(test)]
mod tests {
    use crate::Durability;
    use crate::lsm::{Db, Keyspace, Options, Readable};

    fn store(folder: &tempfile::TempDir) -> (Db, Keyspace) {
        let options = Options::new().create(true).durability(Durability::None);
        let db = options.table_bytes(64 << 10).open(folder.path().join("db")).unwrap();
        let space = db.keyspace("space", Default::default()).unwrap();
        (db, space)
    }

    fn key(n: u64) -> Vec<u8> {
        format!("{n:06}").into_bytes()
    }

    /// The estimate is within this percentage of the truth.
    fn is_about(db: &Db, space: &Keyspace, (from, to): (u64, u64), truth: u64, percent: u64) {
        let estimate = db.estimate_count(space, &key(from)..&key(to)).unwrap();
        let slack = truth * percent / 100;
        assert!(
            estimate >= truth - slack && estimate <= truth + slack,
            "{estimate} for {truth} from {from} to {to}"
        );
    }

    #[test]
    fn estimates_are_near_the_truth_in_memory_and_in_tables() {
        let folder = tempfile::tempdir().unwrap();
        let (db, space) = store(&folder);
        let other = db.keyspace("other", Default::default()).unwrap();
        for n in 0..20_000 {
            db.put(&space, &key(n * 7919 % 20_000), &[7; 50]).unwrap();
            db.put(&other, &key(n), b"").unwrap();
        }
        let ranges = [(0, 20_000), (5_000, 15_000), (19_000, 20_000)];
        for range in ranges {
            is_about(&db, &space, range, range.1 - range.0, 40);
        }
        is_about(&db, &space, (7, 27), 20, 20);
        db.compact().unwrap();
        for range in ranges {
            is_about(&db, &space, range, range.1 - range.0, 5);
        }
        assert_eq!(db.estimate_count(&space, b"z"..).unwrap(), 0);
        assert_eq!(db.estimate_count(&space, b"5"..b"5").unwrap(), 0);
        is_about(&db, &space, (0, 999_999), 20_000, 2);
    }

    #[test]
    fn what_was_deleted_is_not_counted() {
        let folder = tempfile::tempdir().unwrap();
        let (db, space) = store(&folder);
        for n in 0..10_000 {
            db.put(&space, &key(n), &[7; 50]).unwrap();
        }
        db.compact().unwrap();
        db.delete_range(&space, &key(2_000)..&key(8_000)).unwrap();
        is_about(&db, &space, (0, 10_000), 4_000, 5);
        is_about(&db, &space, (3_000, 7_000), 0, 0);
        for n in 8_000..9_000 {
            db.delete(&space, &key(n)).unwrap();
        }
        db.flush().unwrap();
        is_about(&db, &space, (0, 10_000), 3_000, 10);
    }
}
