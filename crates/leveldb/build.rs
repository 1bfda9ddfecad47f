//! Compiles the C++ classes, which the shared library has beside the C functions.

fn main() {
    println!("cargo:rerun-if-changed=cpp");
    println!("cargo:rerun-if-changed=include");
    let mut files: Vec<_> = std::fs::read_dir("cpp")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "cc"))
        .collect();
    files.sort();
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .include("include")
        .warnings(true)
        .extra_warnings(true)
        .files(files)
        .compile("leveldb_classes");
}
