//! What the library promises beyond LMDB, and where LMDB leaves off: the programs of `tests/c` that
//! check it themselves, call by call.

use std::ffi::OsStr;

use crate::programs::Program;

/// Runs a program; it must end well and print a last line.
fn holds(name: &str, arguments: &[&str], last: &str) {
    let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
    let output = Program::of_file(name).run(&arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{name}: {}: {errors}", output.status);
    let printed = String::from_utf8_lossy(&output.stdout);
    assert_eq!(printed.lines().last(), Some(last), "{name}: {errors}");
}

#[test]
fn counts_ranks_and_lists_are_those_of_a_walk() {
    holds("counts", &[], "counts hold");
}

#[test]
fn a_value_is_in_one_block() {
    holds("blocks", &[], "blocks hold");
}

#[test]
fn keys_and_values_are_aligned() {
    holds("aligned", &[], "addresses hold");
}

#[test]
fn misuse_is_refused() {
    holds("misuse", &[], "misuse is refused");
}

#[test]
fn what_was_given_out_may_be_given_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large-pages");
    hedgerow::tree::Store::builder().page_size(64 << 10).create(&path).unwrap();
    holds("aliases", &[path.to_str().unwrap()], "aliases hold");
}

#[test]
fn what_is_handed_out_stays_as_long_as_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = hedgerow::tree::Store::builder().create(&path).unwrap();
    let mut txn = store.begin_write().unwrap();
    txn.create_table("shared", &hedgerow::tree::TableOptions::new()).unwrap();
    txn.commit().unwrap();
    drop(store);
    holds("pointers", &[path.to_str().unwrap()], "pointers hold");
}

#[test]
fn processes_and_threads_are_kept_apart() {
    holds("processes", &[], "processes hold");
}

#[test]
fn copies_are_whole_and_a_full_store_goes_on() {
    holds("copies", &[], "copies hold");
}

#[test]
fn values_may_be_written_in_place_and_the_store_stays_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    holds("inplace", &[path], "nobody dies of writing in place");
    for store in ["values", "processes"] {
        let store = hedgerow::tree::Store::open(folder.path().join(store)).unwrap();
        assert_eq!(store.check(&mut |_, _| {}).unwrap().problems, Vec::<String>::new());
    }
}

#[test]
fn a_map_is_as_large_as_was_said() {
    holds("maps", &[], "map sizes hold");
}

#[test]
fn a_cursor_goes_on_in_another_snapshot_and_a_map_size_is_shared() {
    holds("renewed", &[], "renewals hold");
}

#[test]
fn a_reader_begins_where_another_has_ended() {
    holds("short", &[], "short transactions hold");
}

#[test]
fn hostile_stores_do_no_harm() {
    holds("hostile", &["1", "100"], "hostile stores do no harm");
}
