//! The row about isolation: whether zones hold on this machine, and whether the loop uses them.

use super::machine::Tools;
use super::rows::Row;
use super::tree::Scratch;
use crate::commands::run::opening::Ready;
use crate::commands::run::{credentials, zoned};
use crate::config::LoopSpec;
use crate::config::spec::{Backend as Named, BoundsSpec};
use crate::error::Result;
use crate::zone::kind::Bounds;
use crate::zone::ladder::{self, Backend, Chosen};

/// What a run without zones is.
const NONE: &str = "none, degraded: exec and check run with your rights and your network";

/// Tries the backend that the loop names, or any where it names none.
///
/// # Errors
/// An interruption, or a canary that cannot be run at all.
pub fn row(ready: &mut Ready, tools: &Tools, spec: Option<&LoopSpec>) -> Result<Row> {
    let only = match spec.map_or(Named::Auto, |spec| spec.isolation.backend) {
        Named::Namespaces => Some(Backend::Namespaces),
        Named::Root => Some(Backend::Root),
        Named::Oci => Some(Backend::Oci),
        Named::Auto | Named::None => None,
    };
    let bounds = spec.map_or([zoned::bounds_of(&BoundsSpec::default()); 2], zoned::bounds);
    if let Some(Err(error)) = spec.map(|spec| credentials::check(spec, &ready.variables)) {
        return Ok(Row::fail("isolation", &error));
    }
    let image = spec.and_then(zoned::image_of);
    let found = attempt(ready, tools, only, image, bounds)?;
    Ok(match (only, found) {
        (Some(_), Ok(chosen)) => Row::pass("isolation", holds(&chosen)),
        (Some(_), Err(error)) => Row::fail("isolation", &error),
        (None, Ok(chosen)) => Row::warn(
            "isolation",
            format!("{NONE}; {} would hold here", chosen.zones.backend.word()),
        )
        .mend(format!("isolation: {{backend: {}}}", chosen.zones.backend.word())),
        (None, Err(_)) => Row::warn("isolation", NONE)
            .mend("run agents you do not trust in a container or a throw-away machine"),
    })
}

fn attempt(
    ready: &mut Ready,
    tools: &Tools,
    only: Option<Backend>,
    image: Option<zoned::ImageName<'_>>,
    bounds: [Bounds; 2],
) -> Result<Result<Chosen>> {
    if let Err(error) = zoned::refuse_wide_trees(ready) {
        return Ok(Err(error));
    }
    let scratch = match Scratch::make(ready) {
        Ok(scratch) => scratch,
        Err(error) => return Ok(Err(error)),
    };
    let found = zoned::try_out(ready, only, image, bounds, &tools.toolchains, &scratch.folder)?;
    Ok(found.map_err(|why| ladder::unsatisfiable(&why)))
}

fn holds(chosen: &Chosen) -> String {
    let attempts: usize = chosen.tables.iter().map(|table| table.rows.len()).sum();
    format!(
        "{}: both zones hold, {attempts} attempts from inside ended as they have to",
        chosen.zones.backend.word()
    )
}
