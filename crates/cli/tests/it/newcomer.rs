//! The script of what newcomers and operators try: tests/newcomer.sh.

use std::process::Command;

#[test]
fn every_line_of_the_newcomer_holds() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/newcomer.sh");
    let output = Command::new("bash").args([script, env!("CARGO_BIN_EXE_hedgerow")]).output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
