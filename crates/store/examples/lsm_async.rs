//! The log-structured engine's futures and callbacks without any runtime: an executor of twenty
//! lines polls many of them from one thread.

use std::pin::pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake};
use std::thread::{self, Thread};

use hedgerow::Durability;
use hedgerow::lsm::{Batch, Options};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls a future on this thread until it is ready.
fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(answer) => return answer,
            Poll::Pending => thread::park(),
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let db = Options::new().create(true).open(folder.path().join("db"))?;
    let trees = db.keyspace("trees", Default::default())?;

    // All commits are under way before the first one is waited for: they share flushes.
    let mut writes = Vec::new();
    for number in 0..100_u32 {
        let mut batch = Batch::new();
        batch.put(&trees, &number.to_be_bytes(), b"oak")?;
        writes.push(db.write_async(batch, Durability::Durable));
    }
    block_on(async {
        for write in writes {
            write.await?;
        }
        let keys = (0..3_u32).map(|number| number.to_be_bytes().to_vec()).collect();
        let found = db.multi_get_async(&trees, keys).await?;
        assert_eq!(found, vec![Some(b"oak".to_vec()); 3]);
        Ok::<_, hedgerow::Error>(())
    })?;

    // The same with a callback: it is called on a thread of the store.
    let (sender, answers) = mpsc::channel();
    db.get_then(&trees, &7_u32.to_be_bytes(), move |answer| drop(sender.send(answer)));
    assert_eq!(answers.recv()??.as_deref(), Some(&b"oak"[..]));
    println!("100 trees planted");
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
