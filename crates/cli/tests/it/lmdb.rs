//! convert --from-lmdb on environments that the test makes with LMDB itself, and what LMDB does
//! with those of --to-lmdb. The only test file with `unsafe`, for LMDB's C functions.

#![expect(unsafe_code, reason = "LMDB is a C library")]

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr;

use lmdb_master_sys as ffi;

use crate::sandbox::Sandbox;

/// Databases to make: a name (none for the main one), flags, entries.
type Databases<'a> = [(Option<&'a str>, u32, &'a [(&'a [u8], &'a [u8])])];

/// Makes an environment in a folder.
fn make(folder: &Path, databases: &Databases<'_>) {
    std::fs::create_dir_all(folder).unwrap();
    let path = CString::new(folder.to_str().unwrap()).unwrap();
    let mut env = ptr::null_mut();
    let mut txn = ptr::null_mut();
    // SAFETY: the calls come in the order that LMDB asks for, with pointers to places of our own
    // and strings that end with a zero byte.
    unsafe {
        check(ffi::mdb_env_create(&raw mut env));
        check(ffi::mdb_env_set_maxdbs(env, 16));
        check(ffi::mdb_env_set_mapsize(env, 16 << 20));
        check(ffi::mdb_env_open(env, path.as_ptr(), 0, 0o600));
        check(ffi::mdb_txn_begin(env, ptr::null_mut(), 0, &raw mut txn));
    }
    for (name, flags, entries) in databases {
        let name = name.map(|name| CString::new(name).unwrap());
        let name = name.as_deref().map_or(ptr::null(), CStr::as_ptr);
        let mut handle = 0;
        // SAFETY: the transaction is live; the name is null or ends with a zero byte.
        check(unsafe { ffi::mdb_dbi_open(txn, name, flags | ffi::MDB_CREATE, &raw mut handle) });
        for (key, value) in *entries {
            let (mut key, mut value) = (val(key), val(value));
            // SAFETY: the transaction and the handle are live; LMDB only reads the bytes.
            check(unsafe { ffi::mdb_put(txn, handle, &raw mut key, &raw mut value, 0) });
        }
    }
    // SAFETY: both are live and not used again.
    unsafe {
        check(ffi::mdb_txn_commit(txn));
        ffi::mdb_env_close(env);
    }
}

fn val(bytes: &[u8]) -> ffi::MDB_val {
    ffi::MDB_val { mv_size: bytes.len(), mv_data: bytes.as_ptr().cast_mut().cast() }
}

#[track_caller]
fn check(code: i32) {
    assert_eq!(code, 0);
}

#[test]
fn all_databases_come_over_with_their_options() {
    let sandbox = Sandbox::new();
    let record = [7_u8; 48];
    let (one, two) = (1_u32.to_ne_bytes(), 2_u32.to_ne_bytes());
    make(
        &sandbox.path("old"),
        &[
            (Some("plain"), 0, &[(b"a", b"1"), (b"b", b"\x00\xff")]),
            (Some("many"), ffi::MDB_DUPSORT, &[(b"a", b"2"), (b"a", b"1"), (b"b", b"1")]),
            (Some("numbers"), ffi::MDB_INTEGERKEY, &[(&two, b"two"), (&one, b"one")]),
            (
                Some("fixed"),
                ffi::MDB_DUPSORT | ffi::MDB_DUPFIXED | ffi::MDB_INTEGERDUP,
                &[(b"k", &two), (b"k", &one)],
            ),
            (Some("ends"), ffi::MDB_REVERSEKEY, &[(b"ab", b"1"), (b"ba", b"2")]),
            // LMDB takes the second flag for keys, and the first for values.
            (
                Some("both"),
                ffi::MDB_INTEGERKEY
                    | ffi::MDB_REVERSEKEY
                    | ffi::MDB_DUPSORT
                    | ffi::MDB_DUPFIXED
                    | ffi::MDB_INTEGERDUP
                    | ffi::MDB_REVERSEDUP,
                &[(b"ab", &two), (b"cba", &two), (b"cba", &one)],
            ),
            // Values of the length of a named database's record are entries all the same.
            (None, 0, &[(b"entry", b"of main"), (b"looks like one", &record)]),
        ],
    );
    let report = sandbox.json(&["convert", "--from-lmdb", "old", "s"]);
    assert_eq!(report["tables"].as_array().unwrap().len(), 7);
    assert_eq!(sandbox.ok(&["scan", "s", "-t", "plain"]), "a\t1\nb\t\\00\\ff\n");
    assert_eq!(sandbox.ok(&["scan", "s", "-t", "many"]), "a\t1\na\t2\nb\t1\n");
    assert_eq!(sandbox.ok(&["scan", "s", "-t", "ends", "--keys-only"]), "ba\nab\n");
    let both = sandbox.ok(&["scan", "s", "-t", "both", "--value-format", "hex"]);
    assert_eq!(both, "cba\t01000000\ncba\t02000000\nab\t02000000\n");
    let numbers = sandbox.ok(&["scan", "s", "-t", "numbers", "--key-format", "hex"]);
    let values: Vec<_> = numbers.lines().map(|line| line.split('\t').nth(1).unwrap()).collect();
    assert_eq!(values, ["one", "two"]);
    assert_eq!(sandbox.ok(&["count", "s"]), "2\n");
    assert_eq!(sandbox.ok(&["get", "s", "looks like one", "--format", "text"]).len(), 48 * 3 + 1);
    let tables = sandbox.json(&["tables", "s"]);
    let fixed = tables.as_array().unwrap().iter().find(|table| table["name"] == "fixed").unwrap();
    assert_eq!(fixed["value_size"], 4);
    assert_eq!(fixed["value_order"], "integer");
    assert_eq!(fixed["prefix_compression"], false);
    sandbox.ok(&["convert", "--from-lmdb", "old", "shared", "--prefix-compression"]);
    assert_eq!(sandbox.json(&["tables", "shared"])[0]["prefix_compression"], true);
    sandbox.check("s");
    let left: Vec<_> = std::fs::read_dir(sandbox.path("old")).unwrap().collect();
    assert_eq!(left.len(), 2, "data.mdb and lock.mdb, as LMDB left them");
}

#[test]
fn integers_that_lead_longer_values_come_over_in_their_order() {
    let sandbox = Sandbox::new();
    let led = |number: u32, rest: &str| [&number.to_ne_bytes(), rest.as_bytes()].concat();
    let few = [led(300, "at last"), led(2, "no more"), led(1, "is zzzz")];
    let many: Vec<Vec<u8>> = (0..3000).rev().map(|n| led(n, "rest of the value")).collect();
    let of_k = |values| std::iter::repeat(&b"k"[..]).zip(values).collect::<Vec<(&[u8], &[u8])>>();
    let (few, many) = (of_k(few.iter().map(Vec::as_slice)), of_k(many.iter().map(Vec::as_slice)));
    let flags = ffi::MDB_DUPSORT | ffi::MDB_DUPFIXED | ffi::MDB_INTEGERDUP;
    make(
        &sandbox.path("old"),
        &[(Some("few"), flags, &few), (Some("many"), flags, &many), (Some("none"), flags, &[])],
    );
    sandbox.ok(&["convert", "--from-lmdb", "old", "s"]);
    let shown = sandbox.ok(&["scan", "s", "-t", "few"]);
    let tails: Vec<&str> = shown.lines().map(|line| &line[line.len() - 4..]).collect();
    assert_eq!(tails, ["zzzz", "more", "last"]);
    assert_eq!(sandbox.ok(&["count", "s", "-t", "many"]), "3000\n");
    assert_eq!(sandbox.ok(&["count", "s", "-t", "none"]), "0\n");
    sandbox.check("s");
    // Such a table is dumped and loaded as any other.
    let dumped = sandbox.ok(&["dump", "s", "--all"]);
    sandbox.write("dump", &dumped);
    sandbox.ok(&["load", "t", "dump"]);
    assert_eq!(sandbox.ok(&["dump", "t", "--all"]), dumped);
}

/// A kill, a stop and a limit on the length of files: each time the same command goes on.
#[test]
fn a_conversion_goes_on_where_it_came_to() {
    let sandbox = Sandbox::new();
    let keys: Vec<Vec<u8>> = (0..20_000).map(|n| format!("{n:05}").into_bytes()).collect();
    let entries: Vec<(&[u8], &[u8])> = keys.iter().map(|key| (&key[..], &b"value"[..])).collect();
    let first = (Some("first"), 0, &entries[..15_000]);
    let (empty, many) =
        ((Some("none"), 0, &[][..]), (Some("pairs"), ffi::MDB_DUPSORT, &entries[..]));
    make(&sandbox.path("old"), &[first, empty, many]);
    let convert = ["convert", "--from-lmdb", "old", "s"];
    let kept = "is kept in s.part: the same command goes on from there";
    sandbox.limited("-f 200", &convert).is(3).says("ulimit -f").says(kept);
    sandbox.ok(&convert);
    assert!(!sandbox.path("s.part").exists());
    let whole = sandbox.ok(&["dump", "s", "--all"]);
    std::fs::rename(sandbox.path("s"), sandbox.path("whole")).unwrap();
    let part = "s.part/new/data.hdg";
    let part_has_all = || {
        sandbox.limited("-f 200", &convert).is(3).says(kept);
        std::fs::copy(sandbox.path("whole"), sandbox.path(part)).unwrap();
    };
    // As it is left by a command that was killed while it made the store.
    part_has_all();
    sandbox.write(part, "");
    sandbox.ok(&convert);
    assert_eq!(sandbox.ok(&["dump", "s", "--all"]), whole);
    std::fs::remove_file(sandbox.path("s")).unwrap();
    // As it is left by a command that was killed after some commits: the first tables are whole,
    // and of the last one a part is there.
    part_has_all();
    sandbox.ok(&["delete", part, "-t", "pairs", "--from", "10000"]);
    sandbox.ok(&convert);
    assert_eq!(sandbox.ok(&["dump", "s", "--all"]), whole);
    std::fs::remove_file(sandbox.path("s")).unwrap();
    // Every entry is compared.
    part_has_all();
    sandbox.ok(&["put", part, "-t", "first", "00007", "other"]);
    sandbox.run(&convert).is(3).says("first differs from its database at the key \"00007\"");
    assert!(!sandbox.path("s.part").exists());
    assert!(!sandbox.path("s").exists());
}

#[test]
fn a_data_file_alone_is_enough() {
    let sandbox = Sandbox::new();
    let entries: Vec<(Vec<u8>, Vec<u8>)> =
        (0..5000).map(|n| (format!("{n:05}").into_bytes(), vec![b'v'; n % 3000])).collect();
    let borrowed: Vec<(&[u8], &[u8])> =
        entries.iter().map(|(key, value)| (&key[..], &value[..])).collect();
    make(&sandbox.path("old"), &[(None, 0, &borrowed)]);
    std::fs::copy(sandbox.path("old/data.mdb"), sandbox.path("alone")).unwrap();
    sandbox.ok(&["convert", "--from-lmdb", "alone", "s"]);
    assert_eq!(sandbox.ok(&["count", "s"]), "5000\n");
    assert!(!sandbox.path("alone-lock").exists());
    assert_eq!(sandbox.json(&["tables", "s"]).as_array().unwrap().len(), 1);
    let bytes = std::fs::read(sandbox.path("alone")).unwrap();
    sandbox.write("cut", &bytes[..bytes.len() / 2]);
    sandbox.run(&["convert", "--from-lmdb", "cut", "t"]).is(3).says("cut off");
    sandbox.run(&["convert", "--from-lmdb", "alone", "s"]).is(3).says("s");
}

#[test]
fn what_is_no_lmdb_database_is_refused() {
    let sandbox = Sandbox::with(&[("a", "1")]);
    sandbox.write("text", "this is no database\n".repeat(1000));
    sandbox.write("empty", "");
    for path in ["text", "empty", "missing", "s"] {
        sandbox.run(&["convert", "--from-lmdb", path, "new"]).is(3).says(path);
        assert!(!sandbox.path("new").exists(), "{path}");
    }
}

#[test]
fn a_database_named_like_the_main_table_is_a_clash_with_a_way_out() {
    let sandbox = Sandbox::new();
    make(&sandbox.path("old"), &[(Some("main"), 0, &[(b"a", b"1")]), (None, 0, &[(b"b", b"2")])]);
    sandbox.run(&["convert", "--from-lmdb", "old", "s"]).is(3).says("--main-table");
    sandbox.ok(&["convert", "--from-lmdb", "old", "s", "--main-table", "top"]);
    assert_eq!(sandbox.ok(&["scan", "s"]), "a\t1\n");
    assert_eq!(sandbox.ok(&["scan", "s", "-t", "top"]), "b\t2\n");
}

/// Entries of a database.
type Entries = Vec<(Vec<u8>, Vec<u8>)>;

/// Puts or deletes entries of a database that LMDB did not make.
fn change(folder: &Path, name: &str, entries: &Entries, deletes: bool) {
    let (path, name) = (folder.to_str().unwrap(), CString::new(name).unwrap());
    let path = CString::new(path).unwrap();
    let (mut env, mut txn, mut handle) = (ptr::null_mut(), ptr::null_mut(), 0);
    // SAFETY: the calls come in the order that LMDB asks for, with pointers to places of our own
    // and strings that end with a zero byte.
    unsafe {
        check(ffi::mdb_env_create(&raw mut env));
        check(ffi::mdb_env_set_maxdbs(env, 16));
        check(ffi::mdb_env_set_mapsize(env, 1 << 30));
        check(ffi::mdb_env_open(env, path.as_ptr(), 0, 0o600));
        check(ffi::mdb_txn_begin(env, ptr::null_mut(), 0, &raw mut txn));
        check(ffi::mdb_dbi_open(txn, name.as_ptr(), 0, &raw mut handle));
    }
    for (key, value) in entries {
        let (mut key, mut value) = (val(key), val(value));
        let (key, value) = (&raw mut key, &raw mut value);
        // SAFETY: the transaction and the handle are live; LMDB only reads the bytes.
        check(unsafe {
            match deletes {
                true => ffi::mdb_del(txn, handle, key, value),
                false => ffi::mdb_put(txn, handle, key, value, 0),
            }
        });
    }
    // SAFETY: both are live and not used again.
    unsafe {
        check(ffi::mdb_txn_commit(txn));
        ffi::mdb_env_close(env);
    }
}

/// Entries go, until none is left, and come back: LMDB joins and splits the pages.
#[test]
fn lmdb_changes_what_was_converted_to_it() {
    let sandbox = Sandbox::new();
    // Of several values a key has 1, 2, 4, 8, ... of them.
    let pair = |n: u32| {
        let key = (n + 1).ilog2();
        (format!("{key:05}").into_bytes(), n.wrapping_mul(0x9E37_79B1).to_be_bytes().to_vec())
    };
    let plain = |n: u32| (format!("{n:07}").into_bytes(), vec![b'v'; (n % 301 * 17) as usize]);
    let kinds: [(&str, &[&str], Entries); 3] = [
        ("any", &["--duplicates"], (0..10_000).map(pair).collect()),
        ("fixed", &["--duplicates", "--value-size", "4"], (0..10_000).map(pair).collect()),
        ("plain", &[], (0..5000).map(plain).collect()),
    ];
    for (name, options, entries) in &kinds {
        sandbox.ok(&[&["create", "s", "-t", name], *options].concat());
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let line = |(key, value): &(Vec<u8>, Vec<u8>)| format!("{}\t{}\n", hex(key), hex(value));
        let lines: String = entries.iter().map(line).collect();
        let load = ["load", "s", "-t", name, "--as", "lines", "--format", "hex"];
        sandbox.feed(&load, lines.as_bytes()).is(0);
    }
    sandbox.ok(&["convert", "--from", "s", "--to-lmdb", "new"]);
    let scan =
        |store: &str, name: &str| sandbox.ok(&["scan", store, "-t", name, "--format", "hex"]);
    for (name, _, entries) in &kinds {
        let (even, odd): (Vec<_>, Vec<_>) =
            entries.iter().cloned().enumerate().partition(|(n, _)| n % 2 == 0);
        let [even, odd] =
            [even, odd].map(|half| half.into_iter().map(|(_, e)| e).collect::<Entries>());
        let folder = sandbox.path("new");
        change(&folder, name, &odd, true);
        change(&folder, name, &even, true);
        change(&folder, name, &even, false);
        change(&folder, name, &odd, false);
    }
    sandbox.ok(&["convert", "--from-lmdb", "new", "back"]);
    for (name, ..) in &kinds {
        assert!(scan("s", name) == scan("back", name), "{name}");
    }
}
