//! Building the library, compiling programs against the headers, and running them with it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// What programs ask for.
pub(crate) const SONAME: &str = "libleveldb.so.1d";

/// The folder of the package.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A folder with the shared library, in the profile of this test. It is linked anew where the
/// static one, which cargo builds, has changed.
pub(crate) fn library() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let built = build();
        let folder = built.with_file_name("libleveldb.shared");
        std::fs::create_dir_all(&folder).unwrap();
        let (shared, new) = (folder.join(SONAME), folder.join("new"));
        let time = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        if time(&shared) < time(&built) {
            let mut link = Command::new("sh");
            succeed(link.arg(package().join("link.sh")).args([&built, &new]));
            std::fs::rename(new, shared).unwrap();
        }
        folder
    })
}

/// Has cargo build the static library, which it does not do for tests, and gives its path.
fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap();
    let profile = match built.file_name().and_then(OsStr::to_str).unwrap() {
        "debug" => "dev",
        other => other,
    };
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--package", "leveldb", "--lib", "--message-format", "json", "--profile"])
        .arg(profile)
        .current_dir(package())
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let messages = String::from_utf8(cargo.stdout).unwrap();
    let library = messages.split('"').find(|part| part.ends_with("/libleveldb.a"));
    PathBuf::from(library.expect("cargo names what it has built"))
}

/// Runs a command that must end well.
pub(crate) fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{errors}", output.status);
    output
}

/// Compiles a program of `tests/`, in C or C++; warnings are errors.
pub(crate) fn compile(name: &str, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let (compiler, standard) =
        if name.ends_with(".c") { ("cc", "-std=gnu11") } else { ("c++", "-std=c++11") };
    let mut command = Command::new(compiler);
    command.args([standard, "-g", "-Wall", "-Wextra", "-Werror", "-I"]);
    command.arg(package().join("include")).arg("-o").arg(&program);
    command.arg(package().join("tests").join(name));
    succeed(command.arg(library().join(SONAME)).arg("-pthread"));
    program
}

/// Runs a program with the library of a folder, in an empty folder. What it prints.
pub(crate) fn run(program: &Path, arguments: &[String], library: &Path, engine: &str) -> String {
    let work = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.args(arguments).current_dir(work.path()).env("LD_LIBRARY_PATH", library);
    let output = command.env("HEDGEROW_LEVELDB_ENGINE", engine).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().last().unwrap_or_default();
    assert!(output.status.success(), "{engine}: {} after: {last}\n{errors}", output.status);
    text
}
