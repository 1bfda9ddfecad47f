//! Reading Arrow and Parquet files, a batch of rows at a time.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom};
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};

use arrow_array::RecordBatch;
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, SchemaRef};
use hedgerow::stream::arrow::{Columns, Rows};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

use super::lengths::Lengths;
use super::{CHECKSUM, CREATED_BY, ENTRIES, form, said};
use crate::codec::FormatArgs;
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

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// Reads rows as entries.
pub(crate) struct Reader {
    /// What was not opened yet.
    input: Option<Input>,
    portable: Portable,
    columns: Columns,
    rows: Option<Rows<Batches>>,
    done: u64,
    promised: Option<Promise>,
}

/// Entries and their checksum, as the file says them.
type Promise = (String, String);

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
        let columns = Columns::new()
            .named(&fields.key, &fields.value)
            .forms_if(formats.key_asked().map(form), formats.value_asked().map(form));
        Self { input: Some(input), portable, columns, rows: None, done: 0, promised: None }
    }

    fn open(&mut self, input: Input) -> Result<Rows<Batches>, String> {
        let file = input.seekable().map_err(|error| format!("it cannot be read: {error}"))?;
        let opened = caught(|| match self.portable {
            Portable::Parquet => parquet_file(file),
            _ => arrow_file(file),
        });
        let Opened { schema, mut batches, promised } = opened??;
        self.promised = promised;
        let batches: Batches = Box::new(std::iter::from_fn(move || {
            caught(|| batches.next())
                .unwrap_or_else(|reason| Some(Err(ArrowError::ParseError(reason))))
        }));
        Rows::of_batches(batches, &schema, &self.columns)
            .map_err(|error| format!("{error} (--key-field and --value-field name others)"))
    }

    /// After the last row.
    fn end(&self) -> Result<Event, String> {
        let (Some(promised), Some(rows)) = (&self.promised, &self.rows) else {
            return Ok(Event::End);
        };
        let found = said(rows.pair_sum());
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

impl super::super::Reader for Reader {
    fn next(&mut self, key: &mut Vec<u8>, value: &mut Vec<u8>) -> Result<Event, BadInput> {
        if let Some(input) = self.input.take() {
            let opened = self.open(input);
            self.rows = Some(opened.map_err(|reason| BadInput { line: 1, reason })?);
        }
        let Some(rows) = &mut self.rows else { return Ok(Event::End) };
        let found = rows.next_into(key, value);
        if found.map_err(|error| BadInput { line: error.row, reason: error.reason })? {
            self.done += 1;
            return Ok(Event::Entry);
        }
        let line = self.done + 1;
        self.end().map_err(|reason| BadInput { line, reason })
    }

    /// The last row that was read.
    fn line(&self) -> u64 {
        self.done
    }

    fn unit(&self) -> &'static str {
        "row"
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

/// Runs what the crate of a format does, which may panic where a file is damaged; then the message
/// of that is the error.
fn caught<T>(read: impl FnOnce() -> T) -> Result<T, String> {
    // The hook that would print the message is one for all threads.
    static HOOK: Mutex<()> = Mutex::new(());
    let _one = HOOK.lock().unwrap_or_else(PoisonError::into_inner);
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = panic::catch_unwind(AssertUnwindSafe(read));
    panic::set_hook(hook);
    done.map_err(|payload| {
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        format!("it is damaged: {}", text.unwrap_or("its reader gave up"))
    })
}

fn arrow_file(mut file: File) -> Result<Opened, String> {
    let mut begin = [0; ARROW_FILE.len()];
    let is_file = file.read_exact(&mut begin).is_ok() && begin == *ARROW_FILE;
    file.seek(SeekFrom::Start(0)).map_err(no_arrow)?;
    let lengths = Lengths::of(&file).map_err(no_arrow)?;
    if is_file {
        lengths.of_file()?
    } else {
        lengths.of_stream()?
    }
    let file = BufReader::new(file);
    if !is_file {
        let reader = StreamReader::try_new(file, None).map_err(no_arrow)?;
        let schema = reader.schema();
        return Ok(Opened { schema, batches: Box::new(reader), promised: None });
    }
    let reader = FileReader::try_new(file, None).map_err(no_arrow)?;
    let said = |name: &str| reader.custom_metadata().get(name).cloned();
    let promised = said(ENTRIES).zip(said(CHECKSUM));
    let schema = reader.schema();
    Ok(Opened { schema, batches: Box::new(reader), promised })
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
    Ok(Opened { schema, batches: Box::new(reader), promised })
}

fn no_parquet(error: impl std::fmt::Display) -> String {
    format!("it cannot be read as a Parquet file: {error}")
}
