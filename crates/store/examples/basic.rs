//! A store from creation to a range scan: tables, transactions, typed keys.

use hedgerow::tree::{Snapshot, Store, TableOptions, TypedTable};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path().join("trees.hedgerow"))?;

    // One writer at a time; nothing is seen by others before the commit.
    let mut txn = store.begin_write()?;
    let heights = txn.create_table("heights", &TableOptions::new())?;
    txn.put(heights, b"hawthorn", b"10 m")?;
    txn.put(heights, b"hazel", b"6 m")?;
    txn.put(heights, b"oak", b"40 m")?;
    assert!(txn.delete(heights, b"hazel")?);
    txn.commit()?;

    // A transaction that is dropped leaves no trace.
    let mut txn = store.begin_write()?;
    let heights = txn.create_table("heights", &TableOptions::new())?;
    txn.clear_table(heights)?;
    drop(txn);

    let txn = store.begin_read()?;
    let heights = txn.table("heights")?;
    assert!(txn.get(heights, b"oak")?.is_some_and(|height| height == b"40 m"));
    assert!(txn.get(heights, b"hazel")?.is_none());
    assert_eq!(txn.count(heights)?.keys, 2);
    drop(txn);

    // The same with types: (species, year of planting) -> girth in centimetres.
    let mut txn = store.begin_write()?;
    let girths = TypedTable::<(String, i32), f64>::create(&mut txn, "girths")?;
    girths.put(&mut txn, ("oak", 1850), 310.5)?;
    girths.put(&mut txn, ("oak", -20), 980.0)?;
    girths.put(&mut txn, ("ash", 1990), 88.25)?;
    txn.commit()?;

    let txn = store.begin_read()?;
    let girths = TypedTable::<(String, i32), f64>::open(&txn, "girths")?;
    let mut oaks = Vec::new();
    for entry in girths.range(&txn, ("oak", i32::MIN)..=("oak", i32::MAX))? {
        let ((species, year), girth) = entry?;
        println!("{species}, planted in {year}: {girth} cm");
        oaks.push(year);
    }
    assert_eq!(oaks, [-20, 1850]);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
