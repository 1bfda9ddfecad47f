//! Writing Arrow and Parquet files, a batch of rows at a time.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_ipc::writer::FileWriter;
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::column::Column;
use super::{CHECKSUM, CREATED_BY, ENTRIES, Sum, TABLE};
use crate::codec::{Format, FormatArgs, shown};
use crate::portable::Portable;

/// A batch has this many rows at most, or
const ROWS: usize = 16 << 10;
/// about this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// A row group of a Parquet file stays in memory until it has about this many bytes.
const GROUP_BYTES: usize = 64 << 20;
/// A column addresses its bytes by 31 bits.
const ENTRY_BYTES_MAX: usize = 1 << 30;

/// Writes entries as rows.
pub(crate) struct Writer {
    schema: SchemaRef,
    key: Column,
    value: Column,
    rows: usize,
    bytes: usize,
    sum: Sum,
    /// `None` after the end.
    file: Option<File>,
}

/// A file of either format, as far as it was not handed on yet.
enum File {
    Arrow(Box<FileWriter<Vec<u8>>>),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
}

impl Writer {
    pub(crate) fn new(
        portable: Portable,
        table: &[u8],
        formats: FormatArgs,
    ) -> Result<Self, String> {
        let formats = formats.or(Format::Raw);
        let (key, value) = (Column::new(formats.key()), Column::new(formats.value()));
        let fields = [("key", &key), ("value", &value)];
        let fields = fields.map(|(name, column)| Field::new(name, column.data_type(), false));
        let metadata = HashMap::from([(TABLE.to_owned(), shown(table))]);
        let schema = Arc::new(Schema::new(fields.to_vec()).with_metadata(metadata));
        let file = match portable {
            Portable::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by(CREATED_BY.to_owned())
                    .build();
                let writer =
                    ArrowWriter::try_new(Vec::new(), Arc::clone(&schema), Some(properties));
                File::Parquet(Box::new(writer.map_err(failed)?))
            }
            _ => {
                let writer = FileWriter::try_new(Vec::new(), &schema);
                File::Arrow(Box::new(writer.map_err(failed)?))
            }
        };
        let (rows, bytes, sum) = (0, 0, Sum::new());
        Ok(Self { schema, key, value, rows, bytes, sum, file: Some(file) })
    }

    /// Adds a row; what is ready of the file goes to `out`.
    pub(crate) fn entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if key.len() + value.len() > ENTRY_BYTES_MAX {
            return Err("an entry of more than a GiB has no place in a column".to_owned());
        }
        self.key.add(key)?;
        self.value.add(value)?;
        self.sum.add(key, value);
        self.rows += 1;
        self.bytes += key.len() + value.len();
        if self.rows >= ROWS || self.bytes >= BATCH_BYTES {
            self.write(out)?;
        }
        Ok(())
    }

    /// Writes the rows that were added.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let columns = vec![self.key.take(), self.value.take()];
        (self.rows, self.bytes) = (0, 0);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(failed)?;
        match &mut self.file {
            Some(File::Arrow(writer)) => {
                writer.write(&batch).map_err(failed)?;
                out.append(writer.get_mut());
            }
            Some(File::Parquet(writer)) => {
                writer.write(&batch).map_err(failed)?;
                if writer.in_progress_size() >= GROUP_BYTES {
                    writer.flush().map_err(failed)?;
                }
                out.append(writer.inner_mut());
            }
            None => {}
        }
        Ok(())
    }

    /// Writes the rest, and what the file says of itself.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        if self.rows > 0 {
            self.write(out)?;
        }
        let (entries, checksum) = self.sum.said();
        match self.file.take() {
            Some(File::Arrow(mut writer)) => {
                writer.write_metadata(ENTRIES, entries);
                writer.write_metadata(CHECKSUM, checksum);
                writer.finish().map_err(failed)?;
                out.append(writer.get_mut());
            }
            Some(File::Parquet(mut writer)) => {
                for (name, said) in [(ENTRIES, entries), (CHECKSUM, checksum)] {
                    writer.append_key_value_metadata(KeyValue::new(name.to_owned(), said));
                }
                out.append(&mut writer.into_inner().map_err(failed)?);
            }
            None => {}
        }
        Ok(())
    }
}

fn failed(error: impl std::fmt::Display) -> String {
    format!("the file cannot be written: {error}")
}
