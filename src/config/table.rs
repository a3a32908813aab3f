//! Every key of the loop file, one row a key, in the order of the reference.
//!
//! The only place where keys, defaults, ranges and availability are written.

use super::keys::Kind as K;
use super::keys::Since::{Later, Now, Unless};
use super::keys::{Choice, Field, Item, Key, Since, later, now};

/// A group that is a command: it may be written as a text or a list too.
pub(crate) struct CommandKey {
    /// Its dotted path.
    pub(crate) path: &'static str,
    /// The dotted keys every command has.
    pub(crate) fields: &'static [&'static str],
    /// Whether this release knows it.
    pub(crate) since: Since,
}

macro_rules! command {
    ($path:literal, $since:expr) => {
        CommandKey {
            path: $path,
            fields: &[
                concat!($path, ".run"),
                concat!($path, ".shell"),
                concat!($path, ".cwd"),
                concat!($path, ".env"),
                concat!($path, ".pass_env"),
                concat!($path, ".timeout"),
            ],
            since: $since,
        }
    };
}

/// The groups that are commands.
pub(crate) const COMMANDS: &[CommandKey] = &[
    command!("exec", Now),
    command!("check", Now),
    command!("check.held_out", Now),
    command!("setup", Now),
    command!("guards.judge", Now),
];

/// The groups and what they are about.
pub(crate) const GROUPS: &[(&str, &str)] = &[
    ("model", "The model the agent uses: `none`, `provider/id`, or a map."),
    ("model.sampling", "What the agent asks of the model."),
    ("exec", "The work step: a command."),
    ("check", "The oracle: a command whose exit code decides."),
    (
        "check.held_out",
        "Sealed check, a command: run at confirmation only, never shown to the agent.",
    ),
    ("setup", "A command that runs once in the workspace, before the baseline."),
    ("workspace", "The detached copy of the caller's tree."),
    ("limits", "Caps of the run."),
    ("guards", "Rules that can only veto."),
    ("guards.judge", "Advisory command that may veto a green, never grant one."),
    ("ratchet", "What happens when an accepted test fails again."),
    ("isolation", "Where processes run."),
    ("isolation.agent", "Bounds of the zone in which exec runs."),
    ("isolation.exec", "Bounds of the zone in which everything else runs."),
    ("context", "The slice of facts that each exec reads."),
    ("human", "When and how a person is asked."),
    ("receipt", "The evidence on disk."),
    ("ci", "What a CI platform is told."),
];

const GATEWAY: &str = "the model gateway";
const ADAPTERS: &str = "reading what agent programs print";
const TRUST: &str = "measuring how far a check can be trusted";
const ZONES: &str = "isolating agent and check in zones";
const PEOPLE: &str = "asking a person";
const TASKS: &str = "running a list of tasks";
const SCORES: &str = "the score ratchet";

const MODES: &[Choice] = &[now("check_fixpoint"), later("task_list", TASKS)];
const PINS: &[Choice] = &[now("exact"), now("family"), now("off")];
const METERING: &[Choice] =
    &[now("auto"), later("gateway", GATEWAY), later("adapter", ADAPTERS), now("file"), now("none")];
const AGENTS: &[Choice] = &[
    now("auto"),
    later("claude-code", ADAPTERS),
    later("codex", ADAPTERS),
    later("gemini", ADAPTERS),
    later("opencode", ADAPTERS),
    later("aider", ADAPTERS),
    later("goose", ADAPTERS),
    later("mini-swe-agent", ADAPTERS),
    now("none"),
];
const RUNNER_NAMES: &[Choice] = &[
    now("auto"),
    now("pytest"),
    now("unittest"),
    now("cargo"),
    now("nextest"),
    now("go"),
    now("jest"),
    now("vitest"),
    now("mocha"),
    now("node"),
    now("rspec"),
    now("phpunit"),
    now("ctest"),
    now("bats"),
    now("maven"),
    now("gradle"),
    now("junit"),
    now("tap"),
    now("command"),
];
const BACKENDS: &[Choice] = &[
    now("auto"),
    now("namespaces"),
    now("root"),
    now("oci"),
    now("landlock"),
    later("seatbelt", ZONES),
    now("none"),
];
const DEGRADED: &[Choice] = &[now("landlock"), now("seatbelt"), now("none")];
const STRATEGIES: &[Choice] = &[now("failures"), now("diff"), now("imports")];
const PINNED: &[Choice] = &[now("identity"), now("sampling"), now("cost")];
const GATES: &[Choice] = &[now("deliver"), now("protected_change"), now("large_patch")];
const CHANNELS: &[Choice] = &[
    now("file"),
    now("stdout"),
    later("github", PEOPLE),
    later("gitlab", PEOPLE),
    later("webhook", PEOPLE),
];
const DIAGNOSES: &[Choice] = &[now("on"), now("off"), now("outside")];

const fn field(name: &'static str, kind: K, doc: &'static str) -> Field {
    Field { name, kind, doc }
}

const SERVICE: K = K::Record(&[
    field("address", K::Local, "`localhost:port` of a service on this machine."),
    field("reset", K::Run, "Command that resets the service before every run."),
]);
const SCORE: K = K::Record(&[
    field("run", K::Run, "Command that prints the score."),
    field("direction", K::Word(&[now("up"), now("down")]), "Which way is better."),
    field("target", K::Real(-1e15, 1e15), "The score that is enough."),
    field("min_improvement", K::Real(0.0, 1e15), "The least step that counts."),
    field("tolerance", K::Real(0.0, 1e15), "Noise that is no step back."),
    field("patience", K::Int(1, 1_000_000), "Iterations without a step before it ends."),
]);
const CREDENTIAL: K = K::Record(&[
    field("env", K::Text, "Variable that holds the key."),
    field("mint", K::Command, "Command that prints a key."),
    field("revoke", K::Command, "Command that ends the key's life."),
    field("oidc", K::MapOf(&K::Text), "Exchange of the platform's identity for a key."),
]);
const GATEWAY_MAP: K = K::Record(&[
    field("upstream", K::Text, "Address of the provider."),
    field("credential", CREDENTIAL, "Where the key comes from."),
    field("ttl", K::Duration, "Life of the run's token."),
    field("prices", K::Text, "File with prices."),
    field("notices", K::Bool, "Whether the agent is told at 80 and 95 % of the budget."),
]);
const TASKS_MAP: K = K::Record(&[
    field("plan", K::Text, "The plan's file."),
    field("checks", K::MapOf(&K::Command), "A check for each task id."),
    field("require_verdict", K::Bool, "Whether a reviewer must have agreed."),
]);
const WEBHOOK: K = K::Record(&[
    field("url_env", K::Text, "Variable that holds the address."),
    field("secret_env", K::Text, "Variable that holds the signing secret."),
]);

const fn key(
    path: &'static str,
    kind: K,
    default: &'static str,
    since: Since,
    doc: &'static str,
) -> Key {
    let default = if default.is_empty() { None } else { Some(default) };
    Key { path, kind, default, doc, since }
}

const COUNT: K = K::Int(1, 1_000_000);
const SMALL: K = K::Int(1, 100);

/// The keys, in the order of the reference; those every command has stand in `keys::COMMAND_FIELDS`.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    key("version", K::Version, "", Now, "The format of this file: 1."),
    key("name", K::Slug, "", Now, "Name of the loop, `[a-z0-9-]{1,40}`; default: the file's name."),
    key("mode", K::Word(MODES), "check_fixpoint", Now, "What the loop works through."),
    key("goal", K::Text, "", Now, "Text for the agent, at the head of every context."),
    key("model.provider", K::Provider, "", Now, "Who serves the model."),
    key("model.id", K::ModelId, "", Now, "The model's id at the provider."),
    key("model.version", K::ModelId, "", Now, "The version that is wanted."),
    key("model.pin", K::Word(PINS), "exact", Now, "How exactly the answering model must be the one asked for."),
    key("model.sampling.temperature", K::Real(0.0, 2.0), "", Now, "Sampling temperature."),
    key("model.sampling.top_p", K::Real(0.0, 1.0), "", Now, "Nucleus sampling mass."),
    key("model.sampling.seed", K::Int(0, 9_007_199_254_740_991), "", Now, "Sampling seed."),
    key("model.sampling.max_tokens", K::Int(1, 100_000_000), "", Now, "Most tokens of an answer."),
    key("model.metering", K::Word(METERING), "auto", Now, "Where usage is read from."),
    key("exec.adapter", K::Word(AGENTS), "auto", Now, "Which agent program the command starts."),
    key("exec.timeout", K::Duration, "30m", Now, "Wall-clock limit of one exec."),
    key("exec.idle_timeout", K::Duration, "10m", Now, "How long an exec may do nothing."),
    key("exec.max_failures", COUNT, "3", Now, "Failed execs in a row before `execution_failure`."),
    key("exec.on_rate_limit", K::Word(&[now("stop"), later("wait", GATEWAY)]), "stop", Now, "What a rate limit does."),
    key("exec.max_wait", K::Duration, "15m", Later(GATEWAY), "Longest wait for a rate limit's reset."),
    key("check.success_exit_code", K::Int(0, 255), "0", Now, "The exit code that means pass."),
    key("check.runner", K::Word(RUNNER_NAMES), "auto", Now, "Which runner's results are read."),
    key("check.results", K::Texts(Item::Glob, 0), "", Now, "Report files (globs); default: by runner."),
    key("check.coverage", K::Texts(Item::Glob, 0), "", Now, "Coverage reports (globs) that the check writes; default: by runner."),
    key("check.timeout", K::Duration, "", Now, "Wall-clock limit of one check; default: max(15m, 3 × baseline)."),
    key("check.baseline_runs", SMALL, "2", Now, "Runs of the check that make the baseline."),
    key("check.confirm", SMALL, "2", Now, "Runs in fresh copies that confirm a green."),
    key("check.targets", K::Texts(Item::Text, 1), "", Now, "Ids that decide green; default: all."),
    key("check.quarantine", K::Texts(Item::Text, 0), "[]", Now, "Known flaky ids."),
    key("check.require_red", K::Bool, "false", Now, "Whether green at the start is `check_inadequate`."),
    key("check.max_flake_rate", K::Real(1e-6, 0.5), "", Now, "Bound on the flip rate that is wanted."),
    key("check.adequacy", K::Either(&[K::Word(&[now("auto"), now("off")]), K::Command]), "auto", Unless(&["off"], TRUST), "Mutation of changed lines."),
    key("check.adequacy_budget", K::Duration, "", Later(TRUST), "Time for it; default: max(5m, 2 × baseline)."),
    key("check.diagnose", K::Word(DIAGNOSES), "on", Now, "Runs with lifted denials when a baseline looks red because of us; `outside` adds one outside of the zone, with your rights."),
    key("check.services", K::ListOf(&SERVICE), "[]", Now, "Services on this machine that the check talks to; a zone has doors to them."),
    key("setup.network", K::Word(&[now("host"), now("none")]), "host", Now, "Which network setup has."),
    key("workspace.mode", K::Word(&[now("detached"), now("in_place")]), "detached", Now, "A copy, or the caller's own tree."),
    key("workspace.carry", K::Either(&[K::Word(&[now("auto"), now("none")]), K::Texts(Item::Gitignore, 0)]), "auto", Now, "Which ignored paths come along."),
    key("workspace.carry_max", K::Size(0), "2GiB", Now, "Most bytes that have to be copied one by one."),
    key("workspace.history", K::Either(&[K::Int(1, 1_000_000), K::Word(&[now("full")])]), "1", Now, "Commits in the workspace's git."),
    key("workspace.on_dirty", K::Word(&[now("include"), now("refuse")]), "include", Now, "What uncommitted changes do."),
    key("workspace.deliver", K::Word(&[now("apply"), now("branch"), now("patch"), now("none")]), "apply", Now, "How the result reaches the caller."),
    key("limits.iterations", COUNT, "10", Now, "Most iterations."),
    key("limits.time", K::Duration, "60m", Now, "Most wall-clock time."),
    key("limits.usd", K::Money, "", Now, "Most dollars of the run."),
    key("limits.tokens", K::Int(1, 9_007_199_254_740_991), "", Now, "Most tokens of the run."),
    key("limits.calls", K::Int(1, 9_007_199_254_740_991), "", Now, "Most calls of the run."),
    key("limits.no_progress", COUNT, "3", Now, "Iterations without a new smallest failing set."),
    key("limits.same_failure", COUNT, "3", Now, "Iterations with the same failing set and messages."),
    key("limits.patch_files", COUNT, "", Now, "Changed files above which a person has to agree before the result is handed over."),
    key("limits.patch_lines", COUNT, "", Now, "Added and removed lines above which a person has to agree; binary files have none."),
    key("limits.comprehension", K::Int(0, 1_000_000), "0", Unless(&["0"], PEOPLE), "Accepted iterations without an `ack`; 0 is off."),
    key("guards.blocked_paths", K::Amend, "", Now, "Paths no exec may change (gitignore syntax, from the root); default: the contract's list."),
    key("guards.protected", K::Amend, "", Now, "The test-determining surface; default: the contract's list."),
    key("guards.mutable", K::Texts(Item::Gitignore, 0), "[]", Now, "Protected paths this task is meant to change (gitignore syntax, from the root)."),
    key("guards.assertions", K::Word(&[now("strict"), now("report"), now("off")]), "strict", Now, "What fewer assertions do."),
    key("guards.coverage_tolerance", K::Real(0.0, 100.0), "0.0", Now, "Percentage points coverage may fall."),
    key("guards.hermeticity", K::Word(&[now("note"), now("strict")]), "note", Now, "What an attempt of the check to reach what its zone does not have does."),
    key("guards.on_breach", K::Word(&[now("halt"), now("revert")]), "halt", Now, "What a breach does: end the run, or go back to the last accepted state."),
    key("guards.max_reverts", COUNT, "2", Now, "Reverted breaches before a halt."),
    key("ratchet.on_regression", K::Word(&[now("revert"), now("halt")]), "revert", Now, "What a regression does."),
    key("ratchet.max_regressions", COUNT, "2", Now, "Reverted regressions before a halt."),
    key("ratchet.score", SCORE, "", Later(SCORES), "A number that must rise or fall."),
    key("isolation.backend", K::Word(BACKENDS), "auto", Now, "What isolates a process: `auto` is the strongest that holds on the machine."),
    key("isolation.accept", K::Words(DEGRADED), "[]", Now, "Degraded backends that may be used where nothing stronger holds: `landlock` before `none`."),
    key("isolation.image", K::Text, "", Now, "The image whose tools `oci` uses; it has to be there, nothing is pulled."),
    key("isolation.engine", K::Word(&[now("docker"), now("podman")]), "", Now, "What makes the containers of `oci`; default: podman if there is one, else docker."),
    key("isolation.egress", K::Texts(Item::Address, 0), "[]", Now, "The `host:port` pairs that the agent zone reaches; it reaches nothing else. Default: where the API of the model's provider is."),
    key("isolation.agent.pids", K::Int(1, 4_194_304), "4096", Now, "Processes and threads of the agent zone at a time."),
    key("isolation.agent.files", K::Int(16, 1_048_576), "65536", Now, "Open files of one process."),
    key("isolation.agent.disk", K::Size(1 << 20), "20GiB", Now, "Bytes that the agent zone may write."),
    key("isolation.agent.memory", K::Size(1 << 20), "", Now, "Bytes of memory of all processes together; default: 90 % of what is there."),
    key("isolation.agent.shm", K::Size(1 << 12), "1GiB", Now, "Bytes of `/dev/shm`, and again of `/tmp`."),
    key("isolation.agent.read", K::Texts(Item::Place, 0), "[]", Now, "Further paths of the machine that it shows, read-only."),
    key("isolation.agent.write", K::Texts(Item::Place, 0), "[]", Now, "Further paths of the machine that it shows, and that take writes."),
    key("isolation.agent.nested", K::Bool, "false", Now, "Whether its commands may make sandboxes (namespaces, mounts) of their own inside."),
    key("isolation.agent.docker", K::Bool, "false", Unless(&["false"], ZONES), "Whether the docker socket is reachable (degraded)."),
    key("isolation.exec.pids", K::Int(1, 4_194_304), "4096", Now, "Processes and threads of the exec zone at a time."),
    key("isolation.exec.files", K::Int(16, 1_048_576), "65536", Now, "Open files of one process."),
    key("isolation.exec.disk", K::Size(1 << 20), "20GiB", Now, "Bytes that the exec zone may write."),
    key("isolation.exec.memory", K::Size(1 << 20), "", Now, "Bytes of memory of all processes together; default: 90 % of what is there."),
    key("isolation.exec.shm", K::Size(1 << 12), "1GiB", Now, "Bytes of `/dev/shm`, and again of `/tmp`."),
    key("isolation.exec.read", K::Texts(Item::Place, 0), "[]", Now, "Further paths of the machine that it shows, read-only."),
    key("isolation.exec.write", K::Texts(Item::Place, 0), "[]", Now, "Further paths of the machine that it shows, and that take writes."),
    key("isolation.exec.nested", K::Bool, "false", Now, "Whether its commands may make sandboxes (namespaces, mounts) of their own inside."),
    key("isolation.exec.docker", K::Bool, "false", Unless(&["false"], ZONES), "Whether the docker socket is reachable (degraded)."),
    key("gateway", K::Either(&[K::Word(&[now("auto")]), GATEWAY_MAP]), "auto", Later(GATEWAY), "How the agent reaches its model."),
    key("context.tokens", K::Int(1, 10_000_000), "8000", Now, "Ceiling of the context."),
    key("context.strategy", K::Words(STRATEGIES), "[failures, diff, imports]", Now, "What it holds, most relevant first."),
    key("context.files", K::Texts(Item::Pattern, 0), "[]", Now, "Files that are always in it."),
    key("human.approve", K::Words(GATES), "[]", Now, "What needs a person's yes."),
    key("human.escalate", K::Word(CHANNELS), "file", Now, "Where a question is put."),
    key("human.webhook", WEBHOOK, "", Later(PEOPLE), "Address and secret of the webhook."),
    key("human.stall", K::Duration, "15m", Later("the watchdog"), "Silence after which a run counts as stale."),
    key("receipt.dir", K::Folder, ".loopexec", Now, "Folder of receipts in the caller's tree."),
    key("receipt.capture", K::Size(1024), "1MiB", Now, "Bytes kept of each output stream, head and tail."),
    key("receipt.redact", K::Texts(Item::Variable, 0), "", Now, "Names whose values never reach disk; default: by name patterns."),
    key("receipt.unpinned", K::Words(PINNED), "[]", Now, "Pins this loop does without."),
    key("receipt.durability", K::Word(&[now("event"), now("iteration")]), "event", Now, "When the receipt is made durable."),
    key("exit_codes", K::MapOf(&K::Int(0, 255)), "", Now, "CI exit codes by exit class."),
    key("fail_on", K::Texts(Item::Text, 0), "", Now, "Classes or reasons that fail a job; default: all but converged."),
    key("ci.annotations", K::Bool, "true", Now, "Annotations at file and line."),
    key("ci.comment", K::Word(&[now("sticky"), now("off")]), "sticky", Now, "One comment, kept up to date."),
    key("ci.check_run", K::Bool, "false", Now, "A check run of its own."),
    key("ci.summary", K::Bool, "true", Now, "The job summary."),
    key("ci.artifact", K::Bool, "true", Now, "The receipt bundle as an artifact."),
    key("ci.artifact_name", K::Text, "", Now, "Its name; default: made of loop, job, matrix and attempt."),
    key("ci.retention_days", K::Int(1, 400), "", Now, "How long it is kept; default: as the platform does."),
    key("tasks", TASKS_MAP, "", Later(TASKS), "The plan of `task_list`."),
];
