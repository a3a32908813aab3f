//! The binary: returns what the library gives.

fn main() -> std::process::ExitCode {
    loopexec::run(std::env::args_os().collect())
}
