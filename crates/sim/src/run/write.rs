//! Every write to a table through its write transaction.

use std::io::Write as _;

use hedgerow::tree::{Table, Update, WriteTxn};

use super::compare::{Disagreement, Kind, Outcome, ok, refused, same, same_value};
use super::read::{bound, count_of, scaled, within};
use crate::config::TableSpec;
use crate::model::{Pair, TableModel};
use crate::op::{Change, Edge, Write};

/// What a write goes to: the engine's table and the model's.
struct Target<'a> {
    txn: &'a mut WriteTxn,
    handle: Table,
    spec: &'a TableSpec,
    model: &'a mut TableModel,
}

/// Writes to both and compares the results. Values of a table with duplicates are at most `longest`
/// bytes long.
pub(super) fn write(
    txn: &mut WriteTxn,
    handle: Table,
    spec: &TableSpec,
    model: &mut TableModel,
    longest: usize,
    write: Write,
) -> Outcome {
    let mut target = Target { txn, handle, spec, model };
    if let Some((key, value)) = operands(write)
        && target.model.has_duplicates()
        && spec.values.get(value).len() > longest
    {
        let result = target.txn.put(handle, spec.keys.get(key), spec.values.get(value));
        return refused("put of a value that is too long", result, Kind::Size);
    }
    match write {
        Write::Put(key, value) => {
            ok("put", target.txn.put(handle, spec.keys.get(key), spec.values.get(value)))?;
            target.model.put(Pair { key, value });
            Ok(())
        }
        Write::PutNew(key, value) => target.put_new(Pair { key, value }),
        Write::PutPair(key, value) if target.model.has_duplicates() => {
            let new = target.txn.put_pair(handle, spec.keys.get(key), spec.values.get(value));
            same("put_pair", ok("put_pair", new)?, target.model.put(Pair { key, value }))
        }
        Write::Append(key, value) => target.append(Pair { key, value }),
        Write::AppendNext(step, value) => target.append_next(step, value),
        Write::Replace(..) | Write::Reserve(..) | Write::WriteParts(..) | Write::Update(..)
            if !target.model.has_duplicates() =>
        {
            target.plain(write)
        }
        Write::Delete(key) => target.delete(key),
        Write::DeletePair(key, value) if target.model.has_duplicates() => {
            target.delete_pair(Pair { key, value })
        }
        Write::DeleteRange(low, high) => target.delete_range(low, high),
        Write::DeleteNth(part) => match target.model.at(scaled(part, target.model.len())) {
            Some(pair) if target.model.has_duplicates() => target.delete_pair(pair),
            Some(pair) => target.delete(pair.key),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The key and value that a write would store.
fn operands(write: Write) -> Option<(u32, u32)> {
    match write {
        Write::Put(key, value)
        | Write::PutNew(key, value)
        | Write::PutPair(key, value)
        | Write::Replace(key, value)
        | Write::Append(key, value)
        | Write::Reserve(key, value)
        | Write::WriteParts(key, value) => Some((key, value)),
        Write::AppendNext(_, value) => Some((0, value)),
        _ => None,
    }
}

impl Target<'_> {
    fn put_new(&mut self, pair: Pair) -> Outcome {
        let (key, value) = (self.spec.keys.get(pair.key), self.spec.values.get(pair.value));
        let old = ok("put_new", self.txn.put_new(self.handle, key, value))?;
        let expected = self.model.get(pair.key);
        same_value("put_new", self.spec, old, expected)?;
        if expected.is_none() {
            self.model.put(pair);
        }
        Ok(())
    }

    fn append(&mut self, pair: Pair) -> Outcome {
        let (key, value) = (self.spec.keys.get(pair.key), self.spec.values.get(pair.value));
        let result = self.txn.append(self.handle, key, value);
        let is_last = match self.model.pairs().last() {
            None => true,
            Some(last) if self.model.has_duplicates() => pair > *last,
            Some(last) => pair.key > last.key,
        };
        if !is_last {
            return refused("append before the end", result, Kind::NotLast);
        }
        ok("append", result)?;
        self.model.put(pair);
        Ok(())
    }

    /// Appends after the last entry; with duplicates a new value of the last key, where its values
    /// allow and half of the time.
    fn append_next(&mut self, step: u32, value: u32) -> Outcome {
        let pair = match self.model.pairs().last() {
            None => Pair { key: step - 1, value },
            Some(last) if self.model.has_duplicates() && value > last.value => {
                Pair { key: last.key, value }
            }
            Some(last) => Pair { key: last.key + step, value },
        };
        if (pair.key as usize) < self.spec.keys.len() { self.append(pair) } else { Ok(()) }
    }

    /// Writes that only tables without duplicates take.
    fn plain(&mut self, write: Write) -> Outcome {
        match write {
            Write::Replace(key, value) => {
                let old = self.txn.replace(
                    self.handle,
                    self.spec.keys.get(key),
                    self.spec.values.get(value),
                );
                let expected = self.model.get(key).map(|v| self.spec.values.get(v));
                same("replace", ok("replace", old)?.as_deref(), expected)?;
                self.model.put(Pair { key, value });
                Ok(())
            }
            Write::Reserve(key, number) => {
                let value = self.spec.values.get(number);
                let room = self.txn.reserve(self.handle, self.spec.keys.get(key), value.len());
                let room = ok("reserve", room)?;
                same("length of what reserve returns", room.len(), value.len())?;
                room.copy_from_slice(value);
                self.model.put(Pair { key, value: number });
                Ok(())
            }
            Write::WriteParts(key, value) => self.write_parts(Pair { key, value }),
            Write::Update(key, change) => self.update(key, change),
            _ => Ok(()),
        }
    }

    fn write_parts(&mut self, pair: Pair) -> Outcome {
        let (key, value) = (self.spec.keys.get(pair.key), self.spec.values.get(pair.value));
        let writer = self.txn.value_writer(self.handle, key, value.len() as u64);
        let mut writer = ok("value_writer", writer)?;
        let (first, second) = value.split_at(value.len() / 3);
        for part in [first, second] {
            writer
                .write_all(part)
                .map_err(|e| Disagreement::from(format!("write to a value_writer failed: {e}")))?;
        }
        ok("finish of a value_writer", writer.finish())?;
        self.model.put(pair);
        Ok(())
    }

    fn update(&mut self, key: u32, change: Change) -> Outcome {
        let mut seen = None;
        let action = match change {
            Change::Keep => Update::Keep,
            Change::Put(value) => Update::Put(self.spec.values.get(value).to_vec()),
            Change::Delete => Update::Delete,
        };
        let result = self.txn.update(self.handle, self.spec.keys.get(key), |old| {
            seen = Some(old.map(|b| b.to_vec()));
            action
        });
        ok("update", result)?;
        let expected = self.model.get(key).map(|v| self.spec.values.get(v).to_vec());
        same("what update is shown", seen, Some(expected))?;
        match change {
            Change::Keep => {}
            Change::Put(value) => {
                self.model.put(Pair { key, value });
            }
            Change::Delete => self.model.delete(self.model.positions(key)),
        }
        Ok(())
    }

    fn delete(&mut self, key: u32) -> Outcome {
        let deleted = ok("delete", self.txn.delete(self.handle, self.spec.keys.get(key)))?;
        let positions = self.model.positions(key);
        same("delete", deleted, !positions.is_empty())?;
        self.model.delete(positions);
        Ok(())
    }

    fn delete_pair(&mut self, pair: Pair) -> Outcome {
        let (key, value) = (self.spec.keys.get(pair.key), self.spec.values.get(pair.value));
        let deleted = ok("delete_pair", self.txn.delete_pair(self.handle, key, value))?;
        let position = self.model.find_pair(pair);
        same("delete_pair", deleted, position.is_some())?;
        if let Some(position) = position {
            self.model.delete(position..position + 1);
        }
        Ok(())
    }

    fn delete_range(&mut self, low: Edge, high: Edge) -> Outcome {
        let inside = |edge| match edge {
            Edge::Open => Edge::Open,
            Edge::Included(key) => Edge::Included(within(key, self.spec)),
            Edge::Excluded(key) => Edge::Excluded(within(key, self.spec)),
        };
        let (low, high) = (inside(low), inside(high));
        let deleted =
            self.txn.delete_range(self.handle, (bound(self.spec, low), bound(self.spec, high)));
        let positions = self.model.range(low, high);
        let expected = count_of(self.model, positions.clone());
        same("delete_range", ok("delete_range", deleted)?, expected)?;
        self.model.delete(positions);
        Ok(())
    }
}
