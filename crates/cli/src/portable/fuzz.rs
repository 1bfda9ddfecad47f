//! What a fuzzer calls.

use clap::ValueEnum as _;

use super::{
    BadInput, Event, Fields, Layout, Portable, TableHeader, Writer, csv, jsonl, lines, mdb, reader,
};
use crate::codec::FormatArgs;

/// A key and its value.
type Entry = (Vec<u8>, Vec<u8>);

/// Reads any bytes as a dump, in every format of text. Nothing panics, and the entries that were
/// read are the same when they are written and read once more.
///
/// # Panics
/// If they are not.
pub fn dump(bytes: &[u8]) {
    let formats = FormatArgs::default();
    // Files of columns are read by the crates of these formats.
    for portable in Portable::value_variants().iter().filter(|p| !p.has_columns()) {
        let Ok(first) = entries(*portable, bytes.to_vec()) else { continue };
        let mut writer = match portable {
            Portable::Mdb => {
                Writer::Mdb(mdb::Writer::new(bytes.len().is_multiple_of(2), 0, 4096, true))
            }
            Portable::Lines => Writer::Lines(lines::Writer::new(formats, Layout::default())),
            Portable::Csv => Writer::Csv(csv::Writer::new(formats, b',')),
            _ => Writer::Jsonl(jsonl::Writer::new(formats)),
        };
        let mut out = Vec::new();
        writer.table(&TableHeader::default(), &mut out);
        for (key, value) in &first {
            let written = writer.entry(key, value, &mut out);
            assert_eq!(written, Ok(()), "{portable:?}");
        }
        assert_eq!(writer.end(&mut out), Ok(()));
        let again = entries(*portable, out);
        assert!(again.as_ref() == Ok(&first), "{portable:?}: {first:?} became {again:?}");
    }
}

/// The entries of a dump, of all its tables together.
fn entries(portable: Portable, bytes: Vec<u8>) -> Result<Vec<Entry>, BadInput> {
    let input = Box::new(std::io::Cursor::new(bytes));
    let mut reader = reader(input, portable, FormatArgs::default(), &Fields::default());
    let (mut all, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        match reader.next(&mut key, &mut value)? {
            Event::Table(_) => {}
            Event::Entry => all.push((key.clone(), value.clone())),
            Event::End => return Ok(all),
        }
    }
}
