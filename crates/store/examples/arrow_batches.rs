//! A table as record batches of Arrow, which a data frame is made of, and back. The frame here is
//! the least that is one: columns by their names. Others (Polars, DataFusion, DuckDB, pyarrow)
//! take the same batches.
//!
//! Run: `cargo run --example arrow_batches --features arrow`

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, RecordBatchReader};
use hedgerow::key::KeyCode;
use hedgerow::stream::arrow::{Columns, Form, Rows};
use hedgerow::stream::{Scan, Sink};
use hedgerow::tree::{Snapshot as _, Store};

/// Columns by their names, in pieces.
struct Frame(HashMap<String, Vec<ArrayRef>>);

impl Frame {
    fn read(reader: impl RecordBatchReader) -> Result<Self, Box<dyn Error>> {
        let mut columns: HashMap<String, Vec<ArrayRef>> = HashMap::new();
        let schema = reader.schema();
        for batch in reader {
            for (field, array) in schema.fields().iter().zip(batch?.columns()) {
                columns.entry(field.name().clone()).or_default().push(Arc::clone(array));
            }
        }
        Ok(Self(columns))
    }

    fn mean(&self, column: &str) -> Option<f64> {
        let arrays: Vec<_> =
            self.0.get(column)?.iter().map(|a| a.as_primitive::<Float64Type>()).collect();
        let count: usize = arrays.iter().map(|array| array.values().len()).sum();
        let sum: f64 = arrays.iter().flat_map(|array| array.values()).sum();
        Some(sum / count as f64)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::create(folder.path().join("store"))?;
    // A table with the same encodings as a `TypedTable<u32, f64>`.
    let mut sink = Sink::new(&store, "temperatures")?;
    for minute in 0..50_000_u32 {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        <u32 as KeyCode>::encode(minute, &mut key);
        <f64 as KeyCode>::encode(15.0 + f64::from(minute % 11), &mut value);
        sink.put(&key, &value)?;
    }
    sink.finish()?;

    let columns = Columns::new().named("minute", "celsius").forms(Form::U32, Form::F64);
    let frame = Frame::read(Scan::new("temperatures").record_batches(&store, &columns)?)?;
    let mean = frame.mean("celsius").ok_or("no such column")?;
    println!("50,000 minutes, {mean:.2} degrees on average");
    assert!((19.9..20.1).contains(&mean));

    // What was computed goes into a table of its own.
    let reader = Scan::new("temperatures").record_batches(&store, &columns)?;
    let schema = reader.schema();
    let in_fahrenheit = reader.map(|batch| {
        let batch = batch?;
        let celsius = batch.column(1).as_primitive::<Float64Type>().values();
        let fahrenheit = Float64Array::from_iter_values(celsius.iter().map(|c| c * 1.8 + 32.0));
        RecordBatch::try_new(
            batch.schema(),
            vec![Arc::clone(batch.column(0)), Arc::new(fahrenheit)],
        )
    });
    let mut sink = Sink::new(&store, "fahrenheit")?;
    sink.extend(Rows::new(RecordBatchIterator::new(in_fahrenheit, schema), &columns)?)?;
    assert_eq!(sink.finish()?.pairs, 50_000);

    let txn = store.begin_read()?;
    let first = txn.nth(txn.table("fahrenheit")?, 0)?.ok_or("no entry")?;
    assert_eq!(f64::decode(&first.value.to_cow())?, 59.0);
    let minutes = &frame.0["minute"];
    assert_eq!(minutes[0].as_primitive::<UInt32Type>().value(1), 1);
    Ok(())
}

#[test]
fn runs() {
    main().unwrap();
}
