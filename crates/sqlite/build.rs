//! Cuts SQLite's source, which the crate `libsqlite3-sys` brings, and compiles it together with
//! `src/c`. Nothing of SQLite's is kept in this repository.

#[path = "cut.rs"]
mod cut;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the library can do: Debian's set, and what its default programs expect.
const DEFINES: &[(&str, Option<&str>)] = &[
    ("SQLITE_ENABLE_API_ARMOR", None),
    ("SQLITE_ENABLE_COLUMN_METADATA", None),
    ("SQLITE_ENABLE_DBSTAT_VTAB", None),
    ("SQLITE_ENABLE_EXPLAIN_COMMENTS", None),
    ("SQLITE_ENABLE_FTS3", None),
    ("SQLITE_ENABLE_FTS3_PARENTHESIS", None),
    ("SQLITE_ENABLE_FTS3_TOKENIZER", None),
    ("SQLITE_ENABLE_FTS4", None),
    ("SQLITE_ENABLE_FTS5", None),
    ("SQLITE_ENABLE_GEOPOLY", None),
    ("SQLITE_ENABLE_LOAD_EXTENSION", None),
    ("SQLITE_ENABLE_MATH_FUNCTIONS", None),
    ("SQLITE_ENABLE_PREUPDATE_HOOK", None),
    ("SQLITE_ENABLE_RTREE", None),
    ("SQLITE_ENABLE_SESSION", None),
    ("SQLITE_ENABLE_STAT4", None),
    ("SQLITE_ENABLE_STMTVTAB", None),
    ("SQLITE_ENABLE_UNLOCK_NOTIFY", None),
    ("SQLITE_MAX_VARIABLE_NUMBER", Some("250000")),
    ("SQLITE_SOUNDEX", None),
    ("SQLITE_THREADSAFE", Some("1")),
    ("SQLITE_USE_URI", Some("1")),
    ("HAVE_ISNAN", None),
    ("HAVE_FDATASYNC", None),
    ("HAVE_USLEEP", None),
    ("NDEBUG", None),
];

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    for path in ["build.rs", "cut.rs", "src/c"] {
        println!("cargo:rerun-if-changed={path}");
    }
    let source = source()?;
    println!("cargo:rerun-if-changed={}", source.display());
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let shim = Path::new(&std::env::var("CARGO_MANIFEST_DIR")?).join("src/c");
    let cut = cut::cut(&std::fs::read_to_string(&source)?)?;
    let file = out.join("hybrid.c");
    std::fs::write(&file, cut)?;
    let mut build = build(&source);
    build.file(&file).include(&shim).link_lib_modifier("+whole-archive");
    build.define("SQLITE_EXTRA_AUTOEXT", "hg_register");
    build.try_compile("hedgerow_sqlite")?;
    if std::env::var_os("CARGO_FEATURE_STOCK").is_some() {
        stock(&source, &out)?;
    }
    Ok(())
}

/// SQLite as it is, with the same options, to be measured beside the other: its functions are
/// called `stock3_open` and so on.
fn stock(source: &Path, out: &Path) -> Result<()> {
    let file = out.join("stock.c");
    std::fs::write(&file, std::fs::read_to_string(source)?.replace("sqlite3", "stock3"))?;
    let mut build = build(source);
    build.file(&file).try_compile("hedgerow_stock")?;
    Ok(())
}

/// How both are compiled.
fn build(source: &Path) -> cc::Build {
    let mut build = cc::Build::new();
    build.warnings(false);
    if let Some(folder) = source.parent() {
        build.include(folder);
    }
    for (name, value) in DEFINES {
        build.define(name, *value);
    }
    // With optimisation it takes minutes to compile, without it seconds: tests do without.
    let is_optimised = std::env::var("OPT_LEVEL").is_ok_and(|level| level != "0" && level != "1");
    build.opt_level(if is_optimised { 2 } else { 0 }).debug(false);
    build
}

/// Where the crate that brings SQLite's source has it. Cargo asks for packages of this target only,
/// and fetches those that this build itself did not need: on a new machine there are some.
fn source() -> Result<PathBuf> {
    let target = std::env::var("TARGET")?;
    let arguments = ["metadata", "--format-version=1", "--locked", "--filter-platform", &target];
    let output = Command::new(std::env::var("CARGO")?).args(arguments).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata: {said}").into());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().ok_or("cargo metadata names no packages")?;
    let package = packages.iter().find(|package| package["name"] == "libsqlite3-sys");
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let folder = manifest.and_then(|manifest| Path::new(manifest).parent());
    let folder = folder.ok_or("cargo metadata does not name libsqlite3-sys")?;
    Ok(folder.join("sqlite3/sqlite3.c"))
}
