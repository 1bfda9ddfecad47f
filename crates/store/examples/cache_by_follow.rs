//! A cache in memory that is kept current: it takes everything once, and then what each commit
//! changes, whichever process made it.
//!
//! Run: `cargo run --example cache_by_follow`

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use hedgerow::Result;
use hedgerow::stream::{Follow, Sink, Step};
use hedgerow::tree::{Change, Store};

type Cache = Arc<RwLock<BTreeMap<Vec<u8>, Vec<u8>>>>;

/// All changes of a step at once, so that readers of the cache see whole commits.
fn apply(cache: &Cache, step: &Step) -> Result<()> {
    let mut cache = cache.write().unwrap_or_else(|poisoned| poisoned.into_inner());
    if step.tables()?.is_empty() {
        return Ok(());
    }
    for change in step.changes("prices")? {
        match change? {
            Change::Added { key, value } | Change::Changed { key, new: value, .. } => {
                cache.insert(key.to_vec(), value.to_vec());
            }
            Change::Removed { key, .. } => {
                cache.remove(&key.to_vec());
            }
        }
    }
    Ok(())
}

fn set(store: &Store, prices: &[(&str, &str)]) -> Result<()> {
    let mut sink = Sink::new(store, "prices")?;
    for (name, price) in prices {
        sink.put(name.as_bytes(), price.as_bytes())?;
    }
    sink.finish().map(drop)
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path().join("store"))?;
    set(&store, &[("apple", "1.20"), ("pear", "1.60")])?;

    let cache = Cache::default();
    let (followed, kept) = (store.clone(), Arc::clone(&cache));
    let keeper = std::thread::spawn(move || -> Result<()> {
        let mut follow = Follow::from_start(&followed).only("prices", ..);
        // A service would wait without a limit; this one ends when nothing comes any more.
        while let Some(step) = follow.step(Some(Duration::from_millis(300)))? {
            apply(&kept, &step)?;
            println!("the cache is at commit {}", step.to());
        }
        Ok(())
    });
    set(&store, &[("pear", "1.70"), ("plum", "2.10")])?;
    set(&store, &[("apple", "1.25")])?;
    keeper.join().map_err(|_| "the keeper died")??;

    let cache = cache.read().map_err(|_| "poisoned")?;
    for (name, price) in cache.iter() {
        println!("{} {}", String::from_utf8_lossy(name), String::from_utf8_lossy(price));
    }
    let prices = [("apple", "1.25"), ("pear", "1.70"), ("plum", "2.10")];
    let prices = prices.map(|(name, price)| (name.as_bytes().to_vec(), price.as_bytes().to_vec()));
    assert_eq!(*cache, BTreeMap::from(prices));
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
