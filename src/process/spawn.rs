//! Starts the command itself, from inside the launcher.

use super::wire::Order;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts the command in a session of its own, with no input and no other open file, and returns its
/// number, or why it could not be started.
pub(super) fn spawn_command(order: &Order) -> Result<u32, String> {
    let (program, arguments) = order.argv.split_first().ok_or("the command is empty")?;
    let cwd = Path::new(&order.cwd);
    // Asked before, because the system answers a missing folder and a missing program alike.
    match std::fs::metadata(cwd) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(format!("its folder {cwd:?} is no folder")),
        Err(error) => return Err(format!("its folder {cwd:?} cannot be entered: {error}")),
    }
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cwd).stdin(Stdio::null()).env_clear();
    for (name, value) in &order.env {
        let bytes = name.as_encoded_bytes();
        if bytes.is_empty() || bytes.contains(&b'=') || bytes.contains(&0) {
            return Err(format!("{name:?} cannot be the name of a variable"));
        }
        command.env(name, value);
    }
    leave_session(&mut command, order);
    match command.spawn() {
        Ok(child) => Ok(child.id()),
        Err(error) => Err(format!("{program:?}: {error}")),
    }
}

#[expect(unsafe_code, reason = "only a hook between fork and exec can make a session")]
fn leave_session(command: &mut Command, order: &Order) {
    #[cfg(target_os = "linux")]
    let confinement = order
        .namespace
        .as_ref()
        .and_then(|place| place.enclosure.as_ref())
        .map(super::confine::Confinement::new);
    #[cfg(not(target_os = "linux"))]
    let _ = order;
    // SAFETY: the launcher has one thread, and the hook makes only system calls.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            #[cfg(target_os = "linux")]
            {
                if let Some(confinement) = &confinement {
                    confinement.apply()?;
                }
                // When the keeper is killed, its command goes with it; the rest falls to loopexec. A change of
                // the user would undo it.
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            }
            Ok(())
        });
    }
}
