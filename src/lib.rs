//! loopexec runs an agent and then an external check, again and again, until the check passes and
//! every guard holds, or a computed reason says stop.

#[cfg(feature = "commands")]
pub mod ci;
#[cfg(feature = "commands")]
pub mod commands;
pub mod config;
pub mod domain;
pub mod engine;
pub mod error;
pub mod exit;
pub mod foreign;
pub mod integrity;
pub mod process;
pub mod receipt;
pub mod report;
pub mod workspace;
#[cfg(all(feature = "commands", target_os = "linux"))]
pub mod zone;

/// Runs the command line and returns the process exit code.
#[cfg(feature = "commands")]
pub fn run(args: Vec<std::ffi::OsString>) -> std::process::ExitCode {
    if args.get(1).is_some_and(|first| first == process::launcher::ARGUMENT) {
        return process::launcher::main();
    }
    #[cfg(target_os = "linux")]
    if args.get(1).is_some_and(|first| first == zone::proof::ARGUMENT) {
        return zone::proof::main(&args);
    }
    commands::main(args)
}
