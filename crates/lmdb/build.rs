//! Gives the shared library the name under which programs that were linked to LMDB look for it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,liblmdb.so.0");
}
