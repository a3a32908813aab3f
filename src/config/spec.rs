//! The resolved loop: every key that this release supports, typed, with defaults filled.
//!
//! It is built by `build`; its JSON (what is digested and printed) has the loop file's own keys.

pub use super::words::*;

use super::value::{MicroDollars, format_duration, format_money, format_size};
use crate::domain::command::{CommandSpec, Run, Shell};
use crate::domain::gate::Gate;
use crate::domain::results::Runner;
use crate::domain::target::Target;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// A loop, resolved.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoopSpec {
    /// The format of the loop file: 1.
    pub version: u32,
    /// The loop's name, a slug.
    pub name: String,
    /// What the loop works through.
    pub mode: Mode,
    /// Text for the agent.
    pub goal: Option<String>,
    /// The model the agent uses.
    pub model: ModelSpec,
    /// The work step.
    pub exec: ExecSpec,
    /// The oracle.
    pub check: CheckSpec,
    /// The command that runs once before the baseline.
    pub setup: Option<SetupSpec>,
    /// The workspace.
    pub workspace: WorkspaceSpec,
    /// Caps of the run.
    pub limits: LimitsSpec,
    /// Rules that can only veto.
    pub guards: GuardsSpec,
    /// What a regression does.
    pub ratchet: RatchetSpec,
    /// Where processes run.
    pub isolation: IsolationSpec,
    /// The slice of facts each exec reads.
    pub context: ContextSpec,
    /// How a person is asked.
    pub human: HumanSpec,
    /// The evidence on disk.
    pub receipt: ReceiptSpec,
    /// CI exit codes by the name of an exit class, where they are not the class's own.
    pub exit_codes: BTreeMap<String, u8>,
    /// Names of exit classes and halt reasons that fail a job; `None` is all but converged.
    pub fail_on: Option<Vec<String>>,
    /// What a CI platform is told.
    pub ci: CiSpec,
}

/// What a CI platform is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CiSpec {
    /// Annotations at file and line.
    pub annotations: bool,
    /// One comment a loop, kept up to date.
    pub comment: Comment,
    /// A check run of its own.
    pub check_run: bool,
    /// The job summary.
    pub summary: bool,
    /// The receipt bundle as an artifact.
    pub artifact: bool,
    /// The artifact's name; `None` is made of loop, job, matrix and attempt.
    pub artifact_name: Option<String>,
    /// Days the artifact is kept; `None` is as the platform does.
    pub retention_days: Option<u32>,
}

/// The model of a loop.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelSpec {
    /// The loop runs no model.
    None,
    /// The loop says which model it runs.
    Declared(DeclaredModel),
}

impl Serialize for ModelSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::Declared(model) => model.serialize(serializer),
        }
    }
}

impl ModelSpec {
    /// Returns where usage comes from.
    pub fn metering(&self) -> Metering {
        match self {
            Self::None => Metering::None,
            Self::Declared(model) => model.metering,
        }
    }
}

/// A model as the loop declares it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeclaredModel {
    /// Who serves it.
    pub provider: String,
    /// Its id at the provider.
    pub id: String,
    /// The version that is wanted.
    pub version: Option<String>,
    /// How exactly it is pinned.
    pub pin: Pin,
    /// What is asked of it.
    pub sampling: Sampling,
    /// Where usage comes from.
    pub metering: Metering,
}

/// Sampling as the loop declares it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Sampling {
    /// Temperature, 0 to 2.
    pub temperature: Option<f64>,
    /// Nucleus mass, 0 to 1.
    pub top_p: Option<f64>,
    /// Seed.
    pub seed: Option<u64>,
    /// Most tokens of an answer.
    pub max_tokens: Option<u64>,
}

impl Sampling {
    /// Says whether the loop names any of it.
    pub fn is_named(&self) -> bool {
        *self != Self::default()
    }
}

/// The work step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExecSpec {
    /// The command, with its time limit.
    #[serde(flatten, serialize_with = "command")]
    pub command: CommandSpec,
    /// Which agent program it starts.
    pub adapter: Adapter,
    /// How long it may do nothing.
    #[serde(serialize_with = "duration")]
    pub idle_timeout: Duration,
    /// Failed execs in a row before `execution_failure`.
    pub max_failures: u32,
}

/// The oracle.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CheckSpec {
    /// The command; without a time limit it is max(15 minutes, 3 × baseline).
    #[serde(flatten, serialize_with = "command")]
    pub command: CommandSpec,
    /// The exit code that means pass.
    pub success_exit_code: i32,
    /// Which runner's results are read; `None` finds out.
    #[serde(serialize_with = "runner")]
    pub runner: Option<Runner>,
    /// Report files (globs); `None` is as the runner does.
    pub results: Option<Vec<String>>,
    /// Coverage reports (globs) that the check writes; `None` is as the runner does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<Vec<String>>,
    /// Runs that make the baseline.
    pub baseline_runs: u32,
    /// Runs that confirm a green.
    pub confirm: u32,
    /// Ids that decide green; `None` is all.
    pub targets: Option<Vec<String>>,
    /// Known flaky ids.
    pub quarantine: Vec<String>,
    /// Whether green at the start is `check_inadequate`.
    pub require_red: bool,
    /// Bound on the flip rate that is wanted.
    pub max_flake_rate: Option<f64>,
    /// The sealed check, which runs at confirmation only.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "opt_command")]
    pub held_out: Option<CommandSpec>,
    /// Whether a baseline that looks red because of us is looked into.
    pub diagnose: Diagnose,
    /// What the check talks to on this machine.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<ServiceSpec>,
}

/// A service on this machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ServiceSpec {
    /// `localhost` and its port.
    pub address: Target,
    /// What puts it back to its start before every run of the check.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "opt_run")]
    pub reset: Option<Run>,
}

/// The command that runs once before the baseline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetupSpec {
    /// The command.
    #[serde(flatten, serialize_with = "command")]
    pub command: CommandSpec,
    /// The network it has.
    #[serde(skip_serializing_if = "is_hosts")]
    pub network: SetupNetwork,
}

/// As [`is_hosts`].
fn is_noted(hermeticity: &Hermeticity) -> bool {
    *hermeticity == Hermeticity::Note
}

/// Says whether it is the default: a loop that does not say more is the loop it was before there were zones.
fn is_hosts(network: &SetupNetwork) -> bool {
    *network == SetupNetwork::Host
}

/// The workspace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkspaceSpec {
    /// A copy, or the caller's own tree.
    pub mode: WorkspaceMode,
    /// Which ignored paths come along.
    pub carry: Carry,
    /// Most bytes that have to be copied one by one.
    #[serde(serialize_with = "size")]
    pub carry_max: u64,
    /// Commits in its git; `None` is all.
    #[serde(serialize_with = "history")]
    pub history: Option<u32>,
    /// What uncommitted changes do.
    pub on_dirty: OnDirty,
    /// How the result reaches the caller.
    pub deliver: Deliver,
}

/// Which ignored paths come along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Carry {
    /// All but secret-looking ones and loopexec's own state.
    Auto,
    /// None.
    None,
    /// Those that match (gitignore syntax, from the root).
    Paths(Vec<String>),
}

impl Serialize for Carry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Auto => serializer.serialize_str("auto"),
            Self::None => serializer.serialize_str("none"),
            Self::Paths(paths) => paths.serialize(serializer),
        }
    }
}

/// Caps of the run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LimitsSpec {
    /// Most iterations.
    pub iterations: u32,
    /// Most wall-clock time.
    #[serde(serialize_with = "duration")]
    pub time: Duration,
    /// Most money.
    #[serde(serialize_with = "money")]
    pub usd: Option<MicroDollars>,
    /// Most tokens.
    pub tokens: Option<u64>,
    /// Most calls.
    pub calls: Option<u64>,
    /// Iterations without a new smallest failing set.
    pub no_progress: u32,
    /// Iterations with the same failing set and messages.
    pub same_failure: u32,
    /// Changed files above which a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_files: Option<u64>,
    /// Changed lines above which a person is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch_lines: Option<u64>,
}

/// Rules that can only veto.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GuardsSpec {
    /// Patterns no exec may touch: gitignore syntax, from the workspace's root, last match wins.
    pub blocked_paths: Vec<String>,
    /// Files no exec may touch, relative to the folder the run was started in: the loop file and the scripts that check, sealed check and judge name.
    pub blocked_files: Vec<String>,
    /// What the loop says of the default list of protected paths.
    #[serde(skip_serializing_if = "ProtectedSpec::is_default")]
    pub protected: ProtectedSpec,
    /// Protected paths this task is meant to change: gitignore syntax, from the workspace's root, last match wins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mutable: Vec<String>,
    /// What fewer assertions in a kept test do.
    pub assertions: Assertions,
    /// Percentage points, 0 to 100, that coverage may fall.
    pub coverage_tolerance: f64,
    /// What an attempt of the check to reach what its zone does not have does.
    #[serde(skip_serializing_if = "is_noted")]
    pub hermeticity: Hermeticity,
    /// Halt or revert.
    pub on_breach: OnBreach,
    /// Reverted breaches before a halt.
    pub max_reverts: u32,
    /// The command that may veto a green.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "opt_command")]
    pub judge: Option<CommandSpec>,
}

/// What a loop says of the protected paths: gitignore syntax, from the workspace's root, last match wins.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectedSpec {
    /// Patterns instead of the default ones; `add` and `remove` are empty then.
    pub replace: Option<Vec<String>>,
    /// Patterns beside the default ones.
    pub add: Vec<String>,
    /// Default patterns that do not count.
    pub remove: Vec<String>,
}

impl Backend {
    /// Says whether it makes zones, where they can be made.
    pub const fn isolates(self) -> bool {
        matches!(self, Self::Auto | Self::Namespaces | Self::Root | Self::Oci | Self::Landlock)
    }
}

impl LimitsSpec {
    /// Says whether the size of the patch is capped.
    pub const fn caps_patch(&self) -> bool {
        self.patch_files.is_some() || self.patch_lines.is_some()
    }
}

impl ProtectedSpec {
    /// Says whether the loop leaves the default list as it is.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Serialize for ProtectedSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.replace {
            Some(patterns) => patterns.serialize(serializer),
            None => {
                let parts = [("add", &self.add), ("remove", &self.remove)];
                serializer.collect_map(parts.into_iter().filter(|(_, part)| !part.is_empty()))
            }
        }
    }
}

/// What a regression does.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RatchetSpec {
    /// Revert or halt.
    pub on_regression: OnRegression,
    /// Reverted regressions before a halt.
    pub max_regressions: u32,
}

/// Where processes run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IsolationSpec {
    /// What isolates a process.
    pub backend: Backend,
    /// The image whose tools containers have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// What makes containers; the first that is there where none is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<Engine>,
    /// Degraded backends that may be used.
    pub accept: Vec<Degraded>,
    /// The `host:port` pairs that the agent zone reaches.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub egress: Vec<Target>,
    /// Bounds of the agent zone.
    #[serde(skip_serializing_if = "BoundsSpec::is_default")]
    pub agent: BoundsSpec,
    /// Bounds of the exec zone.
    #[serde(skip_serializing_if = "BoundsSpec::is_default")]
    pub exec: BoundsSpec,
}

/// What the commands of a zone may use up, and see beside the system and their tools.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BoundsSpec {
    /// Processes and threads at a time.
    pub pids: u64,
    /// Open files of one process.
    pub files: u64,
    /// Bytes written.
    #[serde(serialize_with = "size")]
    pub disk: u64,
    /// Bytes of memory of all processes together; none is nine tenths of what is there.
    #[serde(serialize_with = "opt_size", skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Bytes of `/dev/shm`, and again of `/tmp`.
    #[serde(serialize_with = "size")]
    pub shm: u64,
    /// Further paths of the machine that it shows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Further paths of the machine that it shows and that take writes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Whether sandboxes may be made inside.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub nested: bool,
}

impl Default for BoundsSpec {
    /// Those of a loop that says nothing.
    fn default() -> Self {
        Self {
            pids: 4096,
            files: 65_536,
            disk: 20 << 30,
            memory: None,
            shm: 1 << 30,
            read: Vec::new(),
            write: Vec::new(),
            nested: false,
        }
    }
}

impl BoundsSpec {
    /// Says whether a loop says nothing: its digest is the one it had before there were zones.
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The slice of facts each exec reads.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ContextSpec {
    /// Its ceiling in tokens.
    pub tokens: u64,
    /// Its parts, most relevant first.
    pub strategy: Vec<ContextPart>,
    /// Files that are always in it.
    pub files: Vec<String>,
}

/// How a person is asked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HumanSpec {
    /// What needs a person's yes.
    pub approve: Vec<Gate>,
    /// Where the question is put.
    pub escalate: Escalate,
}

/// The evidence on disk.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReceiptSpec {
    /// Folder in the caller's tree.
    pub dir: String,
    /// Bytes kept of each output stream.
    #[serde(serialize_with = "size")]
    pub capture: u64,
    /// Names (with `*` and `?`) whose values never reach disk; `None` is the default name patterns.
    pub redact: Option<Vec<String>>,
    /// Pins this loop does without.
    pub unpinned: Vec<PinName>,
    /// When it is made durable.
    pub durability: Durability,
}

/// The form of a command in the spec's JSON: the loop file's own keys.
#[derive(Serialize)]
struct CommandView<'a> {
    run: RunView<'a>,
    shell: &'static str,
    cwd: &'a Option<String>,
    env: &'a BTreeMap<String, String>,
    pass_env: &'a [String],
    timeout: Option<String>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum RunView<'a> {
    Script(&'a str),
    Argv(&'a [String]),
}

fn command<S: Serializer>(command: &CommandSpec, serializer: S) -> Result<S::Ok, S::Error> {
    view(command).serialize(serializer)
}

fn opt_command<S: Serializer>(
    command: &Option<CommandSpec>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    command.as_ref().map(view).serialize(serializer)
}

fn opt_run<S: Serializer>(run: &Option<Run>, serializer: S) -> Result<S::Ok, S::Error> {
    let view = run.as_ref().map(|run| match run {
        Run::Script { text, .. } => RunView::Script(text),
        Run::Argv(words) => RunView::Argv(words),
    });
    view.serialize(serializer)
}

fn view(command: &CommandSpec) -> CommandView<'_> {
    let (run, shell) = match &command.run {
        Run::Script { text, shell: Shell::Auto } => (RunView::Script(text), "auto"),
        Run::Script { text, shell: Shell::Bash } => (RunView::Script(text), "bash"),
        Run::Script { text, shell: Shell::Sh } => (RunView::Script(text), "sh"),
        Run::Argv(words) => (RunView::Argv(words), "none"),
    };
    CommandView {
        run,
        shell,
        cwd: &command.cwd,
        env: &command.env,
        pass_env: &command.pass_env,
        timeout: command.timeout.map(format_duration),
    }
}

fn duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_duration(*duration))
}

fn size<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format_size(*bytes))
}

fn opt_size<S: Serializer>(bytes: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    bytes.map(format_size).serialize(serializer)
}

fn money<S: Serializer>(amount: &Option<MicroDollars>, serializer: S) -> Result<S::Ok, S::Error> {
    amount.map(format_money).serialize(serializer)
}

fn history<S: Serializer>(commits: &Option<u32>, serializer: S) -> Result<S::Ok, S::Error> {
    match commits {
        Some(commits) => serializer.serialize_u32(*commits),
        None => serializer.serialize_str("full"),
    }
}

fn runner<S: Serializer>(runner: &Option<Runner>, serializer: S) -> Result<S::Ok, S::Error> {
    match runner {
        Some(runner) => runner.serialize(serializer),
        None => serializer.serialize_str("auto"),
    }
}
