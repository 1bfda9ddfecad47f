//! Asynchronous streams, polled on a thread.

use hedgerow::stream::{Scan, Source};

use super::Pair;

/// What the asynchronous form of a scan gives; looked at when the stream is gone.
pub(super) fn pairs<S: Source>(scan: &Scan, source: &S) -> hedgerow::Result<Vec<Pair>> {
    let mut stream = scan.stream(source)?.into_pairs();
    let pairs = pollster::block_on(async {
        let mut pairs = Vec::new();
        while let Some(pair) = stream.next_pair().await? {
            pairs.push(pair);
        }
        Ok::<_, hedgerow::Error>(pairs)
    });
    drop(stream);
    Ok(pairs?.iter().map(|pair| pair.to_owned()).collect())
}
