//! Writing Arrow and Parquet files, a batch of rows at a time.

use std::sync::Arc;

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{FileWriter, IpcWriteOptions};
use arrow_schema::SchemaRef;
use hedgerow::stream::arrow::{Columns, RowBuilder};
use parquet::arrow::ArrowWriter;
use parquet::basic;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::{CHECKSUM, CREATED_BY, Compression, ENTRIES, TABLE, form, said};
use crate::codec::{Format, FormatArgs, shown};
use crate::portable::Portable;

/// A row group of a Parquet file stays in memory until it has about this many bytes.
const GROUP_BYTES: usize = 64 << 20;

/// Writes entries as rows.
pub(crate) struct Writer {
    rows: RowBuilder,
    /// `None` after the end.
    file: Option<File>,
}

/// A file of either format, as far as it was not handed on yet.
enum File {
    Arrow(Box<FileWriter<Vec<u8>>>),
    Parquet(Box<ArrowWriter<Vec<u8>>>),
}

impl File {
    fn new(
        portable: Portable,
        schema: &SchemaRef,
        compression: Option<Compression>,
    ) -> Result<Self, String> {
        if portable != Portable::Parquet {
            let options = IpcWriteOptions::default().try_with_compression(of_arrow(compression)?);
            let options = options.map_err(failed)?;
            let writer = FileWriter::try_new_with_options(Vec::new(), schema, options);
            return Ok(Self::Arrow(Box::new(writer.map_err(failed)?)));
        }
        let properties = WriterProperties::builder()
            .set_compression(of_parquet(compression))
            .set_created_by(CREATED_BY.to_owned())
            .build();
        let writer = ArrowWriter::try_new(Vec::new(), Arc::clone(schema), Some(properties));
        Ok(Self::Parquet(Box::new(writer.map_err(failed)?)))
    }
}

/// Arrow files are not compressed unless it is asked for, so that they can be mapped.
fn of_arrow(compression: Option<Compression>) -> Result<Option<CompressionType>, String> {
    match compression {
        None | Some(Compression::None) => Ok(None),
        Some(Compression::Lz4) => Ok(Some(CompressionType::LZ4_FRAME)),
        #[cfg(feature = "zstd")]
        Some(Compression::Zstd) => Ok(Some(CompressionType::ZSTD)),
        Some(Compression::Snappy) => Err("Arrow files cannot be compressed with snappy".into()),
    }
}

/// Parquet files are compressed with Snappy, which every reader has, unless it is asked for more.
fn of_parquet(compression: Option<Compression>) -> basic::Compression {
    match compression {
        None | Some(Compression::Snappy) => basic::Compression::SNAPPY,
        Some(Compression::None) => basic::Compression::UNCOMPRESSED,
        Some(Compression::Lz4) => basic::Compression::LZ4_RAW,
        #[cfg(feature = "zstd")]
        Some(Compression::Zstd) => basic::Compression::ZSTD(Default::default()),
    }
}

impl Writer {
    pub(crate) fn new(
        portable: Portable,
        table: &[u8],
        formats: FormatArgs,
        compression: Option<Compression>,
    ) -> Result<Self, String> {
        let formats = formats.or(Format::Raw);
        let columns = Columns::new().forms(form(formats.key()), form(formats.value()));
        let rows = RowBuilder::new(&columns.metadata(TABLE, shown(table)));
        let file = Some(File::new(portable, &rows.schema(), compression)?);
        Ok(Self { rows, file })
    }

    /// Adds a row; what is ready of the file goes to `out`.
    pub(crate) fn entry(
        &mut self,
        key: &[u8],
        value: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        self.rows.add(key, value).map_err(|error| error.to_string())?;
        if self.rows.is_full() {
            self.write(out)?;
        }
        Ok(())
    }

    /// Writes the rows that were added.
    fn write(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        let Some(batch) = self.rows.take().map_err(failed)? else { return Ok(()) };
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
        self.write(out)?;
        let (entries, checksum) = said(self.rows.pair_sum());
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
    format!("it cannot be written: {error}")
}
