//! The image whose tools the commands of a zone get, and the engine that makes containers from it.
//!
//! Both are the caller's: nothing is installed, started or fetched. What containers are told stands in `process`.

use crate::domain::command::Exit;
use crate::error::{Error, Kind, Result};
use crate::process::environment::Variables;
use crate::process::toolchains::{STANDARD, Toolchains, find_program, is_trees};
use crate::process::{ContainerEngine, EngineKind, Job, OwnProgram, Silent, Supervisor, View};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time for an engine to answer; a daemon that has just been started takes a while.
const PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of an answer that are read.
const LONGEST: usize = 1 << 20;

/// Characters of what an engine says that are told on.
const SAID: usize = 300;

/// The caller's variables that say where an engine's daemon or storage is; none that holds a credential.
const TOLD: [&str; 20] = [
    "CONTAINERS_CONF",
    "CONTAINERS_CONF_OVERRIDE",
    "CONTAINERS_STORAGE_CONF",
    "CONTAINER_HOST",
    "DBUS_SESSION_BUS_ADDRESS",
    "DOCKER_API_VERSION",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTEXT",
    "DOCKER_HOST",
    "DOCKER_TLS_VERIFY",
    "HOME",
    "LOGNAME",
    "STORAGE_DRIVER",
    "STORAGE_OPTS",
    "TMPDIR",
    "USER",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// Variables of an image that say what a zone says itself.
const OURS: [&str; 7] = ["HOME", "HOSTNAME", "LOGNAME", "PATH", "PWD", "TMPDIR", "USER"];

/// An image by name, as a loop asks for it.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The image.
    pub name: &'a str,
    /// The engine; the first that is there where none is said.
    pub engine: Option<EngineKind>,
    /// The variables loopexec was started with.
    pub variables: &'a Variables,
    /// The caller's path.
    pub path: &'a [PathBuf],
    /// The caller's tree, whose programs are not run out here.
    pub tree: &'a Path,
    /// The caller's HOME.
    pub home: Option<&'a Path>,
}

/// An image that is there.
#[derive(Debug, Clone)]
pub struct Image {
    /// What makes containers from it.
    pub engine: ContainerEngine,
    /// The version of what makes them.
    pub version: String,
    /// The image as it was asked for.
    pub name: String,
    /// What a registry calls these very bytes, where it came from one.
    pub digest: Option<String>,
    /// Where its programs are.
    pub path: Vec<PathBuf>,
    /// Its variables.
    pub env: Vec<(String, String)>,
}

impl Image {
    /// Returns its tools; `found` are the well-known ones among them.
    pub fn toolchains(&self, found: Vec<(String, PathBuf)>) -> Toolchains {
        Toolchains::of_image(self.path.clone(), self.env.clone(), found)
    }

    /// Returns its path as one text.
    pub fn search_path(&self) -> OsString {
        std::env::join_paths(&self.path).unwrap_or_default()
    }
}

/// What came of asking an engine: what it printed, or what it said instead.
type Answer = std::result::Result<Vec<u8>, String>;

/// Finds the engine and the image; the answer says what is missing, and what helps.
///
/// # Errors
/// A signal that asks to stop, or a system that starts no process.
pub fn find(
    supervisor: &mut Supervisor,
    asked: &Asked<'_>,
) -> Result<std::result::Result<Image, String>> {
    let outside: Vec<PathBuf> = asked
        .path
        .iter()
        .filter(|folder| !is_trees(folder, asked.tree, asked.home))
        .cloned()
        .collect();
    let (kind, program) = match find_engine(asked, &outside) {
        Ok(found) => found,
        Err(why) => return Ok(Err(why)),
    };
    if asked.name.starts_with('-') || asked.name.is_empty() {
        return Ok(Err(format!("`{}` is the name of no image", asked.name)));
    }
    let env = told(asked.variables, &outside);
    let mut ask = |words: &[&str]| ask(supervisor, &program, words, &env);
    let format = match kind {
        EngineKind::Docker => "{{.Server.Version}}",
        EngineKind::Podman => "{{.Client.Version}}",
    };
    let version = match ask(&["version", "--format", format])? {
        Ok(version) => String::from_utf8_lossy(&version).trim().to_owned(),
        Err(said) => return Ok(Err(unanswered(kind, &said))),
    };
    let word = kind.word();
    let inspected = match ask(&["image", "inspect", asked.name])? {
        Ok(text) => text,
        Err(said) if is_missing(&said) => {
            let name = asked.name;
            return Ok(Err(format!(
                "{word} has no image `{name}` here, and loopexec pulls none: `{word} pull {name}` gets it"
            )));
        }
        Err(said) => return Ok(Err(unanswered(kind, &said))),
    };
    let read: Option<Value> = serde_json::from_slice(&inspected).ok();
    let Some(facts) = read.as_ref().and_then(|all| all.get(0)) else {
        return Ok(Err(format!("what {word} says of the image `{}` cannot be read", asked.name)));
    };
    let Some(id) = facts.get("Id").and_then(Value::as_str) else {
        return Ok(Err(format!("{word} knows the image `{}` by no id", asked.name)));
    };
    let own = match own_program(supervisor)? {
        Ok(own) => own,
        Err(why) => return Ok(Err(why)),
    };
    let (path, variables) = variables_of(facts);
    let digests = facts.get("RepoDigests").and_then(|all| all.get(0)).and_then(Value::as_str);
    let volumes = facts.pointer("/Config/Volumes").and_then(Value::as_object);
    let volumes = volumes.into_iter().flat_map(|all| all.keys().cloned()).collect();
    let engine = ContainerEngine { program, kind, image: id.to_owned(), volumes, env, own };
    let (name, digest) = (asked.name.to_owned(), digests.map(str::to_owned));
    Ok(Ok(Image { engine, version, name, digest, path, env: variables }))
}

/// Looks for the engine's program on the caller's path, where the tree has no say.
fn find_engine(
    asked: &Asked<'_>,
    outside: &[PathBuf],
) -> std::result::Result<(EngineKind, PathBuf), String> {
    let wanted = match asked.engine {
        Some(kind) => vec![kind],
        None => vec![EngineKind::Podman, EngineKind::Docker],
    };
    let found =
        wanted.into_iter().find_map(|kind| Some((kind, find_program(outside, kind.word())?)));
    found.ok_or_else(|| match asked.engine {
        Some(kind) => format!(
            "there is no program `{word}` on PATH: install {word}, or name the other engine",
            word = kind.word()
        ),
        None => "there is neither podman nor docker on PATH: install one of them".to_owned(),
    })
}

/// Returns what an engine's client is told of the caller.
fn told(variables: &Variables, path: &[PathBuf]) -> Vec<(OsString, OsString)> {
    let is_told = |name: &OsStr| name.to_str().is_some_and(|name| TOLD.contains(&name));
    let mut told: Vec<(OsString, OsString)> = variables
        .iter()
        .filter(|(name, _)| is_told(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    // What it starts in turn comes from no folder of the tree.
    told.push(("PATH".into(), std::env::join_paths(path).unwrap_or_default()));
    told
}

fn ask(
    supervisor: &mut Supervisor,
    program: &Path,
    words: &[&str],
    env: &[(OsString, OsString)],
) -> Result<Answer> {
    let argv = std::iter::once(program.as_os_str().to_owned());
    let job = Job {
        argv: argv.chain(words.iter().map(Into::into)).collect(),
        cwd: "/".into(),
        env: env.to_vec(),
        view: View::Plain,
        enclosure: None,
        deadline: Some(PATIENCE),
        idle: None,
        idle_watch: Vec::new(),
        grace: Duration::ZERO,
        keep: LONGEST,
    };
    let outcome = supervisor.run(&job, &mut Silent)?;
    Ok(match outcome.exit {
        Exit::Code { code: 0 } => Ok(outcome.stdout.kept()),
        Exit::Code { .. } => {
            let said = outcome.stderr.kept();
            let said = String::from_utf8_lossy(&said);
            let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
            Err(said.chars().filter(|c| !c.is_control()).take(SAID).collect())
        }
        Exit::Interrupted => return Err(Error::new(Kind::Interrupted, "a signal asked to stop")),
        Exit::TimedOut => Err(format!("no answer within {} s", PATIENCE.as_secs())),
        exit => Err(format!("{exit:?}")),
    })
}

/// Says whether this is how an engine says that it has no such image.
fn is_missing(said: &str) -> bool {
    let said = said.to_lowercase();
    said.contains("no such image") || said.contains("image not known")
}

/// Says in one sentence what keeps an engine from answering, and what helps.
fn unanswered(kind: EngineKind, said: &str) -> String {
    let lower = said.to_lowercase();
    let word = kind.word();
    if kind == EngineKind::Docker && lower.contains("permission denied") {
        return format!(
            "you may not speak to docker's daemon: be in the group `docker`, or name podman ({said})"
        );
    }
    if kind == EngineKind::Docker
        && (lower.contains("cannot connect to the docker daemon")
            || lower.contains("docker daemon running"))
    {
        return format!(
            "docker is there, but no daemon of it answers: start it, or name podman ({said})"
        );
    }
    format!("{word} does not answer: `{word} info` has to work first ({said})")
}

/// Reads the path and the other variables of an image.
fn variables_of(facts: &Value) -> (Vec<PathBuf>, Vec<(String, String)>) {
    let all = facts.pointer("/Config/Env").and_then(Value::as_array);
    let pairs = all.into_iter().flatten().filter_map(|pair| pair.as_str()?.split_once('='));
    let mut path: Vec<PathBuf> = Vec::new();
    let mut variables = Vec::new();
    for (name, value) in pairs {
        if name == "PATH" {
            path = std::env::split_paths(value).filter(|folder| folder.is_absolute()).collect();
        } else if !OURS.contains(&name) && !name.starts_with("LOOPEXEC_") {
            variables.push((name.to_owned(), value.to_owned()));
        }
    }
    if path.is_empty() {
        path = STANDARD.iter().map(PathBuf::from).collect();
    }
    (path, variables)
}

/// Finds what this program needs to run in any image: its loader and its libraries, where it is not static.
fn own_program(supervisor: &mut Supervisor) -> Result<std::result::Result<OwnProgram, String>> {
    let failed = |e| Error::io(Kind::Internal, "cannot find this program's own file", e);
    let file = std::env::current_exe().map_err(failed)?;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(failed)?;
    let Some(loader) = loader_of(&maps) else {
        return Ok(Ok(OwnProgram { file, loader: None, libraries: Vec::new() }));
    };
    let program = file.to_string_lossy();
    let listed = match ask(supervisor, Path::new(&loader), &["--list", &program], &[])? {
        Ok(listed) => String::from_utf8_lossy(&listed).into_owned(),
        Err(said) => return Ok(Err(format!("cannot find the libraries of loopexec: {said}"))),
    };
    Ok(Ok(OwnProgram { file, loader: Some(loader.into()), libraries: libraries_of(&listed) }))
}

/// Returns the loader among the files that a process has mapped, see proc_pid_maps(5).
fn loader_of(maps: &str) -> Option<String> {
    let files = maps.lines().filter_map(|line| Some(&line[line.find('/')?..]));
    files
        .filter(|file| file.rsplit('/').next().is_some_and(|name| name.starts_with("ld-")))
        .map(str::to_owned)
        .next()
}

/// Reads what a loader lists: `NAME => FILE (ADDRESS)`.
fn libraries_of(listed: &str) -> Vec<(String, OsString)> {
    let of_line = |line: &str| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let file = rest.rsplit_once(" (").map_or(rest, |(file, _)| file);
        // The loader is listed under its whole path, and is not looked for.
        (file.starts_with('/') && !name.contains('/'))
            .then(|| (name.to_owned(), OsString::from(file)))
    };
    listed.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_engines_say_is_told_apart() {
        // What the clients print: docker 20.10 and 28.2, podman 4.3.
        for said in [
            "Error: No such image: nosuch",
            "Error response from daemon: no such image: nosuch: No such image: nosuch:latest",
            "Error: inspecting object: nosuch: image not known",
        ] {
            assert!(is_missing(said), "{said}");
        }
        let dead = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?";
        assert!(!is_missing(dead));
        assert!(unanswered(EngineKind::Docker, dead).contains("no daemon of it answers"));
        let closed = "permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock";
        assert!(unanswered(EngineKind::Docker, closed).contains("group `docker`"));
        assert!(unanswered(EngineKind::Podman, "odd").contains("podman does not answer"));
    }

    #[test]
    fn variables_of_an_image_are_its_own_and_never_ours() {
        let facts = json!({"Config": {"Env": ["PATH=/usr/local/go/bin:rel:/bin", "GOPATH=/go", "HOME=/x", "LOOPEXEC_A=1", "odd"]}});
        let (path, env) = variables_of(&facts);
        assert_eq!(path, ["/usr/local/go/bin", "/bin"].map(PathBuf::from));
        assert_eq!(env, [("GOPATH".to_owned(), "/go".to_owned())]);
        assert_eq!(variables_of(&json!({"Config": {"Env": null}})).0.len(), STANDARD.len());
    }

    #[test]
    fn a_loader_and_its_libraries_are_read() {
        let maps = "55d0-55d1 r-xp 00000000 fe:00 1 /opt/a b/loopexec\n7f00-7f01 rw-p 0 00:00 0 \n7f02-7f03 r-xp 0 fe:00 2 /usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2\n";
        assert_eq!(
            loader_of(maps).as_deref(),
            Some("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2")
        );
        assert_eq!(loader_of("55d0-55d1 r-xp 0 fe:00 1 /opt/loopexec\n"), None);
        let listed = "\tlinux-vdso.so.1 (0x7f)\n\tlibz.so.1 => /lib/x/libz.so.1 (0x7f)\n\t/lib64/ld-linux-x86-64.so.2 (0x7f)\n";
        assert_eq!(
            libraries_of(listed),
            [("libz.so.1".to_owned(), OsString::from("/lib/x/libz.so.1"))]
        );
    }
}
