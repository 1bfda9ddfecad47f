//! What is left free on the disk. A merge writes what it leaves before it removes what it read, and
//! a deletion is written to the log. So whoever puts something is refused a little before the disk
//! is full, and what is deleted then still is: a full disk can be left by deleting and merging.
//!
//! It is asked how much is free, and nothing is set aside: what others write takes that, too.

use super::logs::Writer;
use super::queue::TooLittle;
use crate::lsm::engine::Inner;
use crate::lsm::levels::pace::KeptFree;
use crate::lsm::read::view::Current;

/// A buffer with less than this part of what deletions leave free does not go to a table early.
const EARLY_PART: u64 = 4;

/// What the disk has free, and what is to be left of it.
struct Room {
    free: u64,
    kept: KeptFree,
    /// Of what is in memory, what goes to tables before the log gives room back.
    unflushed: u64,
}

impl Inner {
    /// How much room there is; `None` if the system does not say.
    fn room(&self, writer: &Writer) -> Option<Room> {
        let free = self.directory.system.free_bytes(&self.directory.path)?;
        let log_bytes = writer.log.end() + self.logs.unsealed_bytes();
        let kept = self.background.standing().kept_free(log_bytes, &self.options);
        let bytes = |current: &Current| current.buffers().map(|b| b.bytes() as u64).sum();
        let unflushed = self.with_current(bytes);
        Some(Room { free, kept, unflushed })
    }

    /// Whether the disk has room for so many bytes, and as many more, that are only reserved.
    pub(super) fn has_plenty(&self, writer: &Writer, bytes: u64) -> bool {
        self.room(writer).is_none_or(|Room { free, kept, unflushed }| {
            free >= kept.by_puts + unflushed + 2 * bytes
        })
    }

    /// How many bytes a merge may write before it removes anything.
    pub(crate) fn room_for_merges(&self) -> u64 {
        let free = self.directory.system.free_bytes(&self.directory.path);
        free.map_or(u64::MAX, |free| free.saturating_sub(self.kept_by_merges()))
    }

    /// How many bytes merging and collecting leave free on the disk.
    pub(crate) fn kept_by_merges(&self) -> u64 {
        self.background.standing().kept_free(0, &self.options).by_merges
    }

    /// Whether the buffer should go to a table although there is room in it: for a larger one there
    /// may be none on the disk, and only then does its part of the log give back what it takes.
    pub(crate) fn should_flush_early(&self, writer: &Writer) -> bool {
        self.room(writer).is_some_and(|Room { free, kept, unflushed }| {
            let bytes = writer.active.bytes() as u64;
            bytes > kept.by_deletes / EARLY_PART && free < kept.by_puts + unflushed + bytes
        })
    }

    /// Why this many bytes cannot be put, if there is too little room. That is looked at now and
    /// then, and at each commit while it is so.
    pub(super) fn too_little(&self, writer: &Writer, bytes: u64) -> Option<TooLittle> {
        let background = &self.background;
        let is_due = writer.unlooked.saturating_add(bytes) >= self.options.look_bytes();
        if !is_due && !background.is_short() {
            return None;
        }
        let room = self.room(writer);
        let short = room.filter(|room| room.free < room.kept.by_puts + room.unflushed + bytes);
        background.set_short(short.is_some());
        let Room { free, kept, unflushed } = short?;
        let is_for_all = free < kept.by_deletes + bytes;
        let kept = if is_for_all { kept.by_deletes } else { kept.by_puts + unflushed };
        Some(TooLittle { log: writer.log.path().to_path_buf(), kept, is_for_all })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::Durability;
    use crate::lsm::{Db, Keyspace, KeyspaceOptions, Options, Readable};
    use crate::os::sim::{Config, SimSystem};

    /// What to open on a small disk, of several kinds, and the options of a keyspace there.
    fn small_disks() -> impl Iterator<Item = (Options, KeyspaceOptions)> {
        let kinds = [
            (Durability::Durable, 100),
            (Durability::Durable, u32::MAX),
            (Durability::Eventual, 100),
            (Durability::Eventual, u32::MAX),
        ];
        kinds.into_iter().map(|(durability, separation_threshold)| {
            let capacity = Some(2 << 20);
            let disk =
                SimSystem::new(1, Config { reserve: 4 << 20, capacity, ..Config::default() });
            let options = Options::new().create(true).durability(durability);
            let options = options.memtable_bytes(8 << 10).table_bytes(8 << 10);
            let options = options.segment_bytes(16 << 10).system(Arc::new(disk));
            (options, KeyspaceOptions { separation_threshold, ..Default::default() })
        })
    }

    /// Puts entries until that is refused; how many there are then.
    fn fill(db: &Db, space: &Keyspace) -> u32 {
        let put = |n: u32| db.put(space, &n.to_be_bytes(), &[7; 200]);
        let (count, error) = (0..).find_map(|n| Some((n, put(n).err()?))).unwrap();
        assert!(error.to_string().contains("nearly full"), "{error}");
        assert!(count > 1000, "{count} entries");
        assert_eq!(db.range(space, ..).unwrap().count(), count as usize);
        count
    }

    /// Hunts for a full disk on which nothing can be deleted, and no store opened.
    #[test]
    fn a_full_disk_is_left_by_deleting() {
        for (options, space) in small_disks() {
            let open = || -> Db { options.open("/db").unwrap() };
            for _ in 0..3 {
                let db = open();
                let space = db.keyspace("space", space).unwrap();
                fill(&db, &space);
                drop((db, space));
                let db = open();
                let space = db.find_keyspace("space").unwrap().unwrap();
                (0..10_u32).for_each(|n| db.delete(&space, &n.to_be_bytes()).unwrap());
                db.delete_range(&space, ..).unwrap();
                db.compact().unwrap();
                assert_eq!(db.range(&space, ..).unwrap().count(), 0);
            }
        }
    }

    /// Hunts for a full disk on which what is deleted key by key takes the room that merging it
    /// needs.
    #[test]
    fn a_full_disk_is_left_by_deleting_key_by_key() {
        for (options, space) in small_disks() {
            let db: Db = options.open("/db").unwrap();
            let space = db.keyspace("space", space).unwrap();
            for round in 0..3 {
                let count = fill(&db, &space);
                let mut compactions = 0;
                // Those that are left lie in all tables.
                for n in (0..count).filter(|n| n % 4 > 0) {
                    while let Err(error) = db.delete(&space, &n.to_be_bytes()) {
                        assert!(error.to_string().contains("nearly full"), "{error}");
                        compactions += 1;
                        assert!(compactions < 20, "{compactions}, round {round}");
                        db.compact().unwrap();
                    }
                }
                db.compact().unwrap();
                assert_eq!(db.range(&space, ..).unwrap().count(), count.div_ceil(4) as usize);
                db.put(&space, b"there is room", b"").unwrap();
                db.delete_range(&space, ..).unwrap();
            }
        }
    }
}
