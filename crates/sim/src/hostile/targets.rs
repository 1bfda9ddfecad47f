//! The functions that fuzzers call: for any bytes, they must not panic. The corpus in `fuzz/corpus`
//! runs through the same functions in the tests.

use std::cmp::Reverse;
use std::sync::OnceLock;

use hedgerow::Durability;
use hedgerow::key::KeyCode;
use hedgerow::tree::{Builder, Store};

use super::drive::Driver;
use super::format::{Image, Piece};
use super::template;
use crate::rng::Rng;

/// How much smaller than that of the other tests the store is that pages are put into.
const SHARE: u64 = 10;

/// A small sound store and its pages of trees.
fn small_store() -> &'static (Image, Vec<Piece>) {
    static STORE: OnceLock<(Image, Vec<Piece>)> = OnceLock::new();
    STORE.get_or_init(|| {
        let made = tempfile::tempdir()
            .map_err(hedgerow_error)
            .and_then(|folder| template::build(folder.path(), 4096, SHARE));
        let image = made.unwrap_or_else(|error| panic!("no store to begin with: {error}"));
        let pieces = image.pieces();
        (image, pieces)
    })
}

fn hedgerow_error(source: std::io::Error) -> hedgerow::Error {
    hedgerow::Error::Io { doing: "make", path: std::env::temp_dir(), source }
}

/// A file of these bytes, its checksums made right: every call must return a result or an error.
pub fn file(bytes: &[u8]) {
    let page_size = 4096;
    let mut image = Image { bytes: bytes.to_vec(), page_size };
    for slot in 0..3 {
        image.repair(Piece::Meta(slot));
    }
    for page in 3..image.pages() {
        // Extents would be damaged by the seal of a tree page.
        if matches!(image.bytes[page as usize * page_size + 4], 1 | 2) {
            image.seal(page);
        }
    }
    drive(&image.bytes, bytes.len() as u64);
}

/// A tree page of a sound store, replaced: the first two bytes choose which one, the others are its
/// content after the checksum.
pub fn pages(bytes: &[u8]) {
    let [a, b, content @ ..] = bytes else { return };
    let (image, pieces) = small_store();
    let piece = pieces[usize::from(u16::from_le_bytes([*a, *b])) % pieces.len()];
    let (Piece::Tree(page) | Piece::Meta(page) | Piece::Extent { page, .. }) = piece;
    let mut image = image.clone();
    let start = page as usize * image.page_size + 4;
    let n = content.len().min(image.page_size - 4);
    image.bytes[start..start + n].copy_from_slice(&content[..n]);
    image.repair(piece);
    drive(&image.bytes, u64::from(page));
}

/// Drives a file of these bytes, by the map and by reads.
fn drive(bytes: &[u8], seed: u64) {
    let Ok(folder) = tempfile::tempdir() else { return };
    let path = folder.path().join("store");
    for mapped in [true, false] {
        if std::fs::write(&path, bytes).is_err() {
            return;
        }
        let builder: Builder = Store::builder()
            .map(mapped)
            .durability(Durability::None)
            .write_budget(40_000)
            .max_size(bytes.len() as u64 + (1 << 20));
        let mut rng = Rng::new(seed, 3);
        Driver::new(folder.path(), &mut rng).run_briefly(&builder, &path);
        // If the lock file cannot be removed, the next store joins it.
        let _ = std::fs::remove_file(folder.path().join("store-lock"));
    }
}

/// Bytes as keys of every type: what decodes is encoded and decoded again to the same.
pub fn keys(bytes: &[u8]) {
    numbers(bytes);
    round::<bool>(bytes);
    round::<char>(bytes);
    round::<()>(bytes);
    round::<String>(bytes);
    round::<Vec<u8>>(bytes);
    round::<[u8; 5]>(bytes);
    round::<Option<u32>>(bytes);
    round::<Option<String>>(bytes);
    round::<Reverse<u16>>(bytes);
    round::<Reverse<String>>(bytes);
    round::<(String, i32)>(bytes);
    round::<(Vec<u8>, Option<String>, u8)>(bytes);
    round::<(Reverse<String>, (u8, String), bool)>(bytes);
    round::<std::time::Duration>(bytes);
    round::<std::time::SystemTime>(bytes);
}

fn numbers(bytes: &[u8]) {
    round::<u8>(bytes);
    round::<u16>(bytes);
    round::<u32>(bytes);
    round::<u64>(bytes);
    round::<u128>(bytes);
    round::<i8>(bytes);
    round::<i16>(bytes);
    round::<i32>(bytes);
    round::<i64>(bytes);
    round::<i128>(bytes);
    round::<f32>(bytes);
    round::<f64>(bytes);
}

fn encoded<T: KeyCode>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    T::encode(value.to_ref(), &mut out);
    out
}

/// Encodings are compared, because a float may be none that equals itself.
fn round<T: KeyCode>(bytes: &[u8]) {
    let Ok(value) = T::decode(bytes) else { return };
    let once = encoded(&value);
    match T::decode(&once) {
        Ok(again) => assert_eq!(encoded(&again), once, "{bytes:?} as {}", name::<T>()),
        Err(error) => panic!("{bytes:?} as {}: {error}", name::<T>()),
    }
}

fn name<T: KeyCode>() -> String {
    let mut name = String::new();
    T::type_name(&mut name);
    name
}

/// What the corpus of a target begins with.
pub fn seeds(target: &str) -> Vec<Vec<u8>> {
    let (image, pieces) = small_store();
    let page = |at: usize| {
        let (Piece::Tree(page) | Piece::Meta(page) | Piece::Extent { page, .. }) = pieces[at];
        let start = page as usize * image.page_size;
        let content = &image.bytes[start + 4..start + image.page_size];
        [&(at as u16).to_le_bytes()[..], content].concat()
    };
    match target {
        "file" => vec![tiny_file(), image.bytes[..3 * 4096].to_vec()],
        "pages" => (0..pieces.len()).step_by(pieces.len() / 12 + 1).map(page).collect(),
        "keys" => {
            let text = ("a\0b".to_owned(), -7);
            let nested = (Reverse("x".to_owned()), (9, String::new()), true);
            vec![
                encoded(&text),
                encoded(&nested),
                encoded(&Some("some".to_owned())),
                encoded(&std::time::SystemTime::UNIX_EPOCH),
                encoded(&-0.0_f64),
                Vec::new(),
            ]
        }
        _ => Vec::new(),
    }
}

/// A store of a few pages.
fn tiny_file() -> Vec<u8> {
    let make = || -> hedgerow::Result<Vec<u8>> {
        let folder = tempfile::tempdir().map_err(hedgerow_error)?;
        let path = folder.path().join("store");
        let store = Store::create(&path)?;
        let mut txn = store.begin_write()?;
        for kind in [template::Kind::Plain, template::Kind::Duplicates] {
            let table = txn.create_table(kind.name(), &kind.options())?;
            for n in 1..40 {
                let (key, value) = kind.entry(n, 4096);
                txn.put(table, &key, &value)?;
            }
        }
        txn.commit()?;
        drop(store);
        std::fs::read(&path).map_err(hedgerow_error)
    };
    make().unwrap_or_else(|error| panic!("no store to begin with: {error}"))
}
