//! A long reader beside a writer: the reader's answers never change, the writer never waits, and
//! the reader can be seen from outside.

use std::thread;

use hedgerow::Result;
use hedgerow::tree::{Snapshot, Store, TypedTable};

const ACCOUNTS: u32 = 100;
const START: i64 = 1_000;

fn sum(txn: &impl Snapshot) -> Result<i64> {
    let mut sum = 0;
    for entry in TypedTable::<u32, i64>::open(txn, "accounts")?.iter(txn)? {
        sum += entry?.1;
    }
    Ok(sum)
}

/// Moves money to and fro, one durable commit a move.
fn write(store: &Store, moves: u32) -> Result<()> {
    for i in 0..moves {
        let mut txn = store.begin_write()?;
        let accounts = TypedTable::<u32, i64>::create(&mut txn, "accounts")?;
        let (from, to) = (i % ACCOUNTS, (i * 7 + 1) % ACCOUNTS);
        let taken = accounts.get(&txn, from)?.unwrap_or(0) - 10;
        accounts.put(&mut txn, from, taken)?;
        let given = accounts.get(&txn, to)?.unwrap_or(0) + 10;
        accounts.put(&mut txn, to, given)?;
        txn.commit()?;
    }
    Ok(())
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path().join("bank.hedgerow"))?;
    let mut txn = store.begin_write()?;
    let accounts = TypedTable::<u32, i64>::create(&mut txn, "accounts")?;
    for account in 0..ACCOUNTS {
        accounts.append(&mut txn, account, START)?;
    }
    txn.commit()?;

    let old = store.begin_read()?;
    let writer = thread::spawn({
        let store = store.clone();
        move || write(&store, 200)
    });

    // Every new snapshot is one whole commit: money is moved, never made.
    let total = i64::from(ACCOUNTS) * START;
    while !writer.is_finished() {
        assert_eq!(sum(&store.begin_read()?)?, total);
    }
    writer.join().map_err(|_| "the writer panicked")??;

    // The old snapshot still reads as on its first day, and shows up as what holds old pages.
    let accounts = TypedTable::<u32, i64>::open(&old, "accounts")?;
    assert_eq!(accounts.get(&old, 0)?, Some(START));
    let readers = store.readers()?;
    assert_eq!(readers.len(), 1);
    for reader in &readers {
        println!("process {} reads commit {} for {:?}", reader.process, reader.commit, reader.age);
        assert_eq!(reader.commit, old.id());
    }

    let new = store.begin_read()?;
    assert!(new.id() > old.id());
    assert_eq!(sum(&new)?, sum(&old)?);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
