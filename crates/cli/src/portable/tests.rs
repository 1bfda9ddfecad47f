//! Every portable format: what it looks like, that it gives back what went in, and that nonsense is
//! refused with the number of its line.

use std::cell::Cell;
use std::io::Read;
use std::rc::Rc;

use clap::Parser;

use super::*;
use crate::open::OrderName;

#[derive(Parser)]
struct Formats {
    #[command(flatten)]
    formats: FormatArgs,
}

fn formats(arguments: &[&str]) -> FormatArgs {
    Formats::parse_from(std::iter::once(&"test").chain(arguments)).formats
}

const ENTRIES: [(&[u8], &[u8]); 6] = [
    (b"", b"empty key"),
    (b"a,\"b\"", b"comma, \"quotes\""),
    (b"back\\slash", b""),
    (b"bytes \x00\x01\r\n\t\xff", b"\\00"),
    (b"same", b"1"),
    (b"same", b"2"),
];

fn written(writer: &mut Writer, header: &TableHeader) -> Vec<u8> {
    let mut out = Vec::new();
    writer.table(header, &mut out);
    for (key, value) in ENTRIES {
        writer.entry(key, value, &mut out).unwrap();
    }
    writer.end(&mut out).unwrap();
    out
}

type Dump = Result<(Vec<TableHeader>, Vec<(Vec<u8>, Vec<u8>)>), BadInput>;

fn read(portable: Portable, formats: FormatArgs, input: &[u8]) -> Dump {
    let input = Box::new(std::io::Cursor::new(input.to_vec()));
    let mut reader = reader(input, portable, formats, &Fields::default());
    let (mut tables, mut entries) = (Vec::new(), Vec::new());
    let (mut key, mut value) = (Vec::new(), Vec::new());
    loop {
        match reader.next(&mut key, &mut value)? {
            Event::Table(header) => tables.push(header),
            Event::Entry => entries.push((key.clone(), value.clone())),
            Event::End => return Ok((tables, entries)),
        }
    }
}

fn owned() -> Vec<(Vec<u8>, Vec<u8>)> {
    ENTRIES.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect()
}

#[test]
fn entries_survive_every_format() {
    for arguments in [
        &["--format", "text"][..],
        &["--format", "hex"],
        &["--format", "base64"],
        &["--key-format", "base64", "--value-format", "hex"],
    ] {
        let formats = formats(arguments);
        for (portable, mut writer) in [
            (Portable::Lines, Writer::Lines(lines::Writer::new(formats, Layout::default()))),
            (Portable::Csv, Writer::Csv(csv::Writer::new(formats, b','))),
            (Portable::Jsonl, Writer::Jsonl(jsonl::Writer::new(formats))),
        ] {
            let out = written(&mut writer, &TableHeader::default());
            assert_eq!(read(portable, formats, &out).unwrap(), (Vec::new(), owned()));
        }
    }
}

#[test]
fn tables_and_their_options_survive_mdb() {
    let orders = [
        OrderName::Bytewise,
        OrderName::Reverse,
        OrderName::Integer,
        OrderName::Custom("by \u{fc}ber\n".into()),
    ];
    for name in [&b"main"[..], b"other", "\u{fc}ber".as_bytes(), b"two\nlines", b"\xff\\", b""] {
        for order in &orders {
            for duplicates in [
                None,
                Some(DuplicatesHeader { order: order.clone(), fixed: false, size: None }),
                Some(DuplicatesHeader { order: order.clone(), fixed: true, size: Some(8) }),
            ] {
                let header = TableHeader {
                    name: Some(name.to_vec()),
                    order: order.clone(),
                    prefix_compression: duplicates.is_some().then_some(false),
                    duplicates,
                    user_flags: 7,
                };
                for print in [true, false] {
                    let mut writer = Writer::Mdb(mdb::Writer::new(print, 1, 4096, true));
                    let out = written(&mut writer, &header);
                    let back = read(Portable::Mdb, formats(&[]), &out).unwrap();
                    assert_eq!(back, (vec![header.clone()], owned()));
                }
            }
        }
    }
}

#[test]
fn mdb_is_what_mdb_dump_prints() {
    let header = TableHeader {
        name: Some(b"main".to_vec()),
        duplicates: Some(DuplicatesHeader::default()),
        ..TableHeader::default()
    };
    let mut out = Vec::new();
    let mut writer = Writer::Mdb(mdb::Writer::new(true, 0, 4096, false));
    writer.table(&header, &mut out);
    writer.entry(b"a\\b", b"\x00z", &mut out).unwrap();
    writer.end(&mut out).unwrap();
    let expected = "VERSION=3\nformat=print\ntype=btree\nmapsize=67108864\nmaxreaders=126\n\
                    duplicates=1\ndupsort=1\ndb_pagesize=4096\nHEADER=END\n a\\\\b\n \\00z\n\
                    DATA=END\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn a_dump_of_several_databases_is_read() {
    let dump = b"VERSION=3\nformat=bytevalue\ndatabase=one\ntype=btree\nmapsize=1048576\n\
                 mapaddr=0x7f0000000000\nmaxreaders=126\ninteger=1\nintegerkey=1\n\
                 db_pagesize=4096\nHEADER=END\n 01000000\n 61\nDATA=END\n\
                 VERSION=3\nformat=print\ndatabase=two\ntype=btree\nduplicates=1\ndupsort=1\n\
                 dupfixed=1\nintegerdup=1\nHEADER=END\n k\n \\01\\00\\00\\00\n k\n \\5c123\n\
                 DATA=END\n";
    let (tables, entries) = read(Portable::Mdb, formats(&[]), dump).unwrap();
    let [one, two] = &tables[..] else { panic!("{tables:?}") };
    assert_eq!((one.name.as_deref(), &one.order), (Some(&b"one"[..]), &OrderName::Integer));
    assert_eq!(one.duplicates, None);
    let values = DuplicatesHeader { order: OrderName::Integer, fixed: true, size: None };
    assert_eq!((two.name.as_deref(), &two.duplicates), (Some(&b"two"[..]), &Some(values)));
    let pair = |key: &[u8], value: &[u8]| (key.to_vec(), value.to_vec());
    let expected = [pair(b"\x01\0\0\0", b"a"), pair(b"k", b"\x01\0\0\0"), pair(b"k", b"\\123")];
    assert_eq!(entries, expected);
}

#[test]
fn nonsense_is_refused_with_its_line() {
    let head = "VERSION=3\nformat=bytevalue\ntype=btree\nHEADER=END\n";
    for (portable, input, line) in [
        (Portable::Mdb, "hello\n".to_owned(), 1),
        (Portable::Mdb, "VERSION=4\n".to_owned(), 1),
        (Portable::Mdb, "VERSION=3\nformat=octal\n".to_owned(), 2),
        (Portable::Mdb, "VERSION=3\ntype=hash\n".to_owned(), 2),
        (Portable::Mdb, "VERSION=3\n".to_owned(), 1),
        (Portable::Mdb, format!("{head} 00\n"), 5),
        (Portable::Mdb, format!("{head} 00\nDATA=END\n"), 6),
        (Portable::Mdb, format!("{head} 00\n 0\n"), 6),
        (Portable::Mdb, format!("{head} 00\n zz\n"), 6),
        (Portable::Mdb, format!("{head}00\n"), 5),
        (Portable::Lines, "a\tb\nc\n".to_owned(), 2),
        (Portable::Lines, "a\tb\\\n".to_owned(), 1),
        (Portable::Csv, "a,b\n".to_owned(), 1),
        (Portable::Csv, "key,value\na,b\nc\n".to_owned(), 3),
        (Portable::Csv, "k,value\na,b\n".to_owned(), 1),
        (Portable::Jsonl, "{\"key\":\"a\",\"value\":\"b\"}\n{\"key\":\"a\"}\n".to_owned(), 2),
        (Portable::Jsonl, "{\"key\":\"a\",\"value\":null}\n".to_owned(), 1),
        (Portable::Jsonl, "{\"key_base64\":\"?\",\"value\":\"\"}\n".to_owned(), 1),
        (Portable::Jsonl, "[1]\n".to_owned(), 1),
        (Portable::Jsonl, "{\n".to_owned(), 1),
    ] {
        let result = read(portable, formats(&[]), input.as_bytes());
        assert_eq!(result.map_err(|bad| bad.line), Err(line), "{portable:?} {input}");
    }
}

/// Random entries: of any bytes, of UTF-8, of bytes that formats treat in a way of their own.
fn random(state: &mut u64) -> Vec<u8> {
    let mut next = |below: u64| {
        *state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % below
    };
    let (kind, length) = (next(4), next(12));
    let special = "\\\",\t\r\n\0'{} ;dead\u{e9}\u{1f98a}key";
    let mut bytes = Vec::new();
    for _ in 0..length {
        match kind {
            0 => bytes.push(next(256) as u8),
            1 => bytes.push(b"\\\",\t\r\n\0 41fF;"[next(13) as usize]),
            _ => {
                let at = next(special.chars().count() as u64) as usize;
                let character = special.chars().nth(at).unwrap();
                bytes.extend_from_slice(character.to_string().as_bytes());
            }
        }
    }
    bytes
}

/// Entries that a writer accepts come back unchanged; entries that it refuses leave no trace.
#[test]
fn random_bytes_survive_every_format_and_option_or_are_refused() {
    let options: [(Portable, &[&str], Layout); 12] = {
        let plain = Layout::default();
        let null = Layout { null: true, ..plain };
        let keys = Layout { keys_only: true, ..plain };
        let both = Layout { keys_only: true, ..null };
        [
            (Portable::Lines, &[], plain),
            (Portable::Lines, &["--format", "raw"], plain),
            (Portable::Lines, &[], null),
            (Portable::Lines, &[], keys),
            (Portable::Lines, &[], both),
            (Portable::Csv, &[], plain),
            (Portable::Csv, &["--format", "raw"], Layout { delimiter: b';', ..plain }),
            (Portable::Csv, &["--format", "text"], Layout { delimiter: b'\t', ..plain }),
            (Portable::Jsonl, &[], plain),
            (Portable::Jsonl, &["--format", "text"], plain),
            (Portable::Jsonl, &["--key-format", "base64"], plain),
            (Portable::Csv, &["--key-format", "hex", "--value-format", "utf8"], plain),
        ]
    };
    let mut state = 1;
    for (portable, arguments, layout) in options {
        let formats = formats(arguments);
        let mut writer = match portable {
            Portable::Lines => Writer::Lines(lines::Writer::new(formats, layout)),
            Portable::Csv => Writer::Csv(csv::Writer::new(formats, layout.delimiter)),
            _ => Writer::Jsonl(jsonl::Writer::new(formats)),
        };
        let (mut out, mut taken, mut refused) = (Vec::new(), Vec::new(), 0);
        writer.table(&TableHeader::default(), &mut out);
        for _ in 0..2_000 {
            let key = random(&mut state);
            let value = if layout.keys_only { Vec::new() } else { random(&mut state) };
            match writer.entry(&key, &value, &mut out) {
                Ok(()) => taken.push((key, value)),
                Err(_) => refused += 1,
            }
        }
        let fields = Fields { layout, ..Fields::default() };
        let input = Box::new(std::io::Cursor::new(out));
        let mut reader = reader(input, portable, formats, &fields);
        let (mut key, mut value, mut back) = (Vec::new(), Vec::new(), Vec::new());
        while reader.next(&mut key, &mut value).unwrap() == Event::Entry {
            back.push((key.clone(), value.clone()));
        }
        assert!(back == taken, "{portable:?} {arguments:?}");
        assert!(taken.len() > 500, "{portable:?} {arguments:?}: {refused} refused");
        let takes_all = portable == Portable::Jsonl || arguments == ["--format", "text"];
        assert!(!takes_all || refused == 0, "{portable:?} {arguments:?}: {refused} refused");
    }
}

/// The seeds of the fuzz target, and each of them cut off anywhere.
#[test]
fn the_corpus_of_dumps_does_no_harm() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/dump");
    let mut seeds = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        (0..=bytes.len()).for_each(|end| fuzz::dump(&bytes[..end]));
        seeds += 1;
    }
    assert!(seeds >= 5);
}

/// Counts what is read of it.
struct Counted<R>(R, Rc<Cell<u64>>);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.0.read(buffer)?;
        self.1.set(self.1.get() + read as u64);
        Ok(read)
    }
}

/// Hunts for input of another kind, one line without an end, of which all is taken into memory.
#[test]
fn a_line_that_can_be_no_entry_is_not_read_to_its_end() {
    let mdb = b"VERSION=3\nHEADER=END\n ";
    let beginnings: [(Portable, &[u8]); 7] = [
        (Portable::Mdb, b""),
        (Portable::Mdb, b"VERSION=3\n"),
        (Portable::Mdb, mdb),
        (Portable::Lines, b"key\tvalue\n"),
        (Portable::Csv, b""),
        (Portable::Jsonl, b""),
        (Portable::Jsonl, b"{\"key\":\"k\",\"value\":\"v\"}\n["),
    ];
    for (portable, begun) in beginnings {
        let count = Rc::new(Cell::new(0));
        let endless = std::io::Cursor::new(begun).chain(std::io::repeat(b'0').take(64 << 20));
        let input = Box::new(Counted(endless, Rc::clone(&count)));
        let mut reader = reader(input, portable, FormatArgs::default(), &Fields::default());
        let (mut key, mut value) = (Vec::new(), Vec::new());
        let bad = loop {
            match reader.next(&mut key, &mut value) {
                Ok(Event::End) => panic!("{portable:?}: all of it was read"),
                Ok(_) => {}
                Err(bad) => break bad,
            }
        };
        let line = 1 + begun.iter().filter(|&&byte| byte == b'\n').count() as u64;
        assert_eq!(bad.line, line, "{portable:?}: {}", bad.reason);
        assert!(bad.reason.contains("bytes"), "{portable:?}: {}", bad.reason);
        assert!(count.get() < 10 << 20, "{portable:?}: {} bytes were read", count.get());
    }
}

/// The longest keys, each byte of them escaped, and values that are longer than a key can be.
#[test]
fn long_keys_and_values_are_read() {
    let (key, value) = (vec![0; 1 << 20], vec![0; 9 << 20]);
    let header = TableHeader::default();
    for (portable, mut writer) in [
        (Portable::Mdb, Writer::Mdb(mdb::Writer::new(true, 0, 4096, true))),
        (Portable::Lines, Writer::Lines(lines::Writer::new(formats(&[]), Layout::default()))),
        (Portable::Csv, Writer::Csv(csv::Writer::new(formats(&[]), b','))),
        (Portable::Jsonl, Writer::Jsonl(jsonl::Writer::new(formats(&[])))),
    ] {
        let mut out = Vec::new();
        writer.table(&header, &mut out);
        writer.entry(&key, &value, &mut out).unwrap();
        writer.end(&mut out).unwrap();
        let (_, entries) = read(portable, FormatArgs::default(), &out).unwrap();
        assert!(entries == [(key.clone(), value.clone())], "{portable:?}");
    }
}
