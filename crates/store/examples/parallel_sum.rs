//! An aggregation by several threads over one snapshot: the table is cut by rank into parts of the
//! same size, wherever its keys lie. First each thread has a part, whose result is known by its
//! number; then rayon shares out more of them, in whatever order.
//!
//! Run: `cargo run --release --example parallel_sum`

use hedgerow::stream::{Part, Scan, Sink};
use hedgerow::tree::Store;
use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path().join("store"))?;
    let mut sink = Sink::new(&store, "orders")?;
    for number in 0..200_000_u64 {
        // Half of the keys begin alike: cutting by keys instead of ranks would not be even.
        let key = [number / 2 * (number % 2), number].map(u64::to_be_bytes).concat();
        sink.put(&key, &(number % 100).to_be_bytes())?;
    }
    sink.finish()?;

    let sum = |part: Part<Store>| -> hedgerow::Result<(u64, u64)> {
        let (mut count, mut sum) = (0, 0);
        let mut pairs = part.pairs()?;
        // Each value is looked at in place.
        while let Some(amount) = pairs.see(|_, value| value.as_slice().and_then(as_number))? {
            (count, sum) = (count + 1, sum + amount.unwrap_or(0));
        }
        Ok((count, sum))
    };
    let threads = std::thread::available_parallelism()?.get();
    let parts = Scan::new("orders").split(&store, threads)?;
    let sums = std::thread::scope(|scope| {
        let threads: Vec<_> =
            parts.into_iter().map(|part| scope.spawn(move || sum(part))).collect();
        threads.into_iter().map(|thread| thread.join()).collect::<Vec<_>>()
    });
    let mut total = 0;
    for (number, found) in sums.into_iter().enumerate() {
        let (count, sum) = found.map_err(|_| "a thread died")??;
        println!("part {number}: {count} orders, {sum}");
        assert!(count.abs_diff(200_000 / threads as u64) <= 1);
        total += sum;
    }
    let parts = Scan::new("orders").split(&store, 8 * threads)?;
    let add = |a: (u64, u64), b: (u64, u64)| Ok((a.0 + b.0, a.1 + b.1));
    let by_rayon = parts.into_par_iter().map(sum).try_reduce(|| (0, 0), add)?;
    assert_eq!(by_rayon, (200_000, total));
    println!("in all: {total}");
    assert_eq!(total, 200_000 / 100 * (0..100).sum::<u64>());
    Ok(())
}

fn as_number(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_be_bytes)
}

#[test]
fn runs() {
    main().unwrap();
}
