//! When pages are written early.

use super::*;
use crate::tree::Store;

/// Else each change would look through all tables for pages to write early.
#[test]
fn roots_that_fill_the_budget_are_not_tried_again_with_each_change() {
    const BUDGET: usize = 64 << 10;
    let folder = tempfile::tempdir().unwrap();
    let store = Store::builder().write_budget(BUDGET).create(folder.path().join("store")).unwrap();
    let mut txn = store.begin_write().unwrap();
    let (mut above, mut tries) = (0, 0);
    for n in 0_u32..200 {
        let table = txn.create_table(n.to_be_bytes(), &TableOptions::new()).unwrap();
        let changed = |txn: &WriteTxn| txn.turn.state().pages.changed_bytes();
        above += u32::from(changed(&txn) > BUDGET);
        tries += u32::from(changed(&txn) >= txn.limit);
        txn.put(table, b"key", b"value").unwrap();
    }
    assert!(above > 150 && tries < above / 2, "{tries} of {above}");
}
