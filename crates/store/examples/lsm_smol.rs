//! The log-structured engine under smol: a transaction that is begun anew while it conflicts, in
//! many tasks of one executor.

use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::Error;
use hedgerow::lsm::{Db, Keyspace, Options, Readable};

const TASKS: u64 = 50;

/// Adds one to a counter, however many others do.
async fn count(db: &Db, counters: &Keyspace) -> hedgerow::Result<()> {
    loop {
        let mut txn = db.transaction();
        let before = txn.get(counters, b"visits")?.and_then(|bytes| bytes.try_into().ok());
        let now = before.map_or(0, u64::from_le_bytes) + 1;
        txn.put(counters, b"visits", &now.to_le_bytes())?;
        match txn.commit_async(Durability::Eventual).await {
            Err(Error::Conflict) => smol::future::yield_now().await,
            other => return other,
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let db = Arc::new(Options::new().create(true).open(folder.path().join("db"))?);
    let counters = db.keyspace("counters", Default::default())?;

    let executor = smol::LocalExecutor::new();
    smol::block_on(executor.run(async {
        let tasks: Vec<_> = (0..TASKS).map(|_| executor.spawn(count(&db, &counters))).collect();
        for task in tasks {
            task.await?;
        }
        Ok::<_, hedgerow::Error>(())
    }))?;
    let visits = db.get(&counters, b"visits")?;
    assert_eq!(visits.as_deref(), Some(&TASKS.to_le_bytes()[..]));
    println!("{TASKS} visits counted");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
