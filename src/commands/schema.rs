//! `loopexec schema`: the JSON schema of the loop file.

use super::Global;
use super::outcome::Outcome;
use crate::error::Result;

/// Options of `schema`.
#[derive(Debug, clap::Args)]
pub struct Args {}

/// Prints the schema, byte for byte what is kept in `dist/loop.schema.json`.
pub fn run(_args: &Args, _global: &Global) -> Result<Outcome> {
    Ok(Outcome::text("schema", crate::config::schema_text())
        .with("schema", crate::config::schema()))
}
