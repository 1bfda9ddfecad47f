//! The log-structured engine under tokio: many tasks commit and read at once, and none of them
//! holds a thread while it waits.

use std::sync::Arc;

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Db, Keyspace, Options, Readable};

const TASKS: u32 = 200;

/// One task: commits an order, durably, and reads it again.
async fn place_order(db: Arc<Db>, orders: Keyspace, number: u32) -> hedgerow::Result<()> {
    let mut batch = Batch::new();
    batch.put(&orders, &number.to_be_bytes(), b"hawthorn")?;
    db.write_async(batch, Durability::Durable).await?;
    let found = db.get_async(&orders, &number.to_be_bytes()).await?;
    assert_eq!(found.as_deref(), Some(&b"hawthorn"[..]));
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let db = Arc::new(Options::new().create(true).open(folder.path().join("db"))?);
    let orders = db.keyspace("orders", Default::default())?;

    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(async {
        let spawn = |n| tokio::spawn(place_order(Arc::clone(&db), orders.clone(), n));
        let tasks: Vec<_> = (0..TASKS).map(spawn).collect();
        for task in tasks {
            task.await??;
        }
        Ok::<(), Box<dyn std::error::Error>>(())
    })?;
    assert_eq!(db.range(&orders, ..)?.count(), TASKS as usize);
    println!("{TASKS} orders placed");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
