//! The `hedgerow` command.

fn main() -> std::process::ExitCode {
    hedgerow_cli::main()
}
