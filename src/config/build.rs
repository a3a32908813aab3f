//! Settings to `LoopSpec`: commands put together, and what keys must hold together.
//!
//! Single values are already valid here; defaults are filled by `layers`. Paths no exec may touch are
//! the duty of `blocked`.

use super::blocked;
use super::kind::Val;
use super::spec::*;
use super::take::{Builder, internal};
use crate::domain::command::{CommandSpec, Run, Shell};
use crate::domain::gate::Gate;
use crate::domain::results::Runner;
use crate::domain::target::Target;
use crate::error::{Error, Kind, Result};
use std::collections::BTreeMap;

impl Builder<'_> {
    /// Puts the loop together.
    ///
    /// # Errors
    /// `config_invalid` for what is missing or does not go together, with the line to add.
    pub(crate) fn spec(&self, name: String, warnings: &mut Vec<String>) -> Result<LoopSpec> {
        if self.root.is_some() && !self.has("version") {
            return Err(self.missing("a loop file says the version of its format", "version: 1"));
        }
        if !self.has("exec.run") {
            return Err(self.absent(
                "exec",
                "a loop must say what works on the project",
                "exec: ./fix-once.sh",
            ));
        }
        if !self.has("check.run") {
            return Err(self.absent(
                "check",
                "a loop must say what checks the project",
                "check: python -m pytest -q",
            ));
        }
        let model = self.model()?;
        let receipt = self.receipt()?;
        self.pins(&model, &receipt)?;
        self.caps(&model)?;
        let check = self.check()?;
        let guards = self.guards(&check, warnings)?;
        let isolation = self.isolation(&model)?;
        Ok(LoopSpec {
            version: 1,
            name: self.opt_text("name").unwrap_or(name),
            mode: self.choice("mode", Mode::from_word)?,
            goal: self.opt_text("goal"),
            model,
            exec: ExecSpec {
                command: self.command("exec")?,
                adapter: self.choice("exec.adapter", Adapter::from_word)?,
                idle_timeout: self.time("exec.idle_timeout")?,
                max_failures: self.count("exec.max_failures")?,
            },
            check,
            setup: match self.opt_command("setup")? {
                Some(command) => Some(SetupSpec {
                    command,
                    network: self.choice("setup.network", SetupNetwork::from_word)?,
                }),
                None => None,
            },
            workspace: WorkspaceSpec {
                mode: self.choice("workspace.mode", WorkspaceMode::from_word)?,
                carry: match self.val("workspace.carry") {
                    Some(Val::Texts(paths)) => Carry::Paths(paths.clone()),
                    Some(Val::Word("none")) => Carry::None,
                    _ => Carry::Auto,
                },
                carry_max: self.size("workspace.carry_max")?,
                history: match self.val("workspace.history") {
                    Some(Val::Int(commits)) => Some(u32::try_from(*commits).unwrap_or(u32::MAX)),
                    _ => None,
                },
                on_dirty: self.choice("workspace.on_dirty", OnDirty::from_word)?,
                deliver: self.choice("workspace.deliver", Deliver::from_word)?,
            },
            limits: LimitsSpec {
                iterations: self.count("limits.iterations")?,
                time: self.time("limits.time")?,
                usd: self.opt_money("limits.usd"),
                tokens: self.opt_int("limits.tokens"),
                calls: self.opt_int("limits.calls"),
                no_progress: self.count("limits.no_progress")?,
                same_failure: self.count("limits.same_failure")?,
                patch_files: self.opt_int("limits.patch_files"),
                patch_lines: self.opt_int("limits.patch_lines"),
            },
            guards,
            ratchet: RatchetSpec {
                on_regression: self.choice("ratchet.on_regression", OnRegression::from_word)?,
                max_regressions: self.count("ratchet.max_regressions")?,
            },
            isolation,
            context: ContextSpec {
                tokens: self.int("context.tokens")?,
                strategy: self.choices("context.strategy", ContextPart::from_word)?,
                files: self.opt_texts("context.files").unwrap_or_default(),
            },
            human: self.human()?,
            receipt,
            exit_codes: self.exit_codes()?,
            fail_on: self.fail_on()?,
            ci: self.ci()?,
        })
    }

    fn check(&self) -> Result<CheckSpec> {
        let rate = self.opt_real("check.max_flake_rate");
        Ok(CheckSpec {
            command: self.command("check")?,
            success_exit_code: i32::try_from(self.int("check.success_exit_code")?).unwrap_or(0),
            runner: self.choice("check.runner", runner)?,
            results: self.opt_texts("check.results"),
            coverage: self.opt_texts("check.coverage"),
            baseline_runs: self.count("check.baseline_runs")?,
            confirm: self.count("check.confirm")?,
            targets: self.opt_texts("check.targets"),
            quarantine: self.opt_texts("check.quarantine").unwrap_or_default(),
            require_red: matches!(self.val("check.require_red"), Some(Val::Bool(true))),
            max_flake_rate: rate,
            held_out: self.opt_command("check.held_out")?,
            diagnose: self.choice("check.diagnose", Diagnose::from_word)?,
            services: self.services()?,
        })
    }

    /// Reads what the check talks to; each port has one door.
    fn services(&self) -> Result<Vec<ServiceSpec>> {
        let key = "check.services";
        let Some(Val::List(items)) = self.val(key) else { return Ok(Vec::new()) };
        let wrong = |sentence: &str| {
            let error = self.sources.error(self.at(key).unwrap_or_default(), sentence);
            error.hint("check: {services: [{address: localhost:5432, reset: ./reset-db.sh}]}")
        };
        let mut services: Vec<ServiceSpec> = Vec::new();
        for item in items {
            let Val::Fields(fields) = item else { return Err(internal(key)) };
            let field = |name| fields.iter().find(|(known, _)| *known == name).map(|(_, val)| val);
            let Some(Val::Local(address)) = field("address") else {
                return Err(wrong("a service of `check.services` says no `address`"));
            };
            if services.iter().any(|other| other.address.port == address.port) {
                let sentence = format!("`check.services` names port {} twice", address.port);
                return Err(wrong(&sentence));
            }
            let reset = match field("reset") {
                None => None,
                Some(Val::Text(text)) => {
                    Some(Run::Script { text: text.clone(), shell: Shell::Auto })
                }
                Some(Val::Texts(words)) => Some(Run::Argv(words.clone())),
                Some(_) => return Err(internal(key)),
            };
            services.push(ServiceSpec { address: address.clone(), reset });
        }
        Ok(services)
    }

    fn guards(&self, check: &CheckSpec, warnings: &mut Vec<String>) -> Result<GuardsSpec> {
        let judge = self.opt_command("guards.judge")?;
        let deciding = [Some(&check.command), check.held_out.as_ref(), judge.as_ref()];
        let setting = self.val("guards.blocked_paths");
        let blocked = blocked::resolve(setting, deciding.into_iter().flatten(), warnings);
        Ok(GuardsSpec {
            blocked_paths: blocked.paths,
            blocked_files: blocked.files,
            protected: match self.val("guards.protected") {
                Some(Val::Texts(patterns)) => {
                    ProtectedSpec { replace: Some(patterns.clone()), ..ProtectedSpec::default() }
                }
                Some(Val::Amend { add, remove }) => {
                    ProtectedSpec { replace: None, add: add.clone(), remove: remove.clone() }
                }
                _ => ProtectedSpec::default(),
            },
            mutable: self.opt_texts("guards.mutable").unwrap_or_default(),
            assertions: self.choice("guards.assertions", Assertions::from_word)?,
            coverage_tolerance: self
                .opt_real("guards.coverage_tolerance")
                .ok_or_else(|| internal("guards.coverage_tolerance"))?,
            hermeticity: self.choice("guards.hermeticity", Hermeticity::from_word)?,
            on_breach: self.choice("guards.on_breach", OnBreach::from_word)?,
            max_reverts: self.count("guards.max_reverts")?,
            judge,
        })
    }

    fn model(&self) -> Result<ModelSpec> {
        if self.has("model") {
            if let Some((key, setting)) = self.under("model").next() {
                let sentence = format!("`{key}` stands beside `model: none`");
                return Err(self
                    .sources
                    .error(setting.at, &sentence)
                    .hint("name a model, or remove it"));
            }
            return Ok(ModelSpec::None);
        }
        let Some((_, first)) = self.under("model").next() else {
            let sentence = "a loop must say which model it runs, or that it runs none";
            return Err(self.absent(
                "model",
                sentence,
                "model: none                    # or provider/id",
            ));
        };
        let (Some(provider), Some(id)) =
            (self.opt_text("model.provider"), self.opt_text("model.id"))
        else {
            let sentence = "`model` must say both `provider` and `id`";
            return Err(self
                .sources
                .error(first.at, sentence)
                .hint("model: {provider: anthropic, id: the-model}"));
        };
        Ok(ModelSpec::Declared(DeclaredModel {
            provider,
            id,
            version: self.opt_text("model.version"),
            pin: self.choice("model.pin", Pin::from_word).unwrap_or(Pin::Exact),
            sampling: Sampling {
                temperature: self.opt_real("model.sampling.temperature"),
                top_p: self.opt_real("model.sampling.top_p"),
                seed: self.opt_int("model.sampling.seed"),
                max_tokens: self.opt_int("model.sampling.max_tokens"),
            },
            metering: match self.val("model.metering") {
                Some(Val::Word("file")) => Metering::File,
                Some(Val::Word("none")) => Metering::None,
                _ => Metering::Unknown,
            },
        }))
    }

    /// Refuses to ask for a yes to what is in the caller's tree already, and to a size without a cap.
    fn human(&self) -> Result<HumanSpec> {
        let approve = self.choices("human.approve", Gate::from_word)?;
        let caps = ["limits.patch_files", "limits.patch_lines"];
        let cap = caps.into_iter().find_map(|key| Some((key, self.at(key)?)));
        let deliver = approve.contains(&Gate::Deliver).then(|| self.at("human.approve"));
        let deliver = deliver.map(|at| ("human.approve: [deliver]", at.unwrap_or_default()));
        let in_place = matches!(self.val("workspace.mode"), Some(Val::Word("in_place")));
        if let Some((what, at)) = deliver.or(cap).filter(|_| in_place) {
            let sentence = format!(
                "`{what}` stands beside `workspace.mode: in_place`, where the result is in your tree before anybody can say no"
            );
            return Err(self.sources.error(at, &sentence).hint("workspace: {mode: detached}"));
        }
        if approve.contains(&Gate::LargePatch) && cap.is_none() {
            let at = self.at("human.approve").unwrap_or_default();
            let sentence = "`human.approve: [large_patch]` stands without a cap, and nothing says what is large";
            return Err(self
                .sources
                .error(at, sentence)
                .hint("limits: {patch_files: 20, patch_lines: 500}"));
        }
        Ok(HumanSpec { approve, escalate: self.choice("human.escalate", Escalate::from_word)? })
    }

    /// Refuses what only a zone can hold where there is none.
    fn isolation(&self, model: &ModelSpec) -> Result<IsolationSpec> {
        let backend = self.choice("isolation.backend", Backend::from_word)?;
        let listed = self.under("isolation").any(|(key, _)| key == "isolation.egress");
        let egress = self.opt_texts("isolation.egress").unwrap_or_default();
        if !listed && egress.is_empty() && backend.isolates() {
            self.refuse_unreachable(model)?;
        }
        let egress: Vec<Target> = egress
            .iter()
            .map(|text| text.parse().map_err(|_| internal("isolation.egress")))
            .collect::<Result<_>>()?;
        let alone = matches!(self.val("setup.network"), Some(Val::Word("none")));
        let mut wants: Vec<&str> = Vec::new();
        wants.extend((listed && !egress.is_empty()).then_some("isolation.egress"));
        let of_image =
            ["isolation.image", "isolation.engine"].into_iter().find(|key| self.val(key).is_some());
        wants.extend(of_image);
        wants.extend(alone.then_some("setup.network"));
        let strict = matches!(self.val("guards.hermeticity"), Some(Val::Word("strict")));
        wants.extend(strict.then_some("guards.hermeticity"));
        for group in ["isolation.agent", "isolation.exec"] {
            wants.extend(self.under(group).next().map(|(key, _)| key.as_str()));
        }
        if let Some(key) = wants.first().filter(|_| !backend.isolates()) {
            let at = self.at(key).unwrap_or_default();
            let sentence = format!(
                "`{key}` is about a zone, and `isolation.backend: {}` makes none",
                backend.word()
            );
            return Err(self
                .sources
                .error(at, &sentence)
                .hint("isolation: {backend: auto}   # the strongest that holds on the machine"));
        }
        let image = self.opt_text("isolation.image");
        if let Some(key) = of_image
            .filter(|_| matches!(backend, Backend::Namespaces | Backend::Root | Backend::Landlock))
        {
            let at = self.at(key).unwrap_or_default();
            let sentence = format!(
                "`{key}` is for containers, and `isolation.backend: {}` makes none",
                backend.word()
            );
            return Err(self
                .sources
                .error(at, &sentence)
                .hint("isolation: {backend: oci, image: NAME}"));
        }
        if backend == Backend::Oci && image.is_none() {
            let at = self.at("isolation.backend").unwrap_or_default();
            let sentence =
                "`isolation.backend: oci` needs the image that its containers are made from";
            return Err(self
                .sources
                .error(at, sentence)
                .hint("isolation: {backend: oci, image: NAME}"));
        }
        let engine = match self.val("isolation.engine") {
            Some(_) => Some(self.choice("isolation.engine", Engine::from_word)?),
            None => None,
        };
        Ok(IsolationSpec {
            backend,
            image,
            engine,
            accept: self.choices("isolation.accept", Degraded::from_word)?,
            egress,
            agent: self.bounds("isolation.agent")?,
            exec: self.bounds("isolation.exec")?,
        })
    }

    /// Refuses a model that exec could not reach.
    fn refuse_unreachable(&self, model: &ModelSpec) -> Result<()> {
        let ModelSpec::Declared(declared) = model else { return Ok(()) };
        let at = self.under("model").next().map(|(_, setting)| setting.at).unwrap_or_default();
        let sentence = format!(
            "exec reaches nothing from its zone, and where the provider `{}` is reached is not known",
            declared.provider
        );
        Err(self
            .sources
            .error(at, &sentence)
            .hint("isolation: {egress: [\"HOST:443\"]}   # or [] where it needs no network"))
    }

    fn bounds(&self, group: &str) -> Result<BoundsSpec> {
        let key = |name: &str| format!("{group}.{name}");
        Ok(BoundsSpec {
            pids: self.int(&key("pids"))?,
            files: self.int(&key("files"))?,
            disk: self.size(&key("disk"))?,
            memory: match self.val(&key("memory")) {
                Some(Val::Size(bytes)) => Some(*bytes),
                _ => None,
            },
            shm: self.size(&key("shm"))?,
            read: self.opt_texts(&key("read")).unwrap_or_default(),
            write: self.opt_texts(&key("write")).unwrap_or_default(),
            nested: matches!(self.val(&key("nested")), Some(Val::Bool(true))),
        })
    }

    fn receipt(&self) -> Result<ReceiptSpec> {
        let dir = self.opt_text("receipt.dir").unwrap_or_else(|| ".loopexec".to_owned());
        if dir == "." || dir.split('/').next() == Some(".git") {
            let at = self.at("receipt.dir").unwrap_or_default();
            return Err(self.sources.error(at, "`receipt.dir` must be a folder of its own"));
        }
        Ok(ReceiptSpec {
            dir,
            capture: self.size("receipt.capture")?,
            redact: self.opt_texts("receipt.redact"),
            unpinned: self.choices("receipt.unpinned", PinName::from_word)?,
            durability: self.choice("receipt.durability", Durability::from_word)?,
        })
    }

    /// Holds the rule that an unknown pin is relaxed by name: cost without a usage file, sampling where none is named.
    fn pins(&self, model: &ModelSpec, receipt: &ReceiptSpec) -> Result<()> {
        let ModelSpec::Declared(model) = model else { return Ok(()) };
        let has = |pin| receipt.unpinned.contains(&pin);
        let cost = model.metering != Metering::File && !has(PinName::Cost);
        let sampling = !model.sampling.is_named() && !has(PinName::Sampling);
        if !cost && !sampling {
            return Ok(());
        }
        let what = match (cost, sampling) {
            (true, true) => "cost and sampling of the model are",
            (true, false) => "the cost of the model is",
            _ => "the sampling of the model is",
        };
        let mut names: Vec<&str> = receipt.unpinned.iter().map(|pin| pin.word()).collect();
        if cost {
            names.push("cost");
        }
        if sampling {
            names.push("sampling");
        }
        let at = self.under("model").next().map(|(_, setting)| setting.at).unwrap_or_default();
        let line = format!("receipt: {{unpinned: [{}]}}", names.join(", "));
        Err(self
            .sources
            .error(at, &format!("{what} not known to the receipt, and the loop does not say that it does without"))
            .hint(line))
    }

    /// Refuses caps on what nothing measures.
    fn caps(&self, model: &ModelSpec) -> Result<()> {
        if model.metering() == Metering::File {
            return Ok(());
        }
        for key in ["limits.usd", "limits.tokens", "limits.calls"] {
            if let Some(at) = self.at(key) {
                let sentence = format!(
                    "`{key}` is a cap, and a cap needs usage: nothing measures what this loop uses"
                );
                return Err(self
                    .sources
                    .error(at, &sentence)
                    .hint("model: {provider: …, id: …, metering: file}"));
            }
        }
        Ok(())
    }

    /// Reads a command that a loop can do without; keys of it without `run` are an error.
    fn opt_command(&self, path: &str) -> Result<Option<CommandSpec>> {
        if self.has(&format!("{path}.run")) {
            return self.command(path).map(Some);
        }
        match self.under(path).next() {
            Some((key, setting)) => Err(self.sources.error(
                setting.at,
                &format!("`{key}` stands without a command: `{path}` says no `run`"),
            )),
            None => Ok(None),
        }
    }

    fn command(&self, path: &str) -> Result<CommandSpec> {
        let key = |name: &str| format!("{path}.{name}");
        let at = self.at(&key("run")).unwrap_or_default();
        let shell = match self.val(&key("shell")) {
            Some(Val::Word(word)) => Some(*word),
            _ => None,
        };
        let run = match (self.val(&key("run")), shell) {
            (Some(Val::Texts(words)), None | Some("none")) => Run::Argv(words.clone()),
            (Some(Val::Texts(_)), Some(shell)) => {
                let sentence = format!("`{path}.run` is a list, and a list runs without a shell");
                return Err(self
                    .sources
                    .error(at, &sentence)
                    .hint(format!("write a text for {shell}, or remove `shell`")));
            }
            (Some(Val::Text(text)), Some("none")) if text.contains(char::is_whitespace) => {
                let sentence = format!(
                    "`{path}.run` is a text of several words, and without a shell nothing splits it"
                );
                return Err(self
                    .sources
                    .error(at, &sentence)
                    .hint("write a list: program, then arguments"));
            }
            (Some(Val::Text(text)), Some("none")) => Run::Argv(vec![text.clone()]),
            (Some(Val::Text(text)), Some("bash")) => {
                Run::Script { text: text.clone(), shell: Shell::Bash }
            }
            (Some(Val::Text(text)), Some("sh")) => {
                Run::Script { text: text.clone(), shell: Shell::Sh }
            }
            (Some(Val::Text(text)), _) => Run::Script { text: text.clone(), shell: Shell::Auto },
            _ => return Err(internal(&key("run"))),
        };
        Ok(CommandSpec {
            run,
            cwd: self.opt_text(&key("cwd")).filter(|cwd| cwd != "."),
            env: match self.val(&key("env")) {
                Some(Val::Env(env)) => env.clone(),
                _ => BTreeMap::new(),
            },
            pass_env: self.opt_texts(&key("pass_env")).unwrap_or_default(),
            timeout: match self.val(&key("timeout")) {
                Some(Val::Duration(time)) => Some(*time),
                _ => None,
            },
        })
    }

    /// Makes the error of a command or model that is missing; a group that is there without `run` is pointed at.
    fn absent(&self, group: &str, sentence: &str, line: &str) -> Error {
        // A default (exec.timeout) is no sign that the group was written.
        let written =
            self.under(group).find(|(_, setting)| setting.at.source != super::layers::DEFAULT);
        match written {
            Some((_, setting)) => self
                .sources
                .error(setting.at, &format!("`{group}` says no `run`"))
                .hint(format!("for instance `{group}: {{run: ./{group}.sh}}`")),
            None => self.missing(sentence, line),
        }
    }

    fn missing(&self, sentence: &str, line: &str) -> Error {
        let error = match self.root {
            Some(at) => self.sources.error(at, sentence),
            None => Error::new(Kind::ConfigInvalid, sentence),
        };
        error.hint(format!("add the line `{line}`"))
    }
}

/// Reads the name of a runner; `auto` finds out.
fn runner(word: &str) -> Option<Option<Runner>> {
    Some(Some(match word {
        "auto" => return Some(None),
        "pytest" => Runner::Pytest,
        "unittest" => Runner::Unittest,
        "cargo" => Runner::Cargo,
        "nextest" => Runner::Nextest,
        "go" => Runner::Go,
        "node" => Runner::Node,
        "jest" => Runner::Jest,
        "vitest" => Runner::Vitest,
        "mocha" => Runner::Mocha,
        "rspec" => Runner::Rspec,
        "phpunit" => Runner::Phpunit,
        "ctest" => Runner::Ctest,
        "bats" => Runner::Bats,
        "maven" => Runner::Maven,
        "gradle" => Runner::Gradle,
        "junit" => Runner::Junit,
        "tap" => Runner::Tap,
        "command" => Runner::Command,
        _ => return None,
    }))
}
