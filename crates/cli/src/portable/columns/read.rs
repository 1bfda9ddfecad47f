//! Reading Arrow and Parquet files, a batch of rows at a time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::{CHECKSUM, CREATED_BY, ENTRIES, Sum, column};
use crate::codec::{Format, FormatArgs};
use crate::portable::{BadInput, Event, Fields, Portable};

/// How an Arrow file begins; a stream of Arrow has no footer, and begins otherwise.
const ARROW_FILE: &[u8; 6] = b"ARROW1";
/// Rows of a Parquet file are read this many at a time.
const ROWS: usize = 1 << 10;

/// Where a file is read from.
pub(crate) enum Input {
    File(File),
    Other(Box<dyn Read>),
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, String>>>;

/// Reads rows as entries.
pub(crate) struct Reader {
    /// What was not opened yet.
    input: Option<Input>,
    portable: Portable,
    formats: FormatArgs,
    names: [String; 2],
    columns: [Column; 2],
    batches: Batches,
    batch: Option<RecordBatch>,
    /// The next row of the batch, and how many were read.
    row: usize,
    done: u64,
    sum: Sum,
    promised: Option<Promise>,
}

/// Entries and their checksum, as the file says them.
type Promise = (String, String);

/// Where a column stands, and what it holds.
#[derive(Clone, Copy)]
struct Column {
    at: usize,
    format: Format,
}

/// A file that was opened.
struct Opened {
    schema: SchemaRef,
    batches: Batches,
    promised: Option<Promise>,
}

impl Reader {
    pub(crate) fn new(
        input: Input,
        portable: Portable,
        formats: FormatArgs,
        fields: &Fields,
    ) -> Self {
        Self {
            input: Some(input),
            portable,
            formats,
            names: [fields.key.clone(), fields.value.clone()],
            columns: [Column { at: 0, format: Format::Raw }; 2],
            batches: Box::new(std::iter::empty()),
            batch: None,
            row: 0,
            done: 0,
            sum: Sum::new(),
            promised: None,
        }
    }

    /// What comes next; an entry replaces the content of `key` and `value`.
    pub(crate) fn next(
        &mut self,
        key: &mut Vec<u8>,
        value: &mut Vec<u8>,
    ) -> Result<Event, BadInput> {
        self.try_next(key, value).map_err(|reason| BadInput { line: self.done + 1, reason })
    }

    /// The last row that was read.
    pub(crate) fn line(&self) -> u64 {
        self.done
    }

    fn try_next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Event, String> {
        if let Some(input) = self.input.take() {
            self.open(input)?;
        }
        let batch = loop {
            match self.batch.take() {
                Some(batch) if self.row < batch.num_rows() => break batch,
                _ => self.row = 0,
            }
            match self.batches.next().transpose()? {
                Some(next) => self.batch = Some(next),
                None => return self.end(),
            }
        };
        for ((column, name), out) in self.columns.iter().zip(&self.names).zip([&mut *key, value]) {
            let read = column::read(batch.column(column.at), self.row, column.format, out);
            read.map_err(|reason| format!("column \"{name}\": {reason}"))?;
        }
        (self.row, self.done, self.batch) = (self.row + 1, self.done + 1, Some(batch));
        self.sum.add(key, value);
        Ok(Event::Entry)
    }

    fn open(&mut self, input: Input) -> Result<(), String> {
        let file = input.seekable().map_err(|error| format!("it cannot be read: {error}"))?;
        let Opened { schema, batches, promised } = match self.portable {
            Portable::Parquet => parquet_file(file)?,
            _ => arrow_file(file)?,
        };
        let [key, value] = &self.names;
        let (key_format, value_format) = (self.formats.key_asked(), self.formats.value_asked());
        self.columns = [find(&schema, key, key_format)?, find(&schema, value, value_format)?];
        (self.batches, self.promised) = (batches, promised);
        Ok(())
    }

    /// After the last row.
    fn end(&self) -> Result<Event, String> {
        let Some(promised) = &self.promised else { return Ok(Event::End) };
        let found = self.sum.said();
        match found == *promised {
            true => Ok(Event::End),
            false => Err(format!(
                "the file says that it has {} entries with the checksum {}, and it has {} with \
                 {}: it was damaged, or changed by a program that kept what it says",
                promised.0, promised.1, found.0, found.1
            )),
        }
    }
}

impl Input {
    /// All of it as a file: the formats are read from their end.
    fn seekable(self) -> io::Result<File> {
        let mut input = match self {
            Self::File(file) => return Ok(file),
            Self::Other(input) => input,
        };
        let mut file = tempfile::tempfile()?;
        io::copy(&mut input, &mut file)?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }
}

fn arrow_file(mut file: File) -> Result<Opened, String> {
    let mut begin = [0; ARROW_FILE.len()];
    let is_file = file.read_exact(&mut begin).is_ok() && begin == *ARROW_FILE;
    file.seek(SeekFrom::Start(0)).map_err(no_arrow)?;
    let file = BufReader::new(file);
    if !is_file {
        let reader = StreamReader::try_new(file, None).map_err(no_arrow)?;
        let schema = reader.schema();
        let batches = Box::new(reader.map(|batch| batch.map_err(no_arrow)));
        return Ok(Opened { schema, batches, promised: None });
    }
    let reader = FileReader::try_new(file, None).map_err(no_arrow)?;
    let said = |name: &str| reader.custom_metadata().get(name).cloned();
    let promised = said(ENTRIES).zip(said(CHECKSUM));
    let schema = reader.schema();
    let batches = Box::new(reader.map(|batch| batch.map_err(no_arrow)));
    Ok(Opened { schema, batches, promised })
}

fn no_arrow(error: impl std::fmt::Display) -> String {
    format!("it cannot be read as an Arrow file: {error}")
}

fn parquet_file(file: File) -> Result<Opened, String> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).map_err(no_parquet)?;
    let metadata = builder.metadata().file_metadata();
    // Other programs keep what a file says, and change what it holds.
    let is_ours = metadata.created_by() == Some(CREATED_BY);
    let said = metadata.key_value_metadata().filter(|_| is_ours);
    let said = |name: &str| said?.iter().find(|pair| pair.key == name)?.value.clone();
    let promised = said(ENTRIES).zip(said(CHECKSUM));
    let schema = std::sync::Arc::clone(builder.schema());
    let reader = builder.with_batch_size(ROWS).build().map_err(no_parquet)?;
    let batches = Box::new(reader.map(|batch| batch.map_err(no_parquet)));
    Ok(Opened { schema, batches, promised })
}

fn no_parquet(error: impl std::fmt::Display) -> String {
    format!("it cannot be read as a Parquet file: {error}")
}

/// The column of a name.
fn find(schema: &Schema, name: &str, asked: Option<Format>) -> Result<Column, String> {
    let there: Vec<String> = schema
        .fields()
        .iter()
        .map(|field| format!("\"{}\" ({})", field.name(), field.data_type()))
        .collect();
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    let Some((at, field)) = schema.column_with_name(name) else {
        return Err(format!(
            "a column \"{name}\" is wanted, and there is none; the columns are {there} \
             (--key-field and --value-field name others)"
        ));
    };
    match column::format_of(field.data_type(), asked) {
        Some(format) => Ok(Column { at, format }),
        None => Err(format!(
            "column \"{name}\" holds neither bytes nor text nor numbers; the columns are {there}"
        )),
    }
}
