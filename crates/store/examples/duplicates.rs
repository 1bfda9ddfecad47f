//! An inverted index: from each word to the lines that hold it, with counts that cost no scan.

use hedgerow::tree::{Store, TypedMultimap};

const TEXT: &[&str] =
    &["the oak and the ash", "the hazel in the hedge", "an oak in a field", "ash and elm and oak"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path().join("index.hedgerow"))?;

    let mut txn = store.begin_write()?;
    let index = TypedMultimap::<String, u32>::create(&mut txn, "words")?;
    for (line, text) in (1..).zip(TEXT) {
        for word in text.split(' ') {
            // A pair that is there already ("and" twice in one line) is not added again.
            index.put(&mut txn, word, line)?;
        }
    }
    txn.commit()?;

    let txn = store.begin_read()?;
    let index = TypedMultimap::<String, u32>::open(&txn, "words")?;
    assert_eq!(index.values(&txn, "oak")?, [1, 3, 4]);
    assert_eq!(index.count_values(&txn, "and")?, 2);
    assert!(index.contains(&txn, "hedge", 2)?);

    // Lines with both words: each is asked for by its pair.
    let mut both = index.values(&txn, "oak")?;
    let mut failure = Ok(());
    both.retain(|line| {
        index.contains(&txn, "ash", *line).unwrap_or_else(|error| {
            failure = Err(error);
            false
        })
    });
    failure?;
    println!("oak and ash: lines {both:?}");
    assert_eq!(both, [1, 4]);

    let all = index.count(&txn)?;
    println!("{} words, {} places", all.keys, all.values);
    assert_eq!((all.keys, all.values), (11, 17));

    // Words from "a" up to, but not including, "e": a, an, and, ash.
    let range = index.count_range(&txn, "a".."e")?;
    assert_eq!((range.keys, range.values), (4, 6));
    assert_eq!(index.nth_key(&txn, 3)?, Some(("ash".to_string(), 1)));
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
