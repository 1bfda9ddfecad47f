//! Pairs as record batches: [`RowBuilder`], and [`RecordBatches`] of a scan.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};

use super::Columns;
use super::column::Column;
use crate::stream::{PairSum, Pairs, Scan, Source, Token};
use crate::{Error, Result};

/// A batch has this many rows at most, or
const ROWS: usize = 16 << 10;
/// about this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// A column addresses its bytes by 31 bits.
const PAIR_BYTES_MAX: usize = 1 << 30;

/// Makes rows of pairs, wherever these come from.
///
/// ```
/// use hedgerow::stream::arrow::{Columns, RowBuilder};
///
/// let mut rows = RowBuilder::new(&Columns::new());
/// rows.add(b"ash", b"tree")?;
/// let batch = rows.take()?.unwrap();
/// assert_eq!((batch.num_rows(), batch.num_columns()), (1, 2));
/// assert!(rows.take()?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RowBuilder {
    schema: SchemaRef,
    key: Column,
    value: Column,
    rows: usize,
    bytes: usize,
    sum: PairSum,
}

impl RowBuilder {
    /// Without rows.
    pub fn new(columns: &Columns) -> Self {
        let [key, value] = columns.forms.map(|form| Column::new(form.unwrap_or_default()));
        let fields: Vec<Field> = columns
            .names
            .iter()
            .zip([&key, &value])
            .map(|(name, column)| Field::new(name, column.data_type(), false))
            .collect();
        let schema = Schema::new(fields).with_metadata(columns.metadata.clone());
        let (rows, bytes, sum) = (0, 0, PairSum::new());
        Self { schema: Arc::new(schema), key, value, rows, bytes, sum }
    }

    /// What the batches are like.
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// [`Error::Argument`] if the bytes do not stand for what the columns hold, or are more than a
    /// gibibyte. The builder cannot be used any more.
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() + value.len() > PAIR_BYTES_MAX {
            let reason = "an entry of more than a GiB has no place in a column";
            return Err(Error::argument(reason));
        }
        let added = self.key.add(key).and_then(|()| self.value.add(value));
        added.map_err(Error::argument)?;
        self.sum.add(key, value);
        self.rows += 1;
        self.bytes += key.len() + value.len();
        Ok(())
    }

    /// Whether the batch has become long enough to be taken.
    pub fn is_full(&self) -> bool {
        self.rows >= ROWS || self.bytes >= BATCH_BYTES
    }

    /// Takes the rows as a batch, if there are any.
    ///
    /// # Errors
    /// None so far: the columns are as long as each other.
    pub fn take(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        if self.rows == 0 {
            return Ok(None);
        }
        (self.rows, self.bytes) = (0, 0);
        let columns = vec![self.key.take(), self.value.take()];
        RecordBatch::try_new(self.schema(), columns).map(Some)
    }

    /// What went through it.
    pub fn pair_sum(&self) -> &PairSum {
        &self.sum
    }
}

/// The pairs of a scan as record batches of about 4 MiB or 16,384 rows; made by
/// [`Scan::record_batches`]. An error ends it.
pub struct RecordBatches<S: Source> {
    pairs: Pairs<S>,
    rows: RowBuilder,
    is_over: bool,
}

impl Scan {
    /// The pairs of a store as record batches; see [`arrow`](crate::stream::arrow). They renew and
    /// give back their snapshot as other streams do.
    ///
    /// # Errors
    /// As [`Scan::pairs`].
    pub fn record_batches<S: Source>(
        &self,
        source: &S,
        columns: &Columns,
    ) -> Result<RecordBatches<S>> {
        let (pairs, rows) = (self.pairs(source)?, RowBuilder::new(columns));
        Ok(RecordBatches { pairs, rows, is_over: false })
    }
}

impl<S: Source> RecordBatches<S> {
    /// How many pairs were read, and their checksum.
    pub fn pair_sum(&self) -> &PairSum {
        self.rows.pair_sum()
    }

    /// How many rows are left, where the engine can tell.
    pub fn remaining(&self) -> Option<u64> {
        self.pairs.remaining()
    }

    /// How far it came, after a whole batch.
    ///
    /// # Errors
    /// As [`Pairs::token`].
    pub fn token(&self) -> Result<Token> {
        self.pairs.token()
    }

    fn batch(&mut self) -> std::result::Result<Option<RecordBatch>, ArrowError> {
        let failed = |error: Error| ArrowError::ExternalError(Box::new(error));
        while !self.rows.is_full() {
            let rows = &mut self.rows;
            let added = self.pairs.see(|key, value| rows.add(&key.to_cow(), &value.to_cow()));
            match added.map_err(failed)? {
                Some(added) => added.map_err(failed)?,
                None => break,
            }
        }
        self.rows.take()
    }
}

impl<S: Source> Iterator for RecordBatches<S> {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let batch = self.batch().transpose();
        self.is_over = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl<S: Source> RecordBatchReader for RecordBatches<S> {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
