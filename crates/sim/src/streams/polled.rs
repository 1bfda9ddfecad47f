//! Asynchronous streams, polled by the least executor that there is.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use hedgerow::stream::{Scan, Source};

use super::Pair;

/// Wakes the thread that polls.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<T>(task: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut task = pin!(task);
    loop {
        match task.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// What the asynchronous form of a scan gives; looked at when the stream is gone.
pub(super) fn pairs<S: Source>(scan: &Scan, source: &S) -> hedgerow::Result<Vec<Pair>> {
    let mut stream = scan.stream(source)?.into_pairs();
    let pairs = block_on(async {
        let mut pairs = Vec::new();
        while let Some(pair) = stream.next_pair().await? {
            pairs.push(pair);
        }
        Ok::<_, hedgerow::Error>(pairs)
    });
    drop(stream);
    Ok(pairs?.iter().map(|pair| pair.to_owned()).collect())
}
