//! What a container engine is told: the words that make a container which closes one command in.
//!
//! Docker and podman take the same ones but for a few. The container has no network or the host's, no privilege,
//! a read-only root from the image, and of the host what the order shows. `container` starts it, and `contained`
//! is what runs in it first.

use super::enclosure::{ContainerEngine, Enclosure, EngineKind, Ids, Network, OURS};
use super::job::Mount;
use super::wire::NamespaceOrder;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Processes of a container beside those of its command.
const OWN_PROCESSES: u64 = 8;

/// Podman bounds its own processes like this, and a container's cannot have more.
const MOST_PROCESSES: u64 = 32_768;

/// What of this machine bounds a container.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hard {
    /// Open files that may be allowed.
    pub(super) files: u64,
    /// Processes that may be allowed.
    pub(super) processes: u64,
}

/// Returns the arguments of the engine for one container, or why it cannot be told.
pub(super) fn run_words(
    engine: &ContainerEngine,
    order: &NamespaceOrder,
    closed: &Enclosure,
    [name, control]: [&OsStr; 2],
    ids: Ids,
    hard: Hard,
) -> Result<Vec<OsString>, String> {
    let mut words: Vec<OsString> = [
        "run",
        "--rm",
        "--pull=never",
        "--log-driver=none",
        "--sig-proxy=false",
        "--no-healthcheck",
        "--read-only",
        "--cap-drop=ALL",
        "--security-opt=no-new-privileges",
        // Files of the caller get no labels of ours; what holds is proven from inside.
        "--security-opt=label=disable",
        "--ipc=private",
        "--workdir=/",
        "--ulimit=core=0:0",
        // What an image has loaded into its programs is not for ours.
        "--env=LD_PRELOAD=",
        "--env=LD_LIBRARY_PATH=",
        "--env=LD_AUDIT=",
    ]
    .map(OsString::from)
    .to_vec();
    let mut say = |word: String| words.push(word.into());
    say(format!("--user={}:{}", ids.uid, ids.gid));
    match closed.network {
        Network::Host => say("--network=host".into()),
        _ => {
            say("--network=none".into());
            // A door may be any port.
            say("--sysctl=net.ipv4.ip_unprivileged_port_start=0".into());
        }
    }
    say(format!("--shm-size={}", closed.shm));
    say(format!("--tmpfs=/tmp:rw,exec,nosuid,nodev,mode=1777,size={}", closed.shm));
    if let Some(most) = closed.limits.processes {
        say(format!("--pids-limit={}", most.saturating_add(OWN_PROCESSES)));
    }
    match engine.kind {
        EngineKind::Docker => {
            // What runs in it hangs below its daemon, where nobody of ours could watch it.
            if let Some(most) = closed.limits.memory {
                say(format!("--memory={most}"));
            }
            // It would make each of these a folder on disk that nothing bounds.
            for folder in &engine.volumes {
                if folder.contains(':') {
                    return Err(format!(
                        "the image declares {folder:?} to be a volume, which docker cannot be told to leave out"
                    ));
                }
                say(format!("--tmpfs={folder}:rw,nosuid,nodev,size={}", closed.shm));
            }
        }
        EngineKind::Podman => {
            say("--read-only-tmpfs=false".into());
            say("--image-volume=ignore".into());
            // By itself it raises them, which not every root may.
            let files = closed.limits.files.min(hard.files);
            say(format!("--ulimit=nofile={files}:{files}"));
            let wanted = closed.limits.processes.unwrap_or(MOST_PROCESSES);
            let processes = wanted.min(hard.processes).min(MOST_PROCESSES);
            say(format!("--ulimit=nproc={processes}:{processes}"));
            if !nix::unistd::geteuid().is_root() {
                say("--userns=keep-id".into());
            }
        }
    }
    words.push([OsStr::new("--name="), name].join(OsStr::new("")));
    for (from, to) in own_files(engine) {
        words.push(mount(&from, &to, Access::Read)?);
    }
    // The loader reads it for every program, and ours is one of them.
    words.push(mount(Path::new("/dev/null"), Path::new("/etc/ld.so.preload"), Access::Read)?);
    words.push(mount(Path::new(control), &engine.control(), Access::Write)?);
    for wanted in closed.system.iter().chain(&order.mounts) {
        words.push(match wanted {
            Mount::Bind { from, to } => mount(from, to, Access::Write)?,
            Mount::BindReadOnly { from, to } => mount(from, to, Access::Read)?,
            Mount::FilesOnly { to, .. }
            | Mount::Overlay { to, .. }
            | Mount::Memory { to, .. }
            | Mount::Link { to, .. } => {
                return Err(format!("a container can be shown folders alone, not {to:?}"));
            }
        });
    }
    let mut own = engine.own_words().into_iter();
    let first = own.next().unwrap_or_default();
    words.push([OsStr::new("--entrypoint="), &first].join(OsStr::new("")));
    words.push(engine.image.clone().into());
    words.extend(own);
    words.push(super::launcher::ARGUMENT.into());
    words.push(engine.control().into());
    Ok(words)
}

/// Returns what is shown of loopexec itself: files, each at a place inside.
fn own_files(engine: &ContainerEngine) -> Vec<(PathBuf, PathBuf)> {
    let ours = Path::new(OURS);
    let mut files = vec![(engine.own.file.clone(), ours.join("loopexec"))];
    files.extend(engine.own.loader.iter().map(|file| (file.into(), ours.join("loader"))));
    let libraries = engine.own.libraries.iter();
    files.extend(libraries.map(|(name, file)| (file.into(), ours.join("lib").join(name))));
    files
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// Returns the word that shows a path; both engines read it as fields between commas.
fn mount(from: &Path, to: &Path, access: Access) -> Result<OsString, String> {
    let odd = |path: &Path| path.to_str().is_none_or(|text| text.contains([',', '"', '\n', '\r']));
    if let Some(path) = [from, to].into_iter().find(|path| odd(path)) {
        return Err(format!(
            "a container cannot be shown {path:?}: its path has a comma, a quote or no text"
        ));
    }
    let mut word = OsString::from("--mount=type=bind,source=");
    word.push(from);
    word.push(",target=");
    word.push(to);
    if access == Access::Read {
        word.push(",readonly");
    }
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::super::enclosure::{Files, Limits, OwnProgram, Walls};
    use super::super::wire::Entry;
    use super::*;

    fn engine(kind: EngineKind) -> ContainerEngine {
        ContainerEngine {
            program: "/usr/bin/x".into(),
            kind,
            image: "sha256:1".into(),
            volumes: vec!["/data".into()],
            env: Vec::new(),
            own: OwnProgram {
                file: "/o".into(),
                loader: Some("/lib/ld".into()),
                libraries: vec![("libc.so.6".into(), "/lib/libc-2.so".into())],
            },
        }
    }

    fn said(kind: EngineKind, network: Network, mounts: Vec<Mount>) -> Result<Vec<String>, String> {
        let limits = Limits {
            processes: Some(10),
            files: 20,
            file_bytes: 1,
            memory: Some(30),
            disk: 1,
            group: false,
        };
        let closed = Enclosure {
            walls: Walls::Mounts,
            staging: "/s".into(),
            system: Vec::new(),
            network,
            doors: Vec::new(),
            shm: 40,
            nested: false,
            ids: None,
            filters: Vec::new(),
            limits,
        };
        let order = NamespaceOrder {
            entry: Entry::User,
            overlay: String::new(),
            mounts,
            remove: Vec::new(),
            enclosure: None,
            caller: None,
            engine: None,
            outside: None,
        };
        let ids = Ids { uid: 7, gid: 8, files: Files::Own };
        let hard = Hard { files: 15, processes: u64::MAX };
        let names = [OsStr::new("n"), OsStr::new("/s/c")];
        let words = run_words(&engine(kind), &order, &closed, names, ids, hard)?;
        Ok(words.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn a_container_has_no_privilege_no_network_and_what_it_is_shown() {
        let to = || PathBuf::from("/a b");
        let mounts = vec![
            Mount::Bind { from: "/w".into(), to: to() },
            Mount::BindReadOnly { from: "/w/.git".into(), to: to().join(".git") },
        ];
        for kind in [EngineKind::Docker, EngineKind::Podman] {
            let words = said(kind, Network::Own, mounts.clone()).unwrap();
            for word in [
                "--cap-drop=ALL",
                "--security-opt=no-new-privileges",
                "--read-only",
                "--pull=never",
                "--network=none",
                "--user=7:8",
                "--pids-limit=18",
                "--mount=type=bind,source=/dev/null,target=/etc/ld.so.preload,readonly",
                "--mount=type=bind,source=/w,target=/a b",
                "--mount=type=bind,source=/w/.git,target=/a b/.git,readonly",
                "--mount=type=bind,source=/lib/libc-2.so,target=/.loopexec/lib/libc.so.6,readonly",
            ] {
                assert!(words.iter().any(|said| said == word), "{word} {words:?}");
            }
            let image = words.iter().position(|word| word == "sha256:1").unwrap();
            let own = ["--library-path", "/.loopexec/lib", "/.loopexec/loopexec"];
            assert_eq!(words[image + 1..image + 4], own);
            assert!(
                said(kind, Network::Host, Vec::new()).unwrap().contains(&"--network=host".into())
            );
        }
        let docker = said(EngineKind::Docker, Network::Own, Vec::new()).unwrap();
        assert!(docker.contains(&"--tmpfs=/data:rw,nosuid,nodev,size=40".into()), "{docker:?}");
        let podman = said(EngineKind::Podman, Network::Own, Vec::new()).unwrap();
        assert!(podman.contains(&"--image-volume=ignore".into()), "{podman:?}");
        assert!(podman.contains(&"--ulimit=nofile=15:15".into()), "{podman:?}");
    }

    #[test]
    fn a_path_that_would_be_read_as_options_is_refused() {
        for odd in ["/a,readonly=false", "/a\"b", "/a\nb"] {
            let mounts = vec![Mount::Bind { from: odd.into(), to: "/x".into() }];
            let error = said(EngineKind::Podman, Network::Own, mounts).unwrap_err();
            assert!(error.contains("cannot be shown"), "{error}");
        }
    }
}
