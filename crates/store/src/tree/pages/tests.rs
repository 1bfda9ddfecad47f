//! What the system is told of pages, and which of them may be read.

use super::*;
use crate::os::sim::{Config, SimSystem};
use crate::os::{Open, Paging, System as _};

/// What the system was told.
#[derive(Default)]
struct Told {
    random: AtomicBool,
    ahead: Mutex<Vec<(u64, u64)>>,
}

impl Paging for Told {
    fn expect_random(&self) {
        self.random.store(true, Ordering::Relaxed);
    }

    fn read_ahead(&self, offset: u64, len: u64) {
        self.ahead.lock().unwrap().push((offset >> 12, len >> 12));
    }
}

/// A file of 1,000 pages with a map that tells what it was told.
fn mapped() -> (ReadPages, Arc<Told>) {
    let disk = SimSystem::new(0, Config::default());
    let file = disk.open_data(std::path::Path::new("a"), Open::Create, 0o600).unwrap();
    let told = Arc::new(Told::default());
    let owner: Arc<dyn Paging> = told.clone();
    let map = Map { base: std::ptr::null(), reserved: u64::from(PAGE_NO_END) << 12, owner };
    let file = PageFile::new(file, Some(map), 4096, "a".into(), false, Arc::default());
    (ReadPages::new(Arc::new(file), 1000), told)
}

#[test]
fn a_file_beyond_memory_is_read_ahead_where_scans_say_so() {
    let (mut pages, told) = mapped();
    let children = [7, 8, 9, 5, 11, 12, 2000].map(PageRef);
    pages.read_ahead(&mut children.into_iter());
    assert!(!told.random.load(Ordering::Relaxed));
    assert_eq!(*told.ahead.lock().unwrap(), []);
    pages.renew(PAGE_NO_END);
    assert!(told.random.load(Ordering::Relaxed));
    pages.renew(1000);
    pages.read_ahead(&mut children.into_iter());
    assert_eq!(*told.ahead.lock().unwrap(), [(7, 3), (5, 1), (11, 2)]);
}

#[test]
fn pages_that_were_taken_and_not_written_are_not_read() {
    let disk = SimSystem::new(0, Config::default());
    let file = disk.open_data(std::path::Path::new("a"), Open::Create, 0o600).unwrap();
    file.set_len(10 << 12).unwrap();
    let file = PageFile::new(file, None, 4096, "a".into(), false, Arc::default());
    let mut pages = ReadPages::new(Arc::new(file), 8);
    pages.end = 20;
    assert!(pages.run(Run { start: 8, len: 2 }).is_ok());
    for run in [Run { start: 8, len: 3 }, Run { start: 19, len: 1 }] {
        assert!(matches!(pages.run(run), Err(Error::Corrupt { .. })), "{run:?}");
    }
}
