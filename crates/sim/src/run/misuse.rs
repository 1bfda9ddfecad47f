//! Calls that must be refused, each with the error that its documentation names.

use hedgerow::tree::{Snapshot, WriteTxn};

use super::compare::{Kind, Outcome, refused};
use super::{Runner, Side, table_name};
use crate::config::{DuplicateSpec, MAX_KEY};
use crate::op::Misuse;
use crate::pool::OrderKind;

impl Runner<'_> {
    /// Misuses a table and compares the error; nothing may change.
    pub(super) fn misuse(
        &mut self,
        txn: &mut WriteTxn,
        side: &mut Side,
        table: u8,
        misuse: Misuse,
    ) -> Outcome {
        let spec = self.spec(table);
        if misuse == Misuse::NoTable {
            return refused("table that is not there", txn.table("no such table"), Kind::NoTable);
        }
        let Some(handle) = side.handle(self.config, txn, table)? else { return Ok(()) };
        let Some(model) = side.state.table(table) else { return Ok(()) };
        let (key, value) = (spec.keys.get(0), spec.values.get(0));
        match misuse {
            // A table in a custom order takes keys that are too long to be made here.
            Misuse::LongKey
                if matches!(spec.order, OrderKind::ShortFirst | OrderKind::Descending) =>
            {
                Ok(())
            }
            Misuse::LongKey => {
                let long = vec![b'k'; MAX_KEY as usize + 1];
                refused("put of a key that is too long", txn.put(handle, &long, value), Kind::Size)
            }
            Misuse::IntegerKey => match spec.order {
                OrderKind::Integer(_) => {
                    let result = txn.put(handle, b"three", value);
                    refused("put of a key that is no integer", result, Kind::Size)
                }
                _ => Ok(()),
            },
            Misuse::DuplicateValue => match spec.duplicates {
                DuplicateSpec::No => Ok(()),
                DuplicateSpec::Fixed(_, size, _) if model.is_empty() && size == 0 => Ok(()),
                DuplicateSpec::Fixed(_, size, told) if told || !model.is_empty() => {
                    let other = vec![1; size as usize + 1];
                    let result = txn.put(handle, key, &other);
                    refused("put of a value of another size", result, Kind::Size)
                }
                _ => {
                    let long = vec![b'v'; self.store().max_duplicate_size() + 1];
                    let result = txn.put(handle, key, &long);
                    refused("put of a value that is too long", result, Kind::Size)
                }
            },
            Misuse::WrongKind if spec.has_duplicates() => {
                let result = txn.replace(handle, key, value);
                refused("replace with duplicates", result, Kind::WrongTable)?;
                let long = self.store().page_size() as usize;
                let result = txn.reserve(handle, key, long);
                refused("reserve of a long value with duplicates", result, Kind::WrongTable)?;
                let result = txn.value_writer(handle, key, 10);
                refused("value_writer with duplicates", result, Kind::WrongTable)
            }
            Misuse::WrongKind => {
                let result = txn.put_pair(handle, key, value);
                refused("put_pair without duplicates", result, Kind::WrongTable)
            }
            Misuse::OtherOptions => {
                let result =
                    txn.create_table(table_name(table, model.renamed), &spec.other_options());
                refused("create_table with another order", result, Kind::TableOptions)
            }
            Misuse::StaleTable | Misuse::StaleCursor => self.misuse_stale(txn, misuse),
            Misuse::NoTable => Ok(()),
        }
    }

    /// Uses what was opened in a transaction that is over.
    fn misuse_stale(&mut self, txn: &mut WriteTxn, misuse: Misuse) -> Outcome {
        let Some((handle, cursor)) = &mut self.stale else { return Ok(()) };
        if misuse == Misuse::StaleTable {
            refused("get with a stale handle", txn.get(*handle, b""), Kind::WrongTransaction)?;
            let result = txn.put(*handle, b"key", b"value");
            refused("put with a stale handle", result, Kind::WrongTransaction)
        } else {
            refused("next of a stale cursor", cursor.next(txn), Kind::WrongTransaction)?;
            refused("delete of a stale cursor", cursor.delete(txn), Kind::WrongTransaction)
        }
    }
}
