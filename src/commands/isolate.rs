//! `loopexec isolate`: runs any command in a zone, or shows what the zones of this machine hold.
//!
//! The tree stands at its own place and takes writes; beside it and the tools on the caller's path, which are
//! read-only, nothing of the caller's is there. What a zone is says `zone`.

use super::Global;
use super::outcome::{Outcome, hand_on};
use super::run::in_place;
use super::run::opening::{self, Ready};
use super::run::zoned;
use crate::domain::command::{CommandSpec, Exit, Run};
use crate::domain::judge::describe_exit;
use crate::domain::observation::Attempt;
use crate::domain::target::Target;
use crate::error::{Error, Kind, Result};
use crate::process::environment::{Surroundings, write_home};
use crate::process::toolchains::Toolchains;
use crate::process::{EngineKind, Job, Mount, Observer, Outcome as Ran, Silent, Stream};
use crate::receipt::lock::Lock;
use crate::receipt::rundir::DEFAULT_DIR;
use crate::report::text::clean;
use crate::workspace::gits::find_nested;
use crate::workspace::{at, paths, places};
use crate::zone::canary::Table;
use crate::zone::egress::Egress;
use crate::zone::environment;
use crate::zone::kind::Kind as Zone;
use crate::zone::ladder::{self, Backend, Chosen};
use clap::ValueEnum;
use serde_json::json;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Options of `isolate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The zone: agent reaches what --egress lists, exec nothing
    #[arg(long, value_enum, default_value_t = ZoneName::Exec)]
    pub zone: ZoneName,
    /// The backend; the strongest that works when left out
    #[arg(long, value_enum)]
    pub backend: Option<BackendName>,
    /// The image that containers are made from; the command has its tools there
    #[arg(long, value_name = "NAME")]
    pub image: Option<String>,
    /// What makes the container; podman if there is one, else docker, when left out
    #[arg(long, value_enum, requires = "image")]
    pub engine: Option<EngineName>,
    /// A host:port that the agent zone reaches; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    pub egress: Vec<String>,
    /// Show what was tried from inside both zones, and what came of it
    #[arg(long, conflicts_with_all = ["command", "egress"])]
    pub canary: bool,
    /// Seconds after which the command is ended
    #[arg(long, value_name = "S", default_value_t = 3600)]
    pub timeout: u64,
    /// The command and its arguments
    #[arg(last = true, required_unless_present = "canary")]
    pub command: Vec<OsString>,
}

/// The zones by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ZoneName {
    /// Where exec runs.
    Agent,
    /// Where everything else runs.
    Exec,
}

/// The backends by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BackendName {
    /// Namespaces of an unprivileged user.
    Namespaces,
    /// Namespaces that root makes.
    Root,
    /// Containers of docker or podman.
    Oci,
    /// Landlock, degraded: names, sizes and processes of the machine stay in sight.
    Landlock,
}

/// The engines by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// docker and its daemon.
    Docker,
    /// podman.
    Podman,
}

/// Bytes of each stream that `--json` shows.
const KEPT: usize = 64 << 10;

/// Runs the command, or shows the proof.
///
/// # Errors
/// `isolation_unsatisfiable` where no backend passes its canary.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let listed: Vec<Target> = args.egress.iter().map(|text| target(text)).collect::<Result<_>>()?;
    if !listed.is_empty() && args.zone == ZoneName::Exec {
        return Err(Error::new(Kind::Usage, "the exec zone has no way out")
            .hint("--egress belongs to --zone agent"));
    }
    check_image(args)?;
    let mut ready = opening::ready(global)?;
    zoned::refuse_wide_trees(&ready)?;
    let caches = places::choose_caches(&ready.caller.root, &ready.surroundings)?;
    let name = format!("isolate-{}", ulid::Ulid::generate());
    let folder = caches.join(&name);
    // Held until the folder is gone: it tells a living one from what a killed one left.
    let lock = places::claim_cache(&caches, &[&name], || {
        places::create_folder(&folder)?;
        Lock::acquire(&folder.join(places::CACHE_LOCK), &name)
    })?;
    let done = in_folder(args, global, &mut ready, &folder, listed);
    // What a command made in its HOME may be closed to its owner.
    let removed = at::remove_tree(&folder);
    drop(lock);
    removed.and(done)
}

/// Refuses an image that nothing uses, and containers without one.
fn check_image(args: &Args) -> Result<()> {
    let what = match (args.backend, &args.image) {
        (Some(BackendName::Oci), None) => {
            "--backend oci needs the image that its containers are made from"
        }
        (Some(BackendName::Namespaces | BackendName::Root | BackendName::Landlock), Some(_)) => {
            "--image is for containers, and this backend makes none"
        }
        _ => return Ok(()),
    };
    Err(Error::new(Kind::Usage, what).hint("--backend oci --image NAME"))
}

fn in_folder(
    args: &Args,
    global: &Global,
    ready: &mut Ready,
    folder: &Path,
    listed: Vec<Target>,
) -> Result<Outcome> {
    let tools = Toolchains::resolve(&mut ready.supervisor, &ready.variables, &ready.caller.root)?;
    let only = args.backend.map(|name| match name {
        BackendName::Namespaces => Backend::Namespaces,
        BackendName::Root => Backend::Root,
        BackendName::Oci => Backend::Oci,
        BackendName::Landlock => Backend::Landlock,
    });
    let asked = zoned::Asked { only, accepts_landlock: false };
    let engine = args.engine.map(|name| match name {
        EngineName::Docker => EngineKind::Docker,
        EngineName::Podman => EngineKind::Podman,
    });
    let image = args.image.as_deref().map(|name| (name, engine));
    let chosen = zoned::try_out(ready, asked, image, zoned::plain_rooms(), false, &tools, folder)?;
    let mut chosen = chosen.map_err(|why| ladder::unsatisfiable(&why))?;
    let tools = chosen.tools.take().unwrap_or(tools);
    if args.canary {
        return Ok(proof(&chosen));
    }
    let zone = match args.zone {
        ZoneName::Agent => Zone::Agent,
        ZoneName::Exec => Zone::Exec,
    };
    let mut egress = chosen.zones.egress(listed)?;
    let job = job(args, ready, &chosen, &tools, zone, &egress)?;
    let mut through = Through;
    let observer: &mut dyn Observer = if global.json { &mut Silent } else { &mut through };
    let ran = ready.supervisor.run_gated(&job, observer, &mut egress);
    in_place::remove_placeholder(&ready.caller.root);
    let ran = ran?;
    let (attempts, more) = egress.take_attempts();
    finish(&ran, &chosen, zone, &attempts, more)
}

fn target(text: &str) -> Result<Target> {
    text.parse().map_err(|why: String| {
        Error::new(Kind::Usage, format!("--egress: {why}")).hint("write it as api.example.com:443")
    })
}

fn job(
    args: &Args,
    ready: &Ready,
    chosen: &Chosen,
    tools: &Toolchains,
    zone: Zone,
    egress: &Egress,
) -> Result<Job> {
    let folder = &chosen.zones.folder;
    let (home, tmp) = (folder.join("home"), folder.join("tmp"));
    write_home(&home)?;
    places::create_folder(&tmp)?;
    let reach = chosen.zones.reach(zone, egress);
    let own = environment::of(&reach, egress.token());
    let around = Surroundings {
        caller: &ready.variables,
        home: &home,
        tmp: &tmp,
        toolchains: tools,
        own: &own,
    };
    let spec = CommandSpec {
        run: Run::Argv(Vec::new()),
        cwd: None,
        env: BTreeMap::new(),
        pass_env: Vec::new(),
        timeout: None,
    };
    let root = &ready.caller.root;
    let shown = |path: &PathBuf| Mount::Bind { from: path.clone(), to: path.clone() };
    let mut mounts = [root, &home, &tmp].map(shown).to_vec();
    let nested = find_nested(root, &|| false)?;
    mounts.extend(zoned::kept(root, DEFAULT_DIR, nested.iter().map(|path| paths::as_path(path)))?);
    let mut enclosure = chosen.zones.enclosure(zone, &reach)?;
    let view = chosen.zones.view(&mut enclosure, mounts);
    Ok(Job {
        argv: args.command.clone(),
        cwd: root.join(&ready.caller.prefix),
        env: around.environment(&spec),
        view,
        enclosure: Some(enclosure),
        deadline: Some(Duration::from_secs(args.timeout)),
        idle: None,
        idle_watch: Vec::new(),
        grace: Duration::from_secs(5),
        keep: KEPT,
    })
}

/// Hands output through as it comes.
struct Through;

impl Observer for Through {
    fn chunk(&mut self, stream: Stream, bytes: &[u8]) {
        match stream {
            Stream::Stdout => hand_on(&mut std::io::stdout().lock(), bytes),
            Stream::Stderr => hand_on(&mut std::io::stderr().lock(), bytes),
        }
    }
}

fn finish(
    ran: &Ran,
    chosen: &Chosen,
    zone: Zone,
    attempts: &[Attempt],
    more: u64,
) -> Result<Outcome> {
    let code = match &ran.exit {
        Exit::Code { code } => u8::try_from(*code).unwrap_or(1),
        Exit::Signal { signal } => u8::try_from(128 + *signal).unwrap_or(1),
        Exit::TimedOut | Exit::Idle => 124,
        Exit::OutOfMemory | Exit::OutOfDisk => 137,
        Exit::NotStarted { why } => {
            return Err(Error::new(
                Kind::Usage,
                format!(
                    "the command cannot be started in the {} zone: {}",
                    zone.word(),
                    clean(why)
                ),
            )
            .hint(match chosen.zones.image {
                Some(_) => "the programs are those of the image",
                None => "a program below your HOME is shown when its folder is on PATH",
            }));
        }
        Exit::Interrupted => {
            return Err(Error::new(Kind::Interrupted, "a signal asked the command to stop"));
        }
    };
    let text =
        |stream: &crate::process::Captured| String::from_utf8_lossy(&stream.kept()).into_owned();
    let mut outcome = Outcome::text("isolate", String::new())
        .with("backend", chosen.zones.backend.word())
        .with("degraded", chosen.zones.backend.is_degraded())
        .with("zone", zone.word())
        .with("exit", &ran.exit)
        .with("stdout", text(&ran.stdout))
        .with("stderr", text(&ran.stderr))
        .with("survivors", &ran.survivors)
        .with("egress", json!({"attempts": attempts, "more": more}));
    outcome.process_exit = Some(code);
    for attempt in attempts.iter().filter(|attempt| !attempt.allowed) {
        super::outcome::talk(&format!(
            "blocked: {} ({})",
            clean(&attempt.target),
            clean(&attempt.why)
        ));
    }
    if !matches!(ran.exit, Exit::Code { .. }) {
        super::outcome::talk(&format!("the command {}", describe_exit(&ran.exit)));
    }
    Ok(outcome)
}

fn proof(chosen: &Chosen) -> Outcome {
    let (backend, bounded_by) = (chosen.zones.backend.word(), chosen.zones.bounded_by());
    let mut text = format!(
        "backend {backend}\nbounds of memory and processes by {}\n",
        bounded_by.replace('_', " ")
    );
    for Table { zone, rows } in &chosen.tables {
        text.push_str(&format!("\n{zone} zone\n"));
        let width = rows.iter().map(|row| row.what.chars().count()).max().unwrap_or(0);
        for row in rows {
            let mark = match (row.holds, row.degraded) {
                (true, _) => "holds",
                (false, true) => "degraded",
                (false, false) => "BROKEN",
            };
            text.push_str(&format!("  {mark:8}  {:width$}  {}\n", row.what, row.found));
        }
    }
    Outcome::text("isolate", clean(&text))
        .with("backend", backend)
        .with("bounded_by", bounded_by)
        .with("degraded", chosen.zones.backend.is_degraded())
        .with("tables", &chosen.tables)
}
