//! The row about isolation: whether zones hold on this machine, and whether the loop uses them.

use super::machine::Tools;
use super::rows::Row;
use super::tree::Scratch;
use crate::commands::run::opening::Ready;
use crate::commands::run::{credentials, zoned};
use crate::config::LoopSpec;
use crate::config::spec::Backend as Named;
use crate::error::Result;
use crate::zone::kind::Room;
use crate::zone::ladder::{self, Chosen};

/// What a run without zones is.
const NONE: &str = "none, degraded: exec and check run with your rights and your network";

/// What zones by Landlock are.
const LANDLOCK: &str = "degraded, for names, sizes and processes of the machine stay in sight";

/// What helps where nothing isolates.
const ELSEWHERE: &str = "run agents you do not trust in a container or a throw-away machine";

/// Tries the backend that the loop names, or any where it names none.
///
/// # Errors
/// An interruption, or a canary that cannot be run at all.
pub fn row(ready: &mut Ready, tools: &Tools, spec: Option<&LoopSpec>) -> Result<Row> {
    let accepts_landlock = spec.is_some_and(zoned::accepts_landlock);
    let wanted = zoned::backend_of(spec.map_or(Named::Auto, |spec| spec.isolation.backend));
    let only = wanted.flatten();
    let rooms =
        match spec.map_or_else(|| Ok(zoned::plain_rooms()), |spec| zoned::rooms(ready, spec)) {
            Ok(rooms) => rooms,
            Err(error) => return Ok(Row::fail("isolation", &error)),
        };
    if let Some(Err(error)) = spec.map(|spec| credentials::check(spec, &ready.variables)) {
        return Ok(Row::fail("isolation", &error));
    }
    let image = spec.and_then(zoned::image_of);
    let copies = spec.is_none_or(zoned::works_in_copies);
    let asked = zoned::Asked { only, accepts_landlock };
    let found = attempt(ready, tools, asked, image, rooms, copies)?;
    Ok(match (wanted, found) {
        (Some(_), Ok(chosen)) if chosen.zones.backend.is_degraded() => {
            Row::warn("isolation", format!("{LANDLOCK}: {}", holds(&chosen))).mend(ELSEWHERE)
        }
        (Some(_), Ok(chosen)) => Row::pass("isolation", holds(&chosen)),
        (Some(None), Err(error)) if spec.is_some_and(zoned::accepts_none) => {
            Row::warn("isolation", format!("{NONE}, which the loop accepts: {}", error.what))
                .mend(ELSEWHERE)
        }
        (Some(None), Err(error)) => Row::fail("isolation", &error.hint(zoned::ACCEPT_NONE)),
        (Some(Some(_)), Err(error)) => Row::fail("isolation", &error),
        (None, Ok(chosen)) => Row::warn(
            "isolation",
            format!("{NONE}; {} would hold here", chosen.zones.backend.word()),
        )
        .mend("isolation: {backend: auto}"),
        (None, Err(_)) => Row::warn("isolation", NONE).mend(ELSEWHERE),
    })
}

fn attempt(
    ready: &mut Ready,
    tools: &Tools,
    asked: zoned::Asked,
    image: Option<zoned::ImageName<'_>>,
    rooms: [Room; 2],
    copies: bool,
) -> Result<Result<Chosen>> {
    if let Err(error) = zoned::refuse_wide_trees(ready) {
        return Ok(Err(error));
    }
    let scratch = match Scratch::make(ready) {
        Ok(scratch) => scratch,
        Err(error) => return Ok(Err(error)),
    };
    let found =
        zoned::try_out(ready, asked, image, rooms, copies, &tools.toolchains, &scratch.folder)?;
    Ok(found.map_err(|why| ladder::unsatisfiable(&why)))
}

fn holds(chosen: &Chosen) -> String {
    let rows = chosen.tables.iter().flat_map(|table| &table.rows);
    let attempts = rows.filter(|row| row.holds).count();
    format!(
        "{}: both zones hold, {attempts} attempts from inside ended as they have to",
        chosen.zones.backend.word()
    )
}
