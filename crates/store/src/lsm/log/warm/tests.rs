//! What is kept of files; the test files record what is let go of.

use std::io;

use super::*;
use crate::lsm::files::cached::Cached as Block;
use crate::os::{Access, Map};

/// Files have this many bytes.
const LEN: u64 = 1 << 20;

/// Notes the ranges that are let go of.
#[derive(Default)]
struct Noted(Mutex<Vec<Range<u64>>>);

impl Noted {
    fn take(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    fn bytes(&self) -> u64 {
        self.take().iter().map(|range| range.end - range.start).sum()
    }
}

impl DataFile for Noted {
    fn release(&self, offset: u64, len: u64) {
        self.0.lock().unwrap().push(offset..offset + len);
    }

    fn len(&self) -> io::Result<u64> {
        Ok(LEN)
    }

    fn read_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        unreachable!("nothing is read")
    }

    fn write_at(&self, _: &[io::IoSlice<'_>], _: u64) -> io::Result<()> {
        unreachable!("nothing is written")
    }

    fn start_writeback(&self, _: u64, _: u64) {
        unreachable!("nothing is written")
    }

    fn sync(&self) -> io::Result<()> {
        unreachable!("nothing is flushed")
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        unreachable!("nothing is cut")
    }

    fn map(&self, _: u64, _: Access) -> io::Result<Option<Map>> {
        Ok(None)
    }

    fn uptime_evidence(&self) -> Option<[u8; 24]> {
        None
    }
}

fn file() -> (Arc<Noted>, Arc<dyn DataFile>) {
    let noted = Arc::new(Noted::default());
    let file: Arc<dyn DataFile> = Arc::clone(&noted) as _;
    (noted, file)
}

/// With room, nothing is let go of before tables hold it; then all of it is, once, in pieces that
/// meet, and what comes late is at once.
#[test]
fn segments_are_kept_until_tables_hold_them() {
    let (warm, blocks) = (Warm::new(false), Blocks::new(8 << 20));
    let files = [file(), file()];
    for (segment, (_, file)) in (1..).zip(&files) {
        warm.keep(&blocks, segment, file, 64..256 << 10);
        warm.keep(&blocks, segment, file, 256 << 10..320 << 10);
        warm.finish(&blocks, segment, file, 320 << 10..LEN - 5);
    }
    assert!(blocks.stats().lent >= 2 * LEN - 10);
    warm.let_go(&blocks, 2);
    let mut gone = files[0].0.take();
    gone.sort_by_key(|range| range.start);
    assert!(gone.windows(2).all(|two| two[0].end == two[1].start));
    assert!(gone[1..].iter().all(|range| range.start % (64 << 10) == 0));
    assert_eq!((gone[0].start, gone[gone.len() - 1].end), (0, LEN - 5));
    assert_eq!(files[1].0.take(), []);
    warm.keep(&blocks, 1, &files[0].1, 64..4096);
    assert_eq!(files[0].0.bytes(), 4096 - 64);
    warm.let_go(&blocks, 3);
    assert_eq!((files[1].0.bytes(), blocks.stats().lent), (LEN - 5, 0));
}

/// What finds no room is let go of at once, and once more when it is on the disk for certain.
#[test]
fn what_finds_no_room_is_let_go_of_twice() {
    let (warm, blocks, (noted, file)) = (Warm::new(false), Blocks::new(LEN / 2), file());
    warm.keep(&blocks, 1, &file, 0..LEN / 2);
    let kept = LEN / 2 - noted.bytes();
    assert!(kept > 0 && kept < LEN / 2 && blocks.stats().lent > kept);
    warm.keep(&blocks, 1, &file, LEN / 2..LEN);
    assert_eq!(noted.bytes(), LEN / 2);
    warm.finish(&blocks, 1, &file, LEN..LEN);
    assert_eq!(noted.bytes(), LEN - kept);
    warm.finish(&blocks, 1, &file, LEN..LEN);
    assert_eq!(noted.bytes(), 0);
    warm.let_go(&blocks, 2);
    assert_eq!(noted.bytes(), kept);
}

/// Blocks have the room that they need, and what is kept goes first.
#[test]
fn blocks_take_the_room_back() {
    let (warm, blocks, (noted, file)) = (Warm::new(false), Blocks::new(LEN * 3 / 2), file());
    warm.keep(&blocks, 1, &file, 0..LEN);
    assert_eq!(noted.bytes(), 0);
    let value: Arc<[u8]> = vec![0; 4096].into();
    for offset in 0..LEN / 4096 {
        let load = || Ok(Block::Value(Arc::clone(&value)));
        blocks.get_or_load(BlockKey { file: 1, offset }, load).ok().unwrap();
    }
    let stats = blocks.stats();
    assert!(stats.kept() > LEN && stats.kept() + stats.lent <= LEN * 3 / 2);
    assert!(noted.bytes() > LEN / 2 && stats.lent > 0);
    blocks.set_capacity(stats.kept());
    assert_eq!((blocks.stats().lent, blocks.stats().kept()), (0, stats.kept()));
}

/// Where the system's cache keeps what it wants to, nothing is lent and nothing let go of.
#[test]
fn what_the_system_keeps_is_left_to_it() {
    let (warm, blocks, (noted, file)) = (Warm::new(true), Blocks::new(8 << 20), file());
    warm.keep(&blocks, 1, &file, 0..LEN / 2);
    warm.finish(&blocks, 1, &file, LEN / 2..LEN);
    warm.let_go(&blocks, 2);
    warm.keep(&blocks, 1, &file, 0..LEN);
    assert_eq!((noted.bytes(), blocks.stats().lent), (0, 0));
}
