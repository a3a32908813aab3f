//! What loopexec and its launcher say to each other: JSON frames behind a length of four bytes,
//! big-endian, one order down and reports up; single bytes ask the launcher to end the command.

use super::enclosure::{ContainerEngine, Enclosure};
use super::job::{Mount, Survivor};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read, Write};

/// Asks the command to end.
pub(super) const TERMINATE: u8 = b'T';
/// Kills the whole tree.
pub(super) const KILL: u8 = b'K';

/// Comes up with the descriptor of a listener, before every report: no report's length starts with it.
pub(super) const LISTENER: u8 = b'F';

/// No order or report is longer; a larger length is a broken stream.
const LONGEST: u32 = 256 << 20;

/// The job as the launcher gets it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) argv: Vec<OsString>,
    pub(super) cwd: OsString,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) namespace: Option<NamespaceOrder>,
}

/// The namespaces to enter and what to mount there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NamespaceOrder {
    pub(super) entry: Entry,
    /// Mount options of overlays beside the folders.
    pub(super) overlay: String,
    pub(super) mounts: Vec<Mount>,
    pub(super) remove: Vec<OsString>,
    pub(super) enclosure: Option<Enclosure>,
    /// Whom a command without an enclosure becomes, where the launcher is root in somebody's place.
    pub(super) caller: Option<Caller>,
    /// What makes a container for the command, where that is its place; the rest of this order says what is in it.
    #[serde(default)]
    pub(super) engine: Option<ContainerEngine>,
    /// What the container's process 1 is called outside.
    #[serde(default)]
    pub(super) outside: Option<i32>,
}

/// Who started loopexec.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Caller {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

/// How the namespaces are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// Through a user namespace in which every id is itself.
    User,
    /// By privilege, without a user namespace.
    Root,
    /// Not at all: the walls are Landlock's.
    Nowhere,
}

/// What the launcher reports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "report")]
pub(super) enum Report {
    /// The command runs.
    Started {
        pid: u32,
        /// The process that everything of the command is below, where that is not the launcher.
        #[serde(default)]
        root: Option<i32>,
        /// The file that counts the kills for want of memory in its control group.
        #[serde(default)]
        kills: Option<OsString>,
    },
    /// The place for the command could not be made; never the command's fault.
    LaunchFailed { what: String },
    /// The command could not be started.
    NotStarted { why: String },
    /// The command ended, but these cannot be killed.
    Unkillable { survivors: Vec<Survivor> },
    /// The command ended and nothing of its tree lives.
    Ended {
        code: Option<i32>,
        signal: Option<i32>,
        survivors: Vec<Survivor>,
        /// How often something was sent to a network that an own one does not have.
        #[serde(default)]
        refused: u64,
        /// How many of it were killed for want of memory, and how often there was no room for another process; where a
        /// control group counts that.
        #[serde(default)]
        used_up: Option<(u64, u64)>,
    },
}

/// Returns the frame that carries a value.
pub(super) fn frame(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let body = serde_json::to_vec(value)?;
    let length = u32::try_from(body.len()).ok().filter(|length| *length <= LONGEST);
    let length = length.ok_or_else(|| io::Error::other("the frame is too long"))?;
    Ok([&length.to_be_bytes(), body.as_slice()].concat())
}

/// Writes one frame.
pub(super) fn write_frame(mut to: impl Write, value: &impl Serialize) -> io::Result<()> {
    to.write_all(&frame(value)?)
}

/// Reads one frame, waiting for it.
pub(super) fn read_frame<T: for<'a> Deserialize<'a>>(mut from: impl Read) -> io::Result<T> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > LONGEST {
        return Err(io::Error::other("the frame is too long"));
    }
    let mut body = vec![0; length as usize];
    from.read_exact(&mut body)?;
    Ok(serde_json::from_slice(&body)?)
}

/// Takes the next whole report out of what has arrived.
pub(super) fn take_report(arrived: &mut Vec<u8>) -> io::Result<Option<Report>> {
    let Some((length, rest)) = arrived.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length);
    if length > LONGEST {
        return Err(io::Error::other("the frame is too long"));
    }
    let Some(body) = rest.get(..length as usize) else { return Ok(None) };
    let report = serde_json::from_slice(body)?;
    arrived.drain(..4 + length as usize);
    Ok(Some(report))
}

/// Paths as the bytes they are, for serde writes only UTF-8 ones by itself.
pub(super) mod os_path {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use std::ffi::OsString;
    use std::path::{Path, PathBuf};

    pub(in crate::process) fn serialize<S: Serializer>(
        path: &Path,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        path.as_os_str().serialize(to)
    }

    pub(in crate::process) fn deserialize<'a, D: Deserializer<'a>>(
        from: D,
    ) -> Result<PathBuf, D::Error> {
        OsString::deserialize(from).map(PathBuf::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStringExt;

    #[test]
    fn any_bytes_come_through_and_half_a_frame_waits() {
        let odd = OsString::from_vec(vec![b'/', 0xff, b'\n']);
        let mount = Mount::Bind { from: odd.clone().into(), to: "/x".into() };
        let namespace = Some(NamespaceOrder {
            entry: Entry::User,
            overlay: String::new(),
            mounts: vec![mount],
            remove: vec![odd.clone()],
            enclosure: None,
            caller: None,
            engine: None,
            outside: None,
        });
        let order = Order {
            argv: vec![odd.clone()],
            cwd: odd.clone(),
            env: vec![(odd.clone(), odd)],
            namespace,
        };
        let frame = frame(&order).unwrap();
        assert_eq!(read_frame::<Order>(frame.as_slice()).unwrap(), order);

        let whole = super::frame(&Report::Started { pid: 7, root: None, kills: None }).unwrap();
        for cut in 0..whole.len() {
            assert_eq!(take_report(&mut whole[..cut].to_vec()).unwrap(), None);
        }
        let mut two = [whole.clone(), whole[..5].to_vec()].concat();
        assert_eq!(
            take_report(&mut two).unwrap(),
            Some(Report::Started { pid: 7, root: None, kills: None })
        );
        assert_eq!(two, whole[..5]);
        assert!(take_report(&mut vec![0xff; 9]).is_err());
    }
}
