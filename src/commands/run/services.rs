//! Puts the services that the check talks to back to their start, before every run of it.

use super::running::Launch;
use super::site::{Ground, Site};
use crate::domain::command::{CommandSpec, Exit};
use crate::domain::judge::describe_exit;
use crate::domain::observation::Place;
use crate::error::{Error, Kind, Result};
use crate::process::View;
use std::collections::BTreeMap;
use std::time::Duration;

/// The most time one reset may take.
const LONGEST: Duration = Duration::from_secs(10 * 60);
/// Lines of a failed reset that are told.
const LINES: usize = 12;

impl Site {
    /// Resets every service that has a command for it, where and as the check will run.
    ///
    /// # Errors
    /// `workspace_invalid` with the detail `reset_failed`: no verdict on what an unknown state gives.
    pub(super) fn reset_services(
        &mut self,
        ground: &Ground,
        view: &View,
        place: Place,
    ) -> Result<()> {
        for service in self.spec.check.services.clone() {
            let Some(run) = service.reset else { continue };
            let command = CommandSpec { run, timeout: None, ..self.spec.check.command.clone() };
            let env = self.surround.environment(place, ground, &command, &BTreeMap::new())?;
            let left = Duration::from_millis(self.left_ms().max(1));
            let launch = Launch {
                view: view.clone(),
                command: &command,
                env,
                deadline: left.min(LONGEST),
                idle: None,
            };
            let (outcome, tail) = self.launch(ground, launch, None)?;
            if outcome.exit == (Exit::Code { code: 0 }) {
                continue;
            }
            let said = String::from_utf8_lossy(&tail);
            let mut lines: Vec<&str> =
                said.lines().rev().filter(|line| !line.trim().is_empty()).take(LINES).collect();
            lines.reverse();
            let what = format!(
                "the reset of {} {}. It said: {}",
                service.address,
                describe_exit(&outcome.exit),
                crate::report::text::clean(&lines.join("\n"))
            );
            return Err(Error::new(Kind::WorkspaceInvalid, what)
                .detail("reset_failed")
                .hint("see that the service runs, and that its reset works by hand"));
        }
        Ok(())
    }
}
