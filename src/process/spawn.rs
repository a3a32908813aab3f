//! Starts the command itself, from inside the launcher.

#[cfg(target_os = "linux")]
use super::wire::Caller;
use super::wire::{Order, Report};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Starts the command in a session of its own, with no input and no other open file, and returns its
/// number, or says why it could not be started or closed in.
pub(super) fn spawn_command(order: &Order) -> Result<u32, Report> {
    let mut command = prepare(order).map_err(|why| Report::NotStarted { why })?;
    leave_session(&mut command, order).map_err(|what| Report::LaunchFailed { what })?;
    match command.spawn() {
        Ok(child) => Ok(child.id()),
        Err(error) => {
            Err(Report::NotStarted { why: format!("{:?}: {error}", command.get_program()) })
        }
    }
}

fn prepare(order: &Order) -> Result<Command, String> {
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
    Ok(command)
}

#[expect(unsafe_code, reason = "only a hook between fork and exec can make a session")]
fn leave_session(command: &mut Command, order: &Order) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    let mut confinement = order
        .namespace
        .as_ref()
        .and_then(|place| place.enclosure.as_ref())
        .map(super::confine::Confinement::new)
        .transpose()?;
    #[cfg(not(target_os = "linux"))]
    let _ = order;
    #[cfg(target_os = "linux")]
    let caller = order.namespace.as_ref().and_then(|place| place.caller.clone());
    // SAFETY: the launcher has one thread, and the hook makes only system calls.
    unsafe {
        command.pre_exec(move || {
            nix::unistd::setsid()?;
            #[cfg(target_os = "linux")]
            {
                match (&mut confinement, &caller) {
                    (Some(confinement), _) => confinement.apply()?,
                    (None, Some(caller)) => become_caller(caller)?,
                    (None, None) => {}
                }
                // When the keeper is killed, its command goes with it; the rest falls to loopexec. A change of
                // the user would undo it.
                nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)?;
            }
            Ok(())
        });
    }
    Ok(())
}

/// Gives up, for good, being root.
#[cfg(target_os = "linux")]
fn become_caller(caller: &Caller) -> std::io::Result<()> {
    use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
    let (uid, gid) = (Uid::from_raw(caller.uid), Gid::from_raw(caller.gid));
    // No more than the kernel takes, and no memory is asked for.
    let mut groups = [gid; 64];
    let count = caller.groups.len().min(groups.len());
    for (to, from) in groups.iter_mut().zip(&caller.groups) {
        *to = Gid::from_raw(*from);
    }
    setgroups(&groups[..count])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)?;
    Ok(())
}
