//! What goes into columns comes out of them, in whatever type it stands there.

use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type};
use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int16Array, RecordBatch, RecordBatchIterator,
    RecordBatchReader as _, StringArray, StringViewArray,
};
use arrow_schema::{ArrowError, DataType};
use proptest::prelude::*;

use super::*;
use crate::key::KeyCode;
use crate::stream::{PairSum, Renewal, Scan, Sink, Source, Target};
use crate::tree::Store;
use crate::{Error, Result};

type Pair = (Vec<u8>, Vec<u8>);

fn encoded<T: KeyCode>(value: T::Ref<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    T::encode(value, &mut bytes);
    bytes
}

fn store() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::create(folder.path().join("store")).unwrap();
    (folder, store)
}

fn batches(columns: &Columns, pairs: &[Pair]) -> Result<Vec<RecordBatch>> {
    let mut rows = RowBuilder::new(columns);
    let mut all = Vec::new();
    for (key, value) in pairs {
        rows.add(key, value)?;
        if rows.is_full() {
            all.extend(rows.take().unwrap());
        }
    }
    all.extend(rows.take().unwrap());
    Ok(all)
}

/// The rows of one batch of these columns.
fn rows_of(columns: &Columns, key: ArrayRef, value: ArrayRef) -> Result<Vec<Pair>> {
    let batch = RecordBatch::try_from_iter([("key", key), ("value", value)]).unwrap();
    let schema = batch.schema();
    let rows = Rows::of_batches([Ok(batch)].into_iter(), &schema, columns)?;
    rows.map(|row| Ok(row?)).collect()
}

fn there_and_back<S: Source + Target>(store: &S, pairs: &[Pair]) {
    let mut sum = PairSum::new();
    pairs.iter().for_each(|(key, value)| sum.add(key, value));
    let columns = Columns::new().metadata("by", "test");
    let rows = Rows::of_batches(
        batches(&columns, pairs).unwrap().into_iter().map(Ok),
        &RowBuilder::new(&columns).schema(),
        &columns,
    );
    let mut sink = Sink::new(store, "t").unwrap();
    sink.extend(rows.unwrap()).unwrap();
    sink.finish().unwrap();
    let scan = Scan::new("t").renewal(Renewal::never().pairs(7));
    let reader = scan.record_batches(store, &columns).unwrap();
    assert_eq!(reader.schema().metadata().get("by").unwrap(), "test");
    assert_eq!(reader.schema().field(0).data_type(), &DataType::Binary);
    let mut rows = Rows::new(reader, &columns).unwrap();
    let found: Vec<Pair> = rows.by_ref().map(|row| row.unwrap()).collect();
    assert!(found == pairs);
    assert_eq!(rows.pair_sum(), &sum);
    assert!(rows.next().is_none());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn pairs_of_both_engines_go_there_and_back(
        pairs in prop::collection::btree_map(any::<Vec<u8>>(), any::<Vec<u8>>(), 1..200),
    ) {
        let pairs: Vec<Pair> = pairs.into_iter().filter(|(key, _)| !key.is_empty()).collect();
        prop_assume!(!pairs.is_empty());
        there_and_back(&store().1, &pairs);
        let folder = tempfile::tempdir().unwrap();
        let db = crate::lsm::Options::new().create(true).open(folder.path().join("db")).unwrap();
        there_and_back(&db, &pairs);
    }
}

#[test]
fn batches_are_cut_by_rows_and_by_bytes() {
    let (_folder, store) = store();
    let mut sink = Sink::new(&store, "many").unwrap();
    for n in 0..40_000_u32 {
        sink.put(&n.to_be_bytes(), b"").unwrap();
    }
    sink.finish().unwrap();
    let mut reader = Scan::new("many").record_batches(&store, &Columns::new()).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().num_rows(), 16 << 10);
    assert_eq!(reader.remaining(), Some(40_000 - (16 << 10)));
    let token = reader.token().unwrap();
    let rest: usize = reader.by_ref().map(|batch| batch.unwrap().num_rows()).sum();
    assert_eq!(rest, 40_000 - (16 << 10));
    assert_eq!(reader.pair_sum().pairs(), 40_000);
    let again = Scan::resume(&token, &store).unwrap();
    let again = again.record_batches(&store, &Columns::new()).unwrap();
    assert_eq!(again.map(|batch| batch.unwrap().num_rows()).sum::<usize>(), rest);

    let mut sink = Sink::new(&store, "long").unwrap();
    for n in 0..9_u8 {
        sink.put(&[n], &[n; 1 << 20]).unwrap();
    }
    sink.finish().unwrap();
    let reader = Scan::new("long").record_batches(&store, &Columns::new()).unwrap();
    let rows = reader.map(|batch| batch.unwrap().num_rows());
    assert_eq!(rows.collect::<Vec<_>>(), [4, 4, 1]);
}

#[test]
fn numbers_and_text_have_columns_of_their_types() {
    let pairs: Vec<Pair> = [(i64::MIN, -0.5), (-1, f64::INFINITY), (0, 0.1), (7, -1e300)]
        .map(|(n, f)| (encoded::<i64>(n), encoded::<f64>(f)))
        .into();
    let columns = Columns::new().forms(Form::I64, Form::F64);
    let all = batches(&columns, &pairs).unwrap();
    assert_eq!(all[0].column(0).as_primitive::<Int64Type>().value(0), i64::MIN);
    assert_eq!(all[0].column(1).as_primitive::<Float64Type>().value(2), 0.1);
    let schema = all[0].schema();
    let read = |columns: &Columns| -> Vec<Pair> {
        let rows = Rows::of_batches(all.clone().into_iter().map(Ok), &schema, columns).unwrap();
        rows.map(|row| row.unwrap()).collect()
    };
    assert_eq!(read(&columns), pairs);
    // The types of the columns say it as well.
    assert_eq!(read(&Columns::new()), pairs);

    let forms = [
        (Form::U32, encoded::<u32>(7), Form::U64, encoded::<u64>(1 << 40)),
        (Form::I32, encoded::<i32>(-7), Form::Utf8, "h\u{e4}".as_bytes().to_vec()),
        (Form::NativeU32, 7_u32.to_le_bytes().into(), Form::NativeU64, 8_u64.to_le_bytes().into()),
    ];
    for (key_form, key, value_form, value) in forms {
        let columns = Columns::new().forms(key_form, value_form);
        let all = batches(&columns, &[(key.clone(), value.clone())]).unwrap();
        let columns_of = all[0].columns().to_vec();
        let back = rows_of(&columns, columns_of[0].clone(), columns_of[1].clone()).unwrap();
        assert_eq!(back, [(key, value)]);
    }
    let wrong = batches(&Columns::new().forms(Form::U32, Form::Bytes), &pairs).unwrap_err();
    assert!(wrong.to_string().contains("8 bytes that are no u32"), "{wrong}");
    let bytes = [(vec![0xff], vec![])];
    let wrong = batches(&Columns::new().forms(Form::Utf8, Form::Bytes), &bytes).unwrap_err();
    assert!(wrong.to_string().contains("no UTF-8"), "{wrong}");
}

#[test]
fn the_caller_may_write_text_itself() {
    let reversed = TextForm {
        write: |bytes| match bytes {
            b"!" => Err("no exclamations".into()),
            _ => Ok(bytes.iter().rev().map(|&byte| char::from(byte)).collect()),
        },
        read: |text, out| {
            out.extend(text.bytes().rev());
            Ok(())
        },
    };
    let columns = Columns::new().forms(Form::Text(reversed), Form::Bytes);
    let pairs = [(b"elm".to_vec(), b"tree".to_vec())];
    let all = batches(&columns, &pairs).unwrap();
    assert_eq!(all[0].column(0).as_string::<i32>().value(0), "mle");
    let back = rows_of(&columns, all[0].column(0).clone(), all[0].column(1).clone());
    assert_eq!(back.unwrap(), pairs);
    let wrong = batches(&columns, &[(b"!".to_vec(), vec![])]).unwrap_err();
    assert!(wrong.to_string().contains("no exclamations"));
}

#[test]
fn columns_of_any_width_are_read() {
    let key: ArrayRef = Arc::new(StringViewArray::from(vec!["5", " 6 "]));
    let value: ArrayRef = Arc::new(Int16Array::from(vec![-1, 9]));
    let columns = Columns::new().forms(Form::U32, Form::Utf8);
    let wanted = [(5, "-1"), (6, "9")].map(|(n, text)| (encoded::<u32>(n), text.into()));
    assert_eq!(rows_of(&columns, key.clone(), value.clone()).unwrap(), wanted);
    let floats: ArrayRef = Arc::new(Float32Array::from(vec![0.5, 2.0]));
    let columns = Columns::new().forms(Form::Utf8, Form::F64);
    let wanted = [("5", 0.5), (" 6 ", 2.0)].map(|(text, f)| (text.into(), encoded::<f64>(f)));
    assert_eq!(rows_of(&columns, key.clone(), floats.clone()).unwrap(), wanted);
    let columns = Columns::new().forms(Form::Utf8, Form::U64);
    let wrong = rows_of(&columns, key.clone(), floats).unwrap_err();
    assert!(wrong.to_string().contains("row 1: column \"value\": \"0.5\" is no u64"), "{wrong}");
    let wrong = rows_of(&columns, key, value).unwrap_err();
    assert!(wrong.to_string().contains("\"-1\" is no u64"), "{wrong}");
}

#[test]
fn what_is_no_row_is_told_with_its_number() {
    let key: ArrayRef = Arc::new(StringArray::from(vec!["a", "b", "c"]));
    let value: ArrayRef = Arc::new(Int16Array::from(vec![Some(-1), None, Some(2)]));
    let wrong = rows_of(&Columns::new(), key.clone(), value).unwrap_err();
    assert!(wrong.to_string().contains("row 2: column \"value\": there is no value"), "{wrong}");
    let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true; 3]));
    let wrong = rows_of(&Columns::new(), key.clone(), flags.clone()).unwrap_err();
    assert!(wrong.to_string().contains("neither bytes nor text nor numbers"), "{wrong}");
    let wrong = rows_of(&Columns::new().named("key", "v"), key, flags).unwrap_err();
    assert!(wrong.to_string().contains("a column \"v\" is wanted"), "{wrong}");

    // What a reader fails with ends the rows, and a sink keeps what was committed before.
    let (_folder, store) = store();
    let columns = Columns::new().forms(Form::U32, Form::U32);
    let key = encoded::<u32>(1);
    let first = batches(&columns, &[(key.clone(), key.clone())]).unwrap().remove(0);
    assert_eq!(first.column(0).as_primitive::<UInt32Type>().value(0), 1);
    let schema = first.schema();
    let broken = ArrowError::ParseError("cut off".into());
    let reader = RecordBatchIterator::new([Ok(first), Err(broken)], schema);
    let mut sink = Sink::new(&store, "t").unwrap();
    let failed = sink.extend(Rows::new(reader, &columns).unwrap()).unwrap_err();
    assert!(
        matches!(&failed, Error::Argument { reason } if reason.contains("row 2: Parser error"))
    );
    assert_eq!(sink.finish().unwrap().last.unwrap().key, key);
}
