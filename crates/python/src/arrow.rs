//! Arrow streams of the C data interface, out of a view and into a table, written by hand: two
//! structs of pointers are all that it takes. What a stream holds stands in `columns`.

#![expect(unsafe_code, reason = "the C data interface is one of pointers")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use hedgerow::stream::{Pairs, Run, Source};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};

use crate::columns::{Column, Columns, Field, Filled, Reader, Spare};

/// `ArrowSchema`.
#[repr(C)]
struct Schema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut Schema,
    dictionary: *mut Schema,
    release: Option<unsafe extern "C" fn(*mut Schema)>,
    private_data: *mut c_void,
}

/// `ArrowArray`.
#[repr(C)]
struct Array {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut Array,
    dictionary: *mut Array,
    release: Option<unsafe extern "C" fn(*mut Array)>,
    private_data: *mut c_void,
}

/// `ArrowArrayStream`.
#[repr(C)]
struct Stream {
    get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut Stream)>,
    private_data: *mut c_void,
}

const NAME: &CStr = c"arrow_array_stream";
const EIO: c_int = 5;
/// `ARROW_FLAG_NULLABLE`.
const NULLABLE: i64 = 2;

/// What a schema keeps until it is released.
struct KeptSchema {
    _texts: Vec<CString>,
    children: Vec<*mut Schema>,
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the consumer releases a schema that `schema_of` made, once.
    unsafe {
        let kept = Box::from_raw((*schema).private_data.cast::<KeptSchema>());
        for child in &kept.children {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*schema).release = None;
    }
}

fn schema_of(format: &str, name: &str, children: Vec<Schema>) -> Schema {
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let texts = vec![text(format), text(name)];
    let (format, name) = (texts[0].as_ptr(), texts[1].as_ptr());
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child)));
    let mut kept = Box::new(KeptSchema { _texts: texts, children: children.collect() });
    let (n_children, children) = (kept.children.len() as i64, kept.children.as_mut_ptr());
    Schema {
        format,
        name,
        metadata: null(),
        flags: 0,
        n_children,
        children,
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(kept).cast(),
    }
}

/// What an array keeps until it is released.
struct KeptArray {
    /// Its number and rows, and where its memory goes afterwards.
    column: Option<(usize, Filled, Arc<Spare>)>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: the consumer releases an array that `array_of` made, once.
    unsafe {
        let mut kept = Box::from_raw((*array).private_data.cast::<KeptArray>());
        for child in &kept.children {
            if let Some(release) = (**child).release {
                release(*child);
            }
            drop(Box::from_raw(*child));
        }
        (*array).release = None;
        if let Some((n, Filled { column: Some(column), .. }, spare)) = kept.column.take() {
            spare.keep(n, column);
        }
    }
}

fn array_of(
    length: usize,
    column: Option<(usize, Filled, Arc<Spare>)>,
    children: Vec<Array>,
) -> Array {
    let filled = column.as_ref().map(|(_, filled, _)| filled);
    // Where there are no nulls, the first buffer, which tells them, is missing.
    let mut buffers = match filled.and_then(|filled| filled.valid.as_ref()) {
        Some(valid) => vec![valid.as_ptr().cast()],
        None => vec![null()],
    };
    match filled.map(|filled| &filled.column) {
        Some(Some(Column::Bytes { ends, data, .. })) => {
            buffers.extend([ends.as_ptr().cast(), data.as_ptr().cast()]);
        }
        Some(Some(Column::Words { data, .. })) => buffers.push(data.as_ptr().cast()),
        Some(Some(Column::Bits { data, .. })) => buffers.push(data.as_ptr().cast()),
        Some(None) => buffers.clear(),
        None => {}
    }
    let null_count = filled.map_or(0, |filled| filled.nulls) as i64;
    let children = children.into_iter().map(|child| Box::into_raw(Box::new(child)));
    let mut kept = Box::new(KeptArray { column, buffers, children: children.collect() });
    Array {
        length: length as i64,
        null_count,
        offset: 0,
        n_buffers: kept.buffers.len() as i64,
        n_children: kept.children.len() as i64,
        buffers: kept.buffers.as_mut_ptr(),
        children: kept.children.as_mut_ptr(),
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(kept).cast(),
    }
}

/// Rows that a stream gives, a batch at a time.
pub(crate) trait Batches: Send {
    fn fields(&self) -> Vec<Field>;

    /// How many rows the next batch has, none at the end, and its columns.
    fn next(&mut self) -> Result<(usize, Vec<Filled>), String>;
}

/// What a stream keeps: a consumer may call it in any thread, without the interpreter.
struct Producer {
    batches: Box<dyn Batches>,
    spare: Arc<Spare>,
    error: CString,
}

impl Producer {
    /// The next batch; one without rows at the end.
    fn next(&mut self) -> Result<Array, String> {
        let (length, columns) = self.batches.next()?;
        let spare = &self.spare;
        let array =
            |(n, filled)| array_of(length, Some((n, filled, Arc::clone(spare))), Vec::new());
        let columns = columns.into_iter().enumerate().map(array);
        Ok(array_of(length, None, columns.collect()))
    }
}

/// The pairs of a stream as rows.
struct Rows<S: Source> {
    pairs: Pairs<S>,
    run: Run<S::Snapshot>,
    columns: Columns,
    spare: Arc<Spare>,
}

/// A batch has at most this many pairs, and about this many bytes.
const PAIRS_MAX: usize = 64 << 10;
const BYTES_MAX: usize = 16 << 20;
/// Pairs that are read from the store at a time.
const RUN_PAIRS: usize = 128;
const RUN_BYTES: u64 = 1 << 20;

impl<S: Source> Batches for Rows<S>
where
    Pairs<S>: Send,
    Run<S::Snapshot>: Send,
{
    fn fields(&self) -> Vec<Field> {
        self.columns.fields()
    }

    fn next(&mut self) -> Result<(usize, Vec<Filled>), String> {
        self.columns.clear();
        while self.columns.len() < PAIRS_MAX && self.columns.bytes() < BYTES_MAX {
            let filled = self.pairs.fill(&mut self.run, RUN_PAIRS, RUN_BYTES);
            filled.map_err(|error| error.to_string())?;
            if self.run.is_empty() {
                break;
            }
            let columns = &mut self.columns;
            self.run.each(0..self.run.len(), |key, value| columns.push(key, value))?;
        }
        let length = self.columns.len();
        let columns = self.columns.take(&self.spare).into_iter();
        Ok((length, columns.map(Filled::from).collect()))
    }
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the consumer has a stream that `export` made, and a place for the schema.
    unsafe {
        let producer = &*(*stream).private_data.cast::<Producer>();
        let fields = producer.batches.fields().into_iter();
        let children = fields.map(|Field { name, format, is_nullable }| {
            let flags = if is_nullable { NULLABLE } else { 0 };
            Schema { flags, ..schema_of(&format, &name, Vec::new()) }
        });
        out.write(schema_of("+s", "", children.collect()));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: the consumer has a stream that `export` made, and a place for the array.
    unsafe {
        let producer = &mut *(*stream).private_data.cast::<Producer>();
        match producer.next() {
            Ok(array) if array.length > 0 => out.write(array),
            Ok(mut array) => {
                release_array(&raw mut array);
                // An array that is released says that there are no more.
                (*out).release = None;
            }
            Err(error) => {
                producer.error = CString::new(error.replace('\0', "")).unwrap_or_default();
                return EIO;
            }
        }
    }
    0
}

unsafe extern "C" fn get_last_error(stream: *mut Stream) -> *const c_char {
    // SAFETY: the consumer has a stream that `export` made.
    unsafe { (*(*stream).private_data.cast::<Producer>()).error.as_ptr() }
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: the consumer releases a stream that `export` made, once.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<Producer>()));
        (*stream).release = None;
    }
}

/// A stream in a capsule, at its beginning, which releases it if no consumer has taken it over.
#[repr(transparent)]
struct Exported(Stream);

// SAFETY: what the stream keeps may be used by any thread, one at a time, which the interface asks
// of consumers.
unsafe impl Send for Exported {}
// SAFETY: the capsule hands out its address only.
unsafe impl Sync for Exported {}

impl Drop for Exported {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: it has not been released.
            unsafe { release(&raw mut self.0) };
        }
    }
}

/// The pairs of a stream as an Arrow stream.
pub(crate) fn export<S: Source + 'static>(
    py: Python<'_>,
    pairs: Pairs<S>,
    columns: Columns,
) -> PyResult<Bound<'_, PyCapsule>>
where
    Pairs<S>: Send,
    Run<S::Snapshot>: Send,
{
    let (run, spare) = (Run::default(), Arc::new(Spare::new()));
    let rows = Rows { pairs, run, columns, spare: Arc::clone(&spare) };
    export_all(py, Box::new(rows), spare)
}

/// Rows as an Arrow stream.
pub(crate) fn export_all(
    py: Python<'_>,
    batches: Box<dyn Batches>,
    spare: Arc<Spare>,
) -> PyResult<Bound<'_, PyCapsule>> {
    let producer = Producer { batches, spare, error: CString::default() };
    let stream = Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(Box::new(producer)).cast(),
    };
    PyCapsule::new_with_value(py, Exported(stream), NAME)
}

/// A stream that was taken over from a producer.
struct Taken(Stream);

// SAFETY: the interface lets any thread use a stream, one at a time.
unsafe impl Send for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        if let Some(release) = self.0.release {
            // SAFETY: it is ours, and not released.
            unsafe { release(&raw mut self.0) };
        }
    }
}

/// A schema or an array of a producer, released at the end.
struct Lent<T>(T, Option<unsafe extern "C" fn(*mut T)>);

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        if let Some(release) = self.1 {
            // SAFETY: it is ours, and not released.
            unsafe { release(&raw mut self.0) };
        }
    }
}

impl Taken {
    fn failure(&mut self, code: c_int) -> PyErr {
        let text = self.0.get_last_error.map(|get| {
            // SAFETY: the stream is not released; it answers a string, or none.
            unsafe {
                let text = get(&raw mut self.0);
                if text.is_null() { None } else { Some(CStr::from_ptr(text).to_string_lossy()) }
            }
        });
        let text = text.flatten().unwrap_or_default();
        PyValueError::new_err(format!("the Arrow stream failed with code {code}: {text}"))
    }

    fn schema(&mut self) -> PyResult<Lent<Schema>> {
        // SAFETY: a struct of pointers and numbers may be all zeros.
        let mut schema: Schema = unsafe { std::mem::zeroed() };
        let get = self.0.get_schema.ok_or_else(|| PyValueError::new_err("a released stream"))?;
        // SAFETY: the stream is not released, and there is a place for the schema.
        match unsafe { get(&raw mut self.0, &raw mut schema) } {
            0 => {
                let release = schema.release;
                Ok(Lent(schema, release))
            }
            code => Err(self.failure(code)),
        }
    }

    /// The next batch; `None` at the end.
    fn next(&mut self) -> PyResult<Option<Lent<Array>>> {
        // SAFETY: a struct of pointers and numbers may be all zeros.
        let mut array: Array = unsafe { std::mem::zeroed() };
        let get = self.0.get_next.ok_or_else(|| PyValueError::new_err("a released stream"))?;
        // SAFETY: the stream is not released, and there is a place for the array.
        match unsafe { get(&raw mut self.0, &raw mut array) } {
            0 => {
                let release = array.release;
                Ok(release.map(|_| Lent(array, release)))
            }
            code => Err(self.failure(code)),
        }
    }
}

/// Name and format of the columns of a schema.
fn fields(schema: &Schema) -> PyResult<Vec<Field>> {
    // SAFETY: the producer has set the texts, and as many children as it says.
    unsafe {
        let text = |text: *const c_char| match text.is_null() {
            true => String::new(),
            false => CStr::from_ptr(text).to_string_lossy().into_owned(),
        };
        if text(schema.format) != "+s" {
            return Err(PyTypeError::new_err("the Arrow stream has no columns"));
        }
        let child = |n: i64| {
            let child = &**schema.children.add(n as usize);
            let format = match child.dictionary.is_null() {
                true => text(child.format),
                false => "dictionary".to_owned(),
            };
            Field { name: text(child.name), format, is_nullable: child.flags & NULLABLE != 0 }
        };
        Ok((0..schema.n_children).map(child).collect())
    }
}

/// A column of a batch, whose rows begin at `offset`.
fn reader<'a>(batch: &'a Array, n: usize, format: &str) -> PyResult<Reader<'a>> {
    // SAFETY: the producer has set as many children and buffers as the format asks for, of at least
    // the lengths that follow from length and offset, which it checked.
    unsafe {
        let array = &**batch.children.add(n);
        let buffers = std::slice::from_raw_parts(array.buffers, array.n_buffers as usize);
        let offset = (array.offset + batch.offset) as usize;
        let rows = offset + batch.length as usize;
        let bytes = |n: usize, len: usize| match buffers.get(n) {
            Some(buffer) if !buffer.is_null() => {
                std::slice::from_raw_parts(buffer.cast::<u8>(), len)
            }
            _ => &[][..],
        };
        let valid = match array.null_count {
            0 => &[][..],
            _ => bytes(0, rows.div_ceil(8)),
        };
        let mut parts: Vec<&[u8]> = Vec::new();
        match format {
            "u" | "z" | "U" | "Z" => {
                let width = if format == "u" || format == "z" { 4 } else { 8 };
                let ends = bytes(1, (rows + 1) * width);
                let len = ends.last_chunk::<8>().map_or(0, |last| match width {
                    4 => u64::from(u32::from_le_bytes([last[4], last[5], last[6], last[7]])),
                    _ => u64::from_le_bytes(*last),
                });
                let len = match ends.len() {
                    4 => u32::from_le_bytes([ends[0], ends[1], ends[2], ends[3]]).into(),
                    _ => len,
                };
                parts.extend([ends, bytes(2, len as usize)]);
            }
            "vu" | "vz" => {
                parts.push(bytes(1, rows * 16));
                let last = buffers.len() - 1;
                let sizes = std::slice::from_raw_parts(buffers[last].cast::<i64>(), last - 2);
                parts.extend((2..last).map(|n| bytes(n, sizes[n - 2] as usize)));
            }
            "b" => parts.push(bytes(1, rows.div_ceil(8))),
            _ => {
                let width = Reader::width(format).ok_or_else(|| {
                    let reason = format!("a column of the Arrow format {format:?} is not taken");
                    PyTypeError::new_err(reason)
                })?;
                parts.push(bytes(1, rows * width));
            }
        }
        Ok(Reader::new(format, valid, parts, offset))
    }
}

/// Takes over the stream of an object, and hands the rows of the columns that `choose` names to
/// `see`, a batch at a time.
pub(crate) fn import(
    from: &Bound<'_, PyAny>,
    choose: impl FnOnce(&[Field]) -> PyResult<Vec<usize>>,
    mut see: impl FnMut(usize, &[Reader<'_>]) -> PyResult<()>,
) -> PyResult<()> {
    let capsule = from.call_method0("__arrow_c_stream__")?.cast_into::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(NAME))?.cast::<Stream>().as_ptr();
    // SAFETY: a capsule of that name has such a stream, which is taken over by marking it released.
    let mut stream = unsafe {
        let taken = Taken(pointer.read());
        (*pointer).release = None;
        taken
    };
    let schema = stream.schema()?;
    let fields = fields(&schema.0)?;
    let chosen = choose(&fields)?;
    let py = from.py();
    while let Some(batch) = py.detach(|| stream.next().map(Passed))?.0 {
        let columns = chosen.iter().map(|n| reader(&batch.0, *n, &fields[*n].format));
        let columns = columns.collect::<PyResult<Vec<_>>>()?;
        see(batch.0.length as usize, &columns)?;
        py.check_signals()?;
    }
    Ok(())
}

/// A batch on its way out of a call during which other threads run.
struct Passed(Option<Lent<Array>>);

// SAFETY: it is used by the thread that made the call only.
unsafe impl Send for Passed {}
