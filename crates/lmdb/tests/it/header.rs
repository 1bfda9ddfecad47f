//! The header and the library agree on every number and on the layout of every struct, the header
//! compiles as C and as C++, and it declares what the library exports, no more and no less.

use std::mem::offset_of;
use std::process::Command;

use crate::programs::{Program, library, package};

#[expect(dead_code, reason = "the library's module; the test reads its numbers and layouts")]
#[path = "../../src/abi.rs"]
mod abi;

fn header() -> String {
    std::fs::read_to_string(package().join("include/lmdb.h")).unwrap()
}

/// The lines of C that hold the header to the library.
fn assertions() -> Vec<String> {
    let lists =
        [abi::ENV_FLAGS, abi::DATABASE_FLAGS, abi::CALL_FLAGS, abi::CODES, abi::op::OPERATIONS];
    let numbers = lists.into_iter().flatten().map(|(name, value)| format!("{name} == {value}"));
    let version = [
        format!("MDB_VERSION_MAJOR == {}", abi::VERSION.0),
        format!("MDB_VERSION_MINOR == {}", abi::VERSION.1),
        format!("MDB_VERSION_PATCH == {}", abi::VERSION.2),
    ];
    let sizes = [
        format!("sizeof(MDB_val) == {}", size_of::<abi::Val>()),
        format!("sizeof(MDB_stat) == {}", size_of::<abi::Stat>()),
        format!("sizeof(MDB_envinfo) == {}", size_of::<abi::EnvInfo>()),
        format!("sizeof(MDB_cursor_op) == {}", size_of::<std::ffi::c_uint>()),
    ];
    let offset =
        |structure: &str, field: &str, at: usize| format!("offsetof({structure}, {field}) == {at}");
    let fields = [
        offset("MDB_val", "mv_size", offset_of!(abi::Val, size)),
        offset("MDB_val", "mv_data", offset_of!(abi::Val, data)),
        offset("MDB_stat", "ms_psize", offset_of!(abi::Stat, psize)),
        offset("MDB_stat", "ms_depth", offset_of!(abi::Stat, depth)),
        offset("MDB_stat", "ms_branch_pages", offset_of!(abi::Stat, branch_pages)),
        offset("MDB_stat", "ms_leaf_pages", offset_of!(abi::Stat, leaf_pages)),
        offset("MDB_stat", "ms_overflow_pages", offset_of!(abi::Stat, overflow_pages)),
        offset("MDB_stat", "ms_entries", offset_of!(abi::Stat, entries)),
        offset("MDB_envinfo", "me_mapaddr", offset_of!(abi::EnvInfo, mapaddr)),
        offset("MDB_envinfo", "me_mapsize", offset_of!(abi::EnvInfo, mapsize)),
        offset("MDB_envinfo", "me_last_pgno", offset_of!(abi::EnvInfo, last_pgno)),
        offset("MDB_envinfo", "me_last_txnid", offset_of!(abi::EnvInfo, last_txnid)),
        offset("MDB_envinfo", "me_maxreaders", offset_of!(abi::EnvInfo, maxreaders)),
        offset("MDB_envinfo", "me_numreaders", offset_of!(abi::EnvInfo, numreaders)),
    ];
    let all = numbers.chain(version).chain(sizes).chain(fields);
    all.map(|that| format!("_Static_assert({that}, \"{that}\");")).collect()
}

#[test]
fn numbers_and_layouts_are_those_of_the_header() {
    let assertions = assertions();
    assert!(assertions.len() > 90, "{} assertions", assertions.len());
    let body = assertions.join("\n");
    let program = format!("#include \"lmdb.h\"\n{body}\nint main(void) {{ return 0; }}\n");
    Program::compile(&program);
    // An assertion that does not hold is found.
    let wrong = program.replace("MDB_NOSUBDIR == 16384", "MDB_NOSUBDIR == 16385");
    assert!(wrong != program && Program::try_compile(&wrong).is_err());
}

/// The names that follow a type or a star and precede a bracket: functions that the header
/// declares.
fn declared(header: &str) -> Vec<String> {
    let code: Vec<&str> = header.lines().filter(|line| !line.starts_with('#')).collect();
    let mut names: Vec<String> = code
        .iter()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic()))
        .filter(|line| !line.starts_with("typedef"))
        .filter_map(|line| line.split_once('('))
        .filter_map(|(before, _)| before.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("mdb_"))
        .map(str::to_owned)
        .collect();
    names.sort();
    names
}

#[test]
fn what_is_declared_is_exported_and_nothing_else() {
    let listed = Command::new("nm").args(["-D", "--defined-only"]).arg(library()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut exported: Vec<String> =
        listed.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect();
    exported.sort();
    let declared = declared(&header());
    // LMDB's 56, DLMDB's ten, and one of our own.
    assert_eq!(declared.len(), 56 + 10 + 1);
    assert_eq!(exported, declared);
}

#[test]
fn the_library_has_the_name_that_programs_ask_for() {
    let listed = Command::new("readelf").arg("-d").arg(library()).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains("Library soname: [liblmdb.so.0]"), "{listed}");
}

/// The names by which DLMDB's programs print and read sizes.
#[test]
fn sizes_have_formats() {
    let program = Program::compile(
        r#"
        #include "lmdb.h"
        #include <stdio.h>
        int main(void) {
            mdb_size_t read = 0;
            char text[40];
            sprintf(text, "%" MDB_PRIy(u), (mdb_size_t)MDB_SIZE_MAX);
            sscanf(text, "%" MDB_SCNy(u), &read);
            printf("%" MDB_FMT_Z "u %" MDB_PRIy(x) " %d", read, read, read == MDB_SIZE_MAX);
            return 0;
        }"#,
    );
    assert_eq!(program.output(), format!("{} {:x} 1", usize::MAX, usize::MAX));
}

#[test]
fn the_header_is_also_a_header_of_cpp() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("program.cpp");
    std::fs::write(&source, "#include \"lmdb.h\"\nint f() { return MDB_NEXT; }\n").unwrap();
    let compiled = Command::new("c++")
        .args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only", "-I"])
        .arg(package().join("include"))
        .arg(&source)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
}
