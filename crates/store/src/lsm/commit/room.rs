//! What is left free on the disk. A merge writes what it leaves before it removes what it read, and
//! a deletion is written to the log. So whoever puts something is refused a little before the disk
//! is full, and what is deleted then still is: a full disk can be left by deleting and merging.
//!
//! It is asked how much is free, and nothing is set aside: what others write takes that, too.

use std::sync::Arc;

use super::logs::Writer;
use super::queue::{Order, Refusal, TooLittle, Waiter, Word};
use crate::lsm::engine::Inner;
use crate::lsm::log::segment::{OpKind, Ops};

impl Order {
    /// Whether it puts something.
    pub(super) fn puts(&self) -> bool {
        let is_put = |kind| matches!(kind, OpKind::Put | OpKind::PutSeparated);
        Ops::new(&self.batch.body).any(|op| is_put(op.kind))
    }
}

impl Inner {
    /// Why this many bytes cannot be put, if there is too little room. That is looked at now and
    /// then, and at each commit while it is so.
    fn too_little(&self, writer: &Writer, bytes: u64) -> Option<TooLittle> {
        let background = &self.background;
        let is_due = writer.unlooked.saturating_add(bytes) >= self.options.look_bytes();
        if !is_due && !background.is_short() {
            return None;
        }
        let kept = background.standing().kept_free(&self.options);
        let free = self.directory.system.free_bytes(&self.directory.path);
        let is_short = free.is_some_and(|free| free < kept.saturating_add(bytes));
        background.set_short(is_short);
        is_short.then(|| TooLittle { log: writer.log.path().to_path_buf(), kept })
    }

    /// Whether a batch may not be committed for want of room.
    pub(super) fn refuse_put(&self, writer: &Writer, order: &Order) -> Result<(), Refusal> {
        let too_little = self.too_little(writer, order.batch.body.len() as u64);
        let refused = too_little.filter(|_| order.puts());
        refused.map_or(Ok(()), |too_little| Err(Refusal::Full(too_little)))
    }

    /// Takes those out of a group that may not be committed for want of room, and tells them.
    pub(super) fn refuse_puts(&self, writer: &Writer, group: &mut Vec<Arc<Waiter>>) {
        let bytes = group.iter().map(|waiter| waiter.order.batch.body.len() as u64).sum();
        let Some(too_little) = self.too_little(writer, bytes) else { return };
        group.retain(|waiter| {
            let is_refused = waiter.order.puts();
            if is_refused {
                waiter.tell(Word::Outcome(Err(Refusal::Full(too_little.clone()))));
            }
            !is_refused
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Durability;
    use crate::lsm::{Db, KeyspaceOptions, Options, Readable};
    use crate::os::sim::{Config, SimSystem};

    /// Hunts for a full disk on which nothing can be deleted, and no store opened.
    #[test]
    fn a_full_disk_is_left_by_deleting() {
        for (durability, separation_threshold) in [
            (Durability::Durable, 100),
            (Durability::Durable, u32::MAX),
            (Durability::Eventual, 100),
            (Durability::Eventual, u32::MAX),
        ] {
            let capacity = Some(2 << 20);
            let disk =
                SimSystem::new(1, Config { reserve: 4 << 20, capacity, ..Config::default() });
            let options = Options::new().create(true).durability(durability);
            let options = options.memtable_bytes(8 << 10).table_bytes(8 << 10);
            let options = options.segment_bytes(16 << 10).system(Arc::new(disk.clone()));
            let open = || -> Db { options.open("/db").unwrap() };
            let space = KeyspaceOptions { separation_threshold, ..Default::default() };
            for _ in 0..3 {
                let db = open();
                let space = db.keyspace("space", space).unwrap();
                let put = |n: u32| db.put(&space, &n.to_be_bytes(), &[7; 200]);
                let (count, error) = (0..).find_map(|n| Some((n, put(n).err()?))).unwrap();
                assert!(error.to_string().contains("nearly full"), "{error}");
                assert!(count > 1000, "{count} entries");
                assert_eq!(db.range(&space, ..).unwrap().count(), count as usize);
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
}
