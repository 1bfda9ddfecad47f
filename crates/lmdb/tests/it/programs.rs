//! Compiling C programs against the header and running them with the library of this build.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The folder of the package.
pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The library in the profile of this test. Tests cannot link to it, so that `cargo test` does not
/// build it for them.
pub(crate) fn library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(build).clone()
}

fn build() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap();
    let profile = match built.file_name().and_then(OsStr::to_str).unwrap() {
        "debug" => "dev",
        other => other,
    };
    let cargo = Command::new(env!("CARGO"))
        .args(["build", "--package", "lmdb", "--lib", "--message-format", "json", "--profile"])
        .arg(profile)
        .current_dir(package())
        .output()
        .unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let messages = String::from_utf8(cargo.stdout).unwrap();
    let library = messages.split('"').find(|part| part.ends_with("/liblmdb.so"));
    PathBuf::from(library.expect("cargo names what it has built"))
}

/// A folder with a compiled program and the library under the name that programs look for.
pub(crate) struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    /// Compiles one of the programs of `tests/c`.
    pub(crate) fn of_file(name: &str) -> Self {
        let path = package().join("tests/c").join(format!("{name}.c"));
        Self::compile(&std::fs::read_to_string(path).unwrap())
    }

    /// Compiles a program; warnings are errors.
    pub(crate) fn compile(source: &str) -> Self {
        Self::try_compile(source).unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Compiles a program, or gives what the compiler has to say.
    pub(crate) fn try_compile(source: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        std::fs::write(path.join("program.c"), source).unwrap();
        std::os::unix::fs::symlink(library(), path.join("liblmdb.so.0")).unwrap();
        let compiled = Command::new("cc")
            .args(["-std=c11", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-g", "-I"])
            .arg(package().join("include"))
            .arg("-I")
            .arg(package().join("tests/c"))
            .arg("-o")
            .arg(path.join("program"))
            .arg(path.join("program.c"))
            .arg(path.join("liblmdb.so.0"))
            .arg("-pthread")
            .output()
            .unwrap();
        match compiled.status.success() {
            true => Ok(Self { folder }),
            false => Err(String::from_utf8_lossy(&compiled.stderr).into_owned()),
        }
    }

    /// Runs it in an empty folder.
    pub(crate) fn run(&self, arguments: &[&OsStr]) -> Output {
        let work = tempfile::tempdir().unwrap();
        self.command().args(arguments).current_dir(work.path()).output().unwrap()
    }

    /// The command that runs it with the library of this build.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(self.folder.path().join("program"));
        command.env("LD_LIBRARY_PATH", self.folder.path());
        command
    }

    /// Runs it; it must end well. What it prints.
    pub(crate) fn output(&self) -> String {
        let output = self.run(&[]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {errors}", output.status);
        String::from_utf8(output.stdout).unwrap()
    }
}
