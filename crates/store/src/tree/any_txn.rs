//! A transaction of either kind in one type, for programs that hold one without a type parameter.

use super::{ReadTxn, WriteTxn};

/// A read transaction, a write transaction, or none: what a program holds whose own type cannot
/// have a parameter, such as the handle of an interface for C. [`on_txn!`](crate::on_txn) reads
/// whichever it is.
///
/// Transactions are long, so they are boxed: handing one on moves a pointer.
///
/// # Example
/// ```
/// use hedgerow::on_txn;
/// use hedgerow::tree::{AnyTxn, Snapshot, Store, TableOptions};
///
/// /// The value of a key in the table "colours", if there is a transaction.
/// fn colour(held: &AnyTxn, key: &[u8]) -> hedgerow::Result<Option<Vec<u8>>> {
///     let found = on_txn!(held, txn => txn.get(txn.table("colours")?, key), else return Ok(None));
///     Ok(found?.map(|value| value.to_vec()))
/// }
///
/// # fn main() -> hedgerow::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// let store = Store::create(folder.path().join("colours.hedgerow"))?;
/// let mut txn = store.begin_write()?;
/// let table = txn.create_table("colours", &TableOptions::new())?;
/// txn.put(table, b"sky", b"blue")?;
///
/// let mut held = AnyTxn::Write(Box::new(txn));
/// assert_eq!(colour(&held, b"sky")?.as_deref(), Some(b"blue".as_slice()));
/// if let AnyTxn::Write(txn) = std::mem::take(&mut held) {
///     txn.commit()?;
/// }
/// assert_eq!(colour(&held, b"sky")?, None);
///
/// held = AnyTxn::Read(Box::new(store.begin_read()?));
/// assert_eq!(colour(&held, b"sky")?.as_deref(), Some(b"blue".as_slice()));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub enum AnyTxn {
    /// There is none.
    #[default]
    None,
    /// One that reads.
    Read(Box<ReadTxn>),
    /// One that writes.
    Write(Box<WriteTxn>),
}

/// Runs an expression on the transaction of an [`AnyTxn`](crate::tree::AnyTxn), which is borrowed
/// for that; another one if there is none. See the example there.
#[macro_export]
macro_rules! on_txn {
    ($held:expr, $txn:ident => $run:expr, else $none:expr) => {
        match $held {
            $crate::tree::AnyTxn::Read($txn) => {
                let $txn = &**$txn;
                $run
            }
            $crate::tree::AnyTxn::Write($txn) => {
                let $txn = &**$txn;
                $run
            }
            $crate::tree::AnyTxn::None => $none,
        }
    };
}
