//! Files of columns give back what went in, and no damage is taken for what went in.

use std::io::Cursor;

use clap::Parser;

use super::*;
use crate::codec::FormatArgs;
use crate::portable::{BadInput, Event, Fields, Portable, Reader as _};

const FORMATS: [Portable; 2] = [Portable::Arrow, Portable::Parquet];

type Pair = (Vec<u8>, Vec<u8>);

#[derive(Parser)]
struct Formats {
    #[command(flatten)]
    formats: FormatArgs,
}

fn formats(arguments: &[&str]) -> FormatArgs {
    Formats::parse_from(std::iter::once(&"test").chain(arguments)).formats
}

fn written(portable: Portable, arguments: &[&str], entries: &[Pair]) -> Result<Vec<u8>, String> {
    let (mut writer, mut out) =
        (Writer::new(portable, b"t\xff", formats(arguments), None)?, Vec::new());
    for (key, value) in entries {
        writer.entry(key, value, &mut out)?;
    }
    writer.finish(&mut out).map(|()| out)
}

fn read(portable: Portable, arguments: &[&str], file: &[u8]) -> Result<Vec<Pair>, BadInput> {
    let input = Input::Other(Box::new(Cursor::new(file.to_vec())));
    let mut reader = Reader::new(input, portable, formats(arguments), &Fields::default());
    let (mut entries, mut key, mut value) = (Vec::new(), Vec::new(), Vec::new());
    while reader.next(&mut key, &mut value)? == Event::Entry {
        entries.push((key.clone(), value.clone()));
    }
    Ok(entries)
}

/// Random bytes, some of them none; some keys are there twice.
fn entries(seed: u64, count: usize) -> Vec<Pair> {
    let mut state = seed;
    let mut next = |end: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % end
    };
    let mut bytes = |len: u64| (0..next(len)).map(|_| next(256) as u8).collect::<Vec<u8>>();
    let mut entries: Vec<Pair> = (0..count).map(|_| (bytes(9), bytes(60))).collect();
    let again = entries.iter().take(count / 4).map(|pair| (pair.0.clone(), b"again".to_vec()));
    let again: Vec<Pair> = again.collect();
    entries.extend(again);
    entries.sort();
    entries
}

#[test]
fn what_goes_in_comes_out() {
    for portable in FORMATS {
        for count in [0, 1, 100, 40_000] {
            let entries = entries(count as u64, count);
            for arguments in [&[][..], &["--format", "text"], &["--value-format", "hex"]] {
                let file = written(portable, arguments, &entries).unwrap();
                assert!(read(portable, arguments, &file).unwrap() == entries, "{portable:?}");
            }
        }
        let long = vec![(vec![1; 100], vec![2; 9 << 20]), (vec![3], vec![])];
        let file = written(portable, &[], &long).unwrap();
        assert!(read(portable, &[], &file).unwrap() == long);
    }
}

#[test]
fn compressed_files_are_read_and_are_shorter() {
    let entries: Vec<Pair> =
        (0..2_000_u32).map(|n| (n.to_be_bytes().to_vec(), vec![b'x'; 100])).collect();
    let file = |portable, compression| {
        let mut out = Vec::new();
        let mut writer = Writer::new(portable, b"t", formats(&[]), compression)?;
        for (key, value) in &entries {
            writer.entry(key, value, &mut out)?;
        }
        writer.finish(&mut out).map(|()| out)
    };
    for portable in FORMATS {
        let plain = file(portable, Some(Compression::None)).unwrap();
        assert_eq!(read(portable, &[], &plain).unwrap(), entries);
        for &compression in Compression::value_variants() {
            match file(portable, Some(compression)) {
                Ok(file) => {
                    assert!(read(portable, &[], &file).unwrap() == entries, "{compression:?}");
                    let is_shorter = file.len() < plain.len() / 2;
                    // Parquet leaves out what is the same without being compressed.
                    let may_be = portable == Portable::Parquet || compression == Compression::None;
                    assert!(is_shorter || may_be, "{portable:?} {compression:?}");
                }
                Err(reason) => {
                    assert_eq!((portable, compression), (Portable::Arrow, Compression::Snappy));
                    assert!(reason.contains("cannot be compressed with snappy"), "{reason}");
                }
            }
        }
    }
}

#[test]
fn numbers_have_columns_of_their_own() {
    use hedgerow::key::KeyCode;
    let encoded = |n: i64, f: f64| {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        <i64 as KeyCode>::encode(n, &mut key);
        <f64 as KeyCode>::encode(f, &mut value);
        (key, value)
    };
    let entries: Vec<Pair> = [(i64::MIN, -0.5), (-1, f64::INFINITY), (0, 0.1), (7, -1e300)]
        .map(|(n, f)| encoded(n, f))
        .into();
    let arguments = ["--key-format", "i64", "--value-format", "f64"];
    for portable in FORMATS {
        let file = written(portable, &arguments, &entries).unwrap();
        assert_eq!(read(portable, &arguments, &file).unwrap(), entries);
        // The types of the columns say it as well.
        assert_eq!(read(portable, &[], &file).unwrap(), entries);
        let wrong = written(portable, &["--format", "u32"], &entries).unwrap_err();
        assert!(wrong.contains("no u32"), "{wrong}");
    }
}

#[test]
fn a_stream_of_arrow_is_read_as_well() {
    use arrow_array::{ArrayRef, Int16Array, RecordBatch, StringArray};
    use std::sync::Arc;
    let key: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let value: ArrayRef = Arc::new(Int16Array::from(vec![Some(-1), None]));
    let batch = RecordBatch::try_from_iter([("key", key), ("value", value)]).unwrap();
    let mut stream = arrow_ipc::writer::StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    let bad = read(Portable::Arrow, &[], &stream.into_inner().unwrap()).unwrap_err();
    assert_eq!(bad.line, 2);
    assert!(bad.reason.contains("column \"value\": there is no value"), "{}", bad.reason);
}

#[test]
fn the_columns_that_are_wanted_are_named() {
    use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
    use std::sync::Arc;
    let column: ArrayRef = Arc::new(BooleanArray::from(vec![true]));
    for (names, wanted) in [
        (["key", "v"], "holds neither bytes nor text nor numbers"),
        (["k", "value"], "a column \"key\" is wanted, and there is none; the columns are \"k\""),
    ] {
        let columns = names.map(|name| (name, Arc::clone(&column)));
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let mut file = arrow_ipc::writer::FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
        file.write(&batch).unwrap();
        let bad = read(Portable::Arrow, &[], &file.into_inner().unwrap()).unwrap_err();
        assert!(bad.reason.contains(wanted), "{}", bad.reason);
    }
    for portable in FORMATS {
        for nonsense in [&b""[..], b"PAR1", b"ARROW1\0\0", &[0xff; 100]] {
            assert!(read(portable, &[], nonsense).is_err(), "{portable:?}");
        }
    }
}

#[test]
fn no_damage_is_taken_for_what_went_in() {
    let entries = entries(5, 30);
    for portable in FORMATS {
        let file = written(portable, &[], &entries).unwrap();
        for at in 0..file.len() {
            for bit in [1, 0x80] {
                let mut damaged = file.clone();
                damaged[at] ^= bit;
                let Ok(found) = read(portable, &[], &damaged) else { continue };
                assert!(found == entries, "{portable:?}, byte {at}");
            }
        }
        for len in 0..file.len() {
            let read = read(portable, &[], &file[..len]);
            assert!(read.is_err(), "{portable:?}, {len} bytes");
        }
    }
}

/// A buffer that says of itself that it is too long to be had in memory.
#[test]
fn lengths_that_cannot_be_are_refused() {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, RecordBatch as Batch};
    use arrow_ipc::CompressionType;
    use arrow_ipc::writer::{FileWriter, IpcWriteOptions, StreamWriter};

    let column = || Arc::new(BinaryArray::from_iter_values([[b'x'; 1000]; 50])) as ArrayRef;
    let batch = Batch::try_from_iter([("key", column()), ("value", column())]).unwrap();
    let options = IpcWriteOptions::default();
    let options = options.try_with_compression(Some(CompressionType::LZ4_FRAME)).unwrap();
    let mut writer =
        FileWriter::try_new_with_options(Vec::new(), &batch.schema(), options.clone()).unwrap();
    writer.write(&batch).unwrap();
    let file = writer.into_inner().unwrap();
    let mut writer =
        StreamWriter::try_new_with_options(Vec::new(), &batch.schema(), options).unwrap();
    writer.write(&batch).unwrap();
    let stream = writer.into_inner().unwrap();
    for whole in [file, stream] {
        assert_eq!(read(Portable::Arrow, &[], &whole).unwrap().len(), 50);
        let frames = whole.windows(4).enumerate().filter(|(_, four)| four == b"\x04\x22\x4d\x18");
        let places: Vec<usize> = frames.map(|(at, _)| at - 8).collect();
        assert!(places.len() >= 2);
        for at in places {
            for said in [1 << 37, 1 << 45, i64::MAX] {
                let mut bytes = whole.clone();
                bytes[at..at + 8].copy_from_slice(&i64::to_le_bytes(said));
                let refused = read(Portable::Arrow, &[], &bytes).unwrap_err();
                assert!(refused.reason.contains("damaged"), "{}", refused.reason);
            }
        }
    }
}

/// Hunts for parts that are said to be much longer than the file, and for which memory is taken
/// before that is noticed.
#[test]
fn parts_that_go_beyond_the_end_are_refused() {
    let file = written(Portable::Arrow, &[], &entries(5, 30)).unwrap();
    let end = file.len() - 10;
    let len = i32::from_le_bytes(file[end..end + 4].try_into().unwrap());
    let footer = &file[end - len as usize..end];
    let footer = arrow_ipc::root_as_footer(footer).unwrap();
    let block = *footer.recordBatches().unwrap().get(0);
    let bytes = block.0;
    let block = file.windows(bytes.len()).rposition(|window| window == bytes).unwrap();
    let mut damaged: Vec<Vec<u8>> = vec![b"zzzz: text".to_vec()];
    for at in [block + 8, block + 16] {
        let mut file = file.clone();
        file[at..at + 4].copy_from_slice(&(2_000_000_000_u32).to_le_bytes());
        damaged.push(file);
    }
    for file in damaged {
        let refused = read(Portable::Arrow, &[], &file).unwrap_err();
        assert!(refused.reason.contains("it ends at byte"), "{}", refused.reason);
    }
}
