//! Cursors: where the model says that each one stands, steps, and writes through them.
//!
//! A cursor remembers an entry. While that entry is in the table the cursor stands on it; while it
//! is not (deleted through the cursor or otherwise) the cursor stands between the neighbours.

use hedgerow::tree::{Cursor, Snapshot, WriteTxn};

use super::Side;
use super::compare::{Kind, Outcome, ok, refused, same, same_entry};
use super::read::scaled;
use crate::config::{Config, TableSpec};
use crate::model::{Pair, Place, TableModel};
use crate::op::{CursorWrite, Move};

/// An open cursor.
#[derive(Clone)]
pub(super) struct Held {
    cursor: Cursor,
    table: u8,
    incarnation: u32,
    place: Place,
}

/// The result of a step, and where the cursor stands if there is none.
enum Expected {
    /// This position of the model.
    Position(usize),
    /// Nothing; the cursor stays.
    Stays,
    /// Nothing; the cursor stands nowhere.
    Lost,
    /// Nothing is promised about the answer: the step is left out.
    Unspecified,
}

/// One step of the cursor in a slot.
pub(super) fn step<S: Snapshot>(
    config: &Config,
    txn: &S,
    side: &mut Side,
    slot: u8,
    step: Move,
) -> Outcome {
    let slot = usize::from(slot);
    match step {
        Move::Open(table) => {
            let Some(handle) = side.handle(config, txn, table)? else { return Ok(()) };
            let incarnation = side.state.table(table).map_or(0, |t| t.incarnation);
            let cursor = ok("cursor", txn.cursor(handle))?;
            side.cursors[slot] = Some(Held { cursor, table, incarnation, place: Place::Nowhere });
            return Ok(());
        }
        Move::CopyOf(other) => {
            side.cursors[slot] = side.cursors[usize::from(other)].clone();
            return Ok(());
        }
        _ => {}
    }
    let Some((held, model)) = open(&side.state, &mut side.cursors[slot]) else { return Ok(()) };
    let spec = &config.tables[usize::from(held.table)];
    let step = inside(step, spec);
    held.place = held.place.settled(model);
    if step == Move::ValueCount {
        return value_count(txn, held, model);
    }
    let expected = expect(model, held.place, step);
    if matches!(expected, Expected::Unspecified) {
        return Ok(());
    }
    let pair = match expected {
        Expected::Position(position) => model.at(position),
        _ => None,
    };
    let before = held.place;
    let found = call(txn, &mut held.cursor, spec, model, step);
    held.place = match (pair, &expected) {
        (Some(pair), _) => Place::At(pair),
        (None, Expected::Lost) => Place::Nowhere,
        (None, _) => before,
    };
    same_entry("cursor", spec, found, pair)
        .map_err(|d| d.in_the(format_args!("{step:?} from {before:?}")))
}

/// The cursor of a slot and the model of its table, if that is still the same table.
fn open<'a>(
    state: &'a crate::model::State,
    slot: &'a mut Option<Held>,
) -> Option<(&'a mut Held, &'a TableModel)> {
    let held = slot.as_mut()?;
    let model = state.table(held.table)?;
    (model.incarnation == held.incarnation).then_some((held, model))
}

/// Brings operands that were chosen for another table inside this one's pools.
fn inside(step: Move, spec: &TableSpec) -> Move {
    let k = |key| key % spec.keys.len() as u32;
    let v = |value| value % spec.values.len() as u32;
    match step {
        Move::Seek(key) => Move::Seek(k(key)),
        Move::SeekAtOrAfter(key) => Move::SeekAtOrAfter(k(key)),
        Move::SeekAtOrBefore(key) => Move::SeekAtOrBefore(k(key)),
        Move::SeekPair(key, value) => Move::SeekPair(k(key), v(value)),
        Move::SeekValue(key, value) => Move::SeekValue(k(key), v(value)),
        other => other,
    }
}

/// What the model says.
fn expect(model: &TableModel, place: Place, step: Move) -> Expected {
    let found = |position: Option<usize>| position.map_or(Expected::Lost, Expected::Position);
    match step {
        Move::First => found((!model.is_empty()).then_some(0)),
        Move::Last => found(model.len().checked_sub(1)),
        Move::Seek(key) => found(model.get(key).map(|_| model.lower(key))),
        Move::SeekAtOrAfter(key) => found(Some(model.lower(key)).filter(|p| *p < model.len())),
        Move::SeekAtOrBefore(key) => found(model.upper(key).checked_sub(1)),
        Move::SeekPair(..) | Move::SeekValue(..) if !model.has_duplicates() => {
            Expected::Unspecified
        }
        Move::SeekPair(key, value) => found(model.find_pair(Pair { key, value })),
        Move::SeekValue(key, value) => {
            let position = model.lower_pair(Pair { key, value });
            found(model.at(position).filter(|p| p.key == key).map(|_| position))
        }
        Move::SeekNth(part) => {
            let n = scaled(part, model.len());
            found((n < model.len()).then_some(n))
        }
        relative => match (place, relative) {
            (Place::Nowhere, Move::Next | Move::NextKey) => expect(model, place, Move::First),
            (Place::Nowhere, Move::Prev | Move::PrevKey) => expect(model, place, Move::Last),
            (Place::Nowhere, _) => Expected::Stays,
            (Place::At(pair), _) => expect_from(model, pair, 1, relative),
            (Place::Gap(pair), _) => expect_from(model, pair, 0, relative),
        },
    }
}

/// What the model says of a step from an entry (then `own` is 1), or from where it was (0).
fn expect_from(model: &TableModel, from: Pair, own: usize, step: Move) -> Expected {
    let stays = |position: Option<usize>| match position {
        Some(position) if position < model.len() => Expected::Position(position),
        _ => Expected::Stays,
    };
    let of_key = |position: Option<usize>| {
        let same_key = |p: &usize| model.at(*p).is_some_and(|pair| pair.key == from.key);
        stays(position.filter(same_key))
    };
    let at = model.lower_pair(from);
    let after = at + own;
    let values = model.positions(from.key);
    match step {
        Move::Next => stays(Some(after)),
        Move::Prev => stays(at.checked_sub(1)),
        Move::NextKey => stays(Some(values.end)),
        Move::PrevKey => stays(values.start.checked_sub(1)),
        Move::NextValue => of_key(Some(after)),
        Move::PrevValue => of_key(at.checked_sub(1)),
        Move::FirstValue => of_key(Some(values.start)),
        Move::LastValue => of_key(values.end.checked_sub(1)),
        Move::Current => stays(Some(at)),
        _ => Expected::Unspecified,
    }
}

/// The engine's step.
fn call<'t, S: Snapshot>(
    txn: &'t S,
    cursor: &mut Cursor,
    spec: &TableSpec,
    model: &TableModel,
    step: Move,
) -> hedgerow::Result<Option<hedgerow::tree::Entry<'t>>> {
    match step {
        Move::First => cursor.first(txn),
        Move::Last => cursor.last(txn),
        Move::Next => cursor.next(txn),
        Move::Prev => cursor.prev(txn),
        Move::NextKey => cursor.next_key(txn),
        Move::PrevKey => cursor.prev_key(txn),
        Move::NextValue => cursor.next_value(txn),
        Move::PrevValue => cursor.prev_value(txn),
        Move::FirstValue => cursor.first_value(txn),
        Move::LastValue => cursor.last_value(txn),
        Move::Current | Move::ValueCount | Move::Open(_) | Move::CopyOf(_) => cursor.current(txn),
        Move::Seek(key) => cursor.seek(txn, spec.keys.get(key)),
        Move::SeekAtOrAfter(key) => cursor.seek_at_or_after(txn, spec.keys.get(key)),
        Move::SeekAtOrBefore(key) => cursor.seek_at_or_before(txn, spec.keys.get(key)),
        Move::SeekPair(key, value) => {
            cursor.seek_pair(txn, spec.keys.get(key), spec.values.get(value))
        }
        Move::SeekValue(key, value) => {
            cursor.seek_value_at_or_after(txn, spec.keys.get(key), spec.values.get(value))
        }
        Move::SeekNth(part) => cursor.seek_nth(txn, scaled(part, model.len()) as u64),
    }
}

fn value_count<S: Snapshot>(txn: &S, held: &mut Held, model: &TableModel) -> Outcome {
    let expected = match held.place {
        Place::At(pair) | Place::Gap(pair) => model.values(pair.key).len() as u64,
        Place::Nowhere => 0,
    };
    same("value_count", ok("value_count", held.cursor.value_count(txn))?, expected)
}

/// The entry that a cursor stands on; `None` if it stands between entries or nowhere.
fn standing(held: &Held, model: &TableModel) -> Option<Pair> {
    match held.place {
        Place::At(pair) => model.find_pair(pair).and_then(|p| model.at(p)),
        _ => None,
    }
}

/// One write through the cursor in a slot.
pub(super) fn write(
    config: &Config,
    txn: &mut WriteTxn,
    side: &mut Side,
    slot: u8,
    longest: usize,
    write: CursorWrite,
) -> Outcome {
    let Some(held) = &mut side.cursors[usize::from(slot)] else { return Ok(()) };
    let spec = &config.tables[usize::from(held.table)];
    let Some(model) = side.state.table_mut(held.table) else { return Ok(()) };
    if model.incarnation != held.incarnation {
        return Ok(());
    }
    if let CursorWrite::Put(key, value) = write {
        return put(txn, held, spec, model, longest, (key, value));
    }
    held.place = held.place.settled(model);
    let Some(pair) = standing(held, model) else { return write_nowhere(txn, held, write) };
    match write {
        CursorWrite::PutCurrent(value) => {
            put_current(txn, held, spec, model, longest, (pair, value))
        }
        CursorWrite::Delete => {
            same("cursor delete", ok("cursor delete", held.cursor.delete(txn))?, true)?;
            let position = model.lower_pair(pair);
            model.delete(position..position + 1);
            held.place = Place::Gap(pair);
            Ok(())
        }
        CursorWrite::DeleteKey => {
            let deleted = held.cursor.delete_key(txn);
            same("cursor delete_key", ok("cursor delete_key", deleted)?, true)?;
            model.delete(model.positions(pair.key));
            held.place = Place::Gap(pair);
            Ok(())
        }
        CursorWrite::Put(..) => Ok(()),
    }
}

/// Writes through a cursor that stands on no entry must change nothing.
fn write_nowhere(txn: &mut WriteTxn, held: &mut Held, write: CursorWrite) -> Outcome {
    match write {
        CursorWrite::PutCurrent(_) => {
            let result = held.cursor.put_current(txn, b"value");
            refused("put_current on no entry", result, Kind::Argument)
        }
        CursorWrite::Delete => {
            same("delete on no entry", ok("cursor delete", held.cursor.delete(txn))?, false)
        }
        CursorWrite::DeleteKey => {
            let deleted = ok("cursor delete_key", held.cursor.delete_key(txn))?;
            same("delete_key on no entry", deleted, false)
        }
        CursorWrite::Put(..) => Ok(()),
    }
}

fn put(
    txn: &mut WriteTxn,
    held: &mut Held,
    spec: &TableSpec,
    model: &mut TableModel,
    longest: usize,
    (key, value): (u32, u32),
) -> Outcome {
    let pair = Pair { key: key % spec.keys.len() as u32, value: value % spec.values.len() as u32 };
    let (key, value) = (spec.keys.get(pair.key), spec.values.get(pair.value));
    let result = held.cursor.put(txn, key, value);
    if model.has_duplicates() && value.len() > longest {
        return refused("cursor put of a value that is too long", result, Kind::Size);
    }
    ok("cursor put", result)?;
    model.put(pair);
    held.place = Place::At(pair);
    Ok(())
}

fn put_current(
    txn: &mut WriteTxn,
    held: &mut Held,
    spec: &TableSpec,
    model: &mut TableModel,
    longest: usize,
    (old, value): (Pair, u32),
) -> Outcome {
    let new = Pair { key: old.key, value: value % spec.values.len() as u32 };
    let bytes = spec.values.get(new.value);
    let result = held.cursor.put_current(txn, bytes);
    if model.has_duplicates() && bytes.len() > longest {
        return refused("put_current of a value that is too long", result, Kind::Size);
    }
    ok("put_current", result)?;
    let position = model.lower_pair(old);
    model.delete(position..position + 1);
    model.put(new);
    held.place = Place::At(new);
    Ok(())
}
