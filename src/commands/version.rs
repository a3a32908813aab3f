//! `loopexec version`: the version of the tool and of its formats.

use super::Global;
use super::outcome::Outcome;
use crate::error::Result;

/// Options of `version`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints the version.
pub fn run(_args: &Args, _global: &Global) -> Result<Outcome> {
    let text = format!(
        "loopexec {}\nresult format {}\nreceipt format 1\nloop file version 1\n",
        env!("CARGO_PKG_VERSION"),
        crate::report::object::FORMAT
    );
    Ok(Outcome::text("version", text)
        .with("receipt_format", 1)
        .with("loop_file_version", 1)
        .with("target", std::env::consts::ARCH.to_owned() + "-" + std::env::consts::OS))
}
