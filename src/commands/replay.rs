//! stub
use super::Global;
use super::outcome::Outcome;
use super::recorded::Which;
use crate::error::Result;
/// Options.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Which run.
    #[command(flatten)]
    pub which: Which,
}
/// Replays.
pub fn run(_args: &Args, _global: &Global) -> Result<Outcome> {
    Ok(Outcome::text("replay", String::new()))
}
