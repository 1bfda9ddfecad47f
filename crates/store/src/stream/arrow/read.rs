//! Rows of record batches as pairs: [`Rows`].

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Schema};

use super::{Columns, Form, RowError, column};
use crate::stream::PairSum;
use crate::{Error, Result};

/// The rows of record batches as pairs: an iterator, which a [`Sink`](crate::stream::Sink) takes.
/// An error ends it.
pub struct Rows<R> {
    batches: R,
    names: [String; 2],
    columns: [Column; 2],
    batch: Option<RecordBatch>,
    /// The next row of the batch, and how many were read.
    row: usize,
    done: u64,
    sum: PairSum,
    is_over: bool,
}

/// Where a column stands, and what it holds.
#[derive(Clone, Copy)]
struct Column {
    at: usize,
    form: Form,
}

impl<R: RecordBatchReader> Rows<R> {
    /// The rows of a reader, of which these columns are taken. Others may be there.
    ///
    /// # Errors
    /// [`Error::Argument`] if a column is not there, or stands for no bytes.
    pub fn new(batches: R, columns: &Columns) -> Result<Self> {
        let schema = batches.schema();
        Self::of_batches(batches, &schema, columns)
    }
}

impl<R: Iterator<Item = std::result::Result<RecordBatch, ArrowError>>> Rows<R> {
    /// The rows of batches of this schema.
    ///
    /// # Errors
    /// As [`Rows::new`].
    pub fn of_batches(batches: R, schema: &Schema, columns: &Columns) -> Result<Self> {
        let find = |n: usize| find(schema, &columns.names[n], columns.forms[n]);
        Ok(Self {
            batches,
            names: columns.names.clone(),
            columns: [find(0)?, find(1)?],
            batch: None,
            row: 0,
            done: 0,
            sum: PairSum::new(),
            is_over: false,
        })
    }

    /// Puts the next row in the place of what `key` and `value` have; false after the last one.
    ///
    /// # Errors
    /// A row that stands for no bytes, or cannot be read. Nothing follows.
    pub fn next_into(
        &mut self,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<bool, RowError> {
        if self.is_over {
            return Ok(false);
        }
        let found = self.find_next(key, value);
        self.is_over = !matches!(found, Ok(true));
        found.map_err(|reason| RowError { row: self.done + 1, reason })
    }

    fn find_next(
        &mut self,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> std::result::Result<bool, String> {
        let batch = loop {
            match self.batch.take() {
                Some(batch) if self.row < batch.num_rows() => break batch,
                _ => self.row = 0,
            }
            match self.batches.next().transpose().map_err(|error| error.to_string())? {
                Some(next) => self.batch = Some(next),
                None => return Ok(false),
            }
        };
        for ((column, name), out) in self.columns.iter().zip(&self.names).zip([&mut *key, value]) {
            let array = batch.columns().get(column.at);
            let array = array.ok_or_else(|| format!("the batch has no column \"{name}\""))?;
            let read = column::read(array, self.row, column.form, out);
            read.map_err(|reason| format!("column \"{name}\": {reason}"))?;
        }
        (self.row, self.done, self.batch) = (self.row + 1, self.done + 1, Some(batch));
        self.sum.add(key, value);
        Ok(true)
    }

    /// What went through it.
    pub fn pair_sum(&self) -> &PairSum {
        &self.sum
    }
}

impl<R: Iterator<Item = std::result::Result<RecordBatch, ArrowError>>> Iterator for Rows<R> {
    type Item = std::result::Result<(Vec<u8>, Vec<u8>), RowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        match self.next_into(&mut key, &mut value) {
            Ok(true) => Some(Ok((key, value))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}

/// The column of a name.
fn find(schema: &Schema, name: &str, asked: Option<Form>) -> Result<Column> {
    let there: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| format!("\"{}\" ({})", field.name(), field.data_type()))
        .collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    let Some((at, field)) = schema.column_with_name(name) else {
        let wanted = format!("a column \"{name}\" is wanted, and there is none");
        return Err(Error::argument(format!("{wanted}; the columns are {there}")));
    };
    match column::form_of(field.data_type(), asked) {
        Some(form) => Ok(Column { at, form }),
        None => Err(Error::argument(format!(
            "column \"{name}\" holds neither bytes nor text nor numbers; the columns are {there}"
        ))),
    }
}
