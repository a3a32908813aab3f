//! What is told about a run, gathered once for every surface.

use super::exits::Rules;
use super::inputs::Inputs;
use super::job::Job;
use super::ledger::Ledger;
use crate::ci::finding::{self, Finding, Level};
use crate::ci::subject::{Links, Subject};
use crate::commands::Global;
use crate::commands::find::find_run;
use crate::commands::outcome::Outcome;
use crate::commands::recorded::Which;
use crate::commands::report::read_report;
use crate::commands::run::Known;
use crate::config::spec::CiSpec;
use crate::domain::reason::HaltReason;
use crate::error::{Error, Place};
use crate::exit::ExitClass;
use crate::receipt::record::{Compare, fold};
use crate::receipt::rundir::RunDir;
use crate::receipt::secrets::DEFAULT_NAMES;
use crate::report::model::{HaltView, Report};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What is told, how, and what was told before.
pub struct Telling {
    /// What is told.
    pub subject: Subject,
    /// Which surfaces are used.
    pub settings: CiSpec,
    /// What was told before.
    pub ledger: Ledger,
    /// Names of the variables whose values must not leave.
    pub secret: Vec<String>,
    /// The values of the step, by the action's names.
    pub outputs: Vec<(String, String)>,
    /// Whether the run ended by a signal: only what is quick is told now.
    pub hurried: bool,
}

impl Telling {
    /// Gathers it for a run that was started here.
    pub fn of_run(
        outcome: &Outcome,
        known: &Known,
        inputs: &Inputs,
        job: &Job,
        rules: &Rules,
    ) -> Self {
        let report = known.run_dir.as_deref().and_then(|dir| report_of(dir, &known.root));
        let mut findings = match &report {
            Some(report) => finding::of_report(report, ""),
            None => Vec::new(),
        };
        if let Some(place) = &known.refused_at {
            put_at(&mut findings, place, &known.prefix, &known.root);
        }
        let odd = |text: &String| Finding::new(Level::Warning, "loop_file", "loop file", text);
        findings.extend(known.warnings.iter().map(odd));
        let halt = report.as_ref().and_then(|report| report.halt.clone());
        let halt = halt.or_else(|| halt_of(outcome));
        if findings.is_empty() {
            findings.extend(halt.as_ref().map(bare));
        }
        let fails = rules.fails(outcome.class, halt.as_ref().map(|halt| halt.reason));
        if !fails {
            soften(&mut findings);
        }
        let hurried = halt.as_ref().is_some_and(|halt| halt.reason == HaltReason::Interrupted);
        let spec = known.spec.as_deref();
        let text = |key: &str| outcome.object.get(key).and_then(Value::as_str).map(str::to_owned);
        let subject = Subject {
            key: job.key(spec.map(|spec| spec.name.as_str()).unwrap_or_default(), inputs),
            turn: job.turn(),
            run_id: text("run_id").unwrap_or_default(),
            fails,
            process_exit: outcome.process_exit.unwrap_or(outcome.class.code()),
            halt,
            report,
            findings,
            links: Links { job: job.link(), artifact: None },
            run_dir: known.run_dir.clone(),
            root: known.root.clone(),
        };
        Self {
            outputs: outputs(&subject, Some(outcome)),
            settings: inputs.over(spec),
            secret: secret_names(spec.and_then(|spec| spec.receipt.redact.as_deref())),
            subject,
            // Nothing of this run was told yet, whatever exec wrote of it.
            ledger: Ledger::default(),
            hurried,
        }
    }

    /// Gathers it for what was refused before there was a run.
    pub fn of_refusal(outcome: &Outcome, error: &Error, inputs: &Inputs, job: &Job) -> Self {
        let halt = halt_of(outcome);
        let root = std::env::current_dir().unwrap_or_default();
        let subject = Subject {
            key: job.key("", inputs),
            turn: job.turn(),
            run_id: String::new(),
            fails: true,
            process_exit: outcome.process_exit.unwrap_or(outcome.class.code()),
            halt,
            report: None,
            findings: finding::of_error(error, ""),
            links: Links { job: job.link(), artifact: None },
            run_dir: None,
            root,
        };
        Self {
            outputs: outputs(&subject, Some(outcome)),
            settings: inputs.over(None),
            secret: secret_names(None),
            subject,
            ledger: Ledger::default(),
            hurried: false,
        }
    }

    /// Gathers it for a run that another process started.
    pub fn of_report(
        report: &Report,
        run: &RunDir,
        inputs: &Inputs,
        job: &Job,
        global: &Global,
    ) -> Self {
        let (settings, rules, secret) = recorded(run.path(), inputs);
        let mut findings = finding::of_report(report, "");
        let halt = report.halt.clone();
        let reason = halt.as_ref().map(|halt| halt.reason);
        let class = reason.map_or(ExitClass::Interrupted, HaltReason::class);
        let fails = rules.fails(class, reason);
        if !fails {
            soften(&mut findings);
        }
        let subject = Subject {
            key: job.key(&report.name, inputs),
            turn: job.turn(),
            run_id: report.run_id.clone(),
            fails,
            process_exit: rules.code(class, reason),
            halt,
            report: Some(report.clone()),
            findings,
            links: Links { job: job.link(), artifact: None },
            run_dir: Some(run.path().to_owned()),
            root: global.workdir.clone().unwrap_or_default(),
        };
        Self {
            outputs: outputs(&subject, None),
            settings,
            secret,
            ledger: Ledger::read(run.path()),
            subject,
            hurried: false,
        }
    }
}

/// Returns the names whose values must not leave: the usual ones, and those the loop adds.
pub fn secret_names(own: Option<&[String]>) -> Vec<String> {
    let usual = DEFAULT_NAMES.iter().map(|name| (*name).to_owned());
    usual.chain(own.unwrap_or_default().iter().cloned()).collect()
}

/// Reads what the recorded loop says of its surfaces, exit codes and secrets.
fn recorded(run_dir: &Path, inputs: &Inputs) -> (CiSpec, Rules, Vec<String>) {
    let start = RunDir::open(run_dir)
        .and_then(|run| fold(&run, Compare::Trusting, &mut |_| Ok(())))
        .ok()
        .map(|folded| folded.start);
    let mut settings = inputs.over(None);
    let mut rules = Rules::default();
    let own = start.as_ref().and_then(|start| start.spec.pointer("/receipt/redact"));
    let own: Option<Vec<String>> = own.and_then(|names| serde_json::from_value(names.clone()).ok());
    if let Some(start) = start {
        let ci = |key: &str| start.spec.pointer(&format!("/ci/{key}"));
        let flag = |key: &str, own: bool| ci(key).and_then(Value::as_bool).unwrap_or(own);
        settings.annotations = inputs.annotations.unwrap_or(flag("annotations", true));
        settings.check_run = inputs.check_run.unwrap_or(flag("check_run", false));
        settings.summary = inputs.summary.unwrap_or(flag("summary", true));
        settings.artifact = inputs.artifact.unwrap_or(flag("artifact", true));
        if inputs.comment.is_none() && ci("comment").and_then(Value::as_str) == Some("off") {
            settings.comment = crate::config::spec::Comment::Off;
        }
        let name = ci("artifact_name").and_then(Value::as_str).map(str::to_owned);
        settings.artifact_name = settings.artifact_name.or(name);
        let days = ci("retention_days").and_then(Value::as_u64);
        settings.retention_days =
            settings.retention_days.or(days.and_then(|days| u32::try_from(days).ok()));
        if let Some(codes) = start.spec.get("exit_codes") {
            rules.codes = serde_json::from_value(codes.clone()).unwrap_or_default();
        }
        if let Some(names) = start.spec.get("fail_on") {
            rules.fail_on = serde_json::from_value(names.clone()).unwrap_or_default();
        }
    }
    if let Some(names) = &inputs.fail_on {
        rules.fail_on = Some(names.clone());
    }
    (settings, rules, secret_names(own.as_deref()))
}

fn report_of(run_dir: &Path, root: &Path) -> Option<Report> {
    let global = Global { workdir: Some(root.to_owned()), ..Global::default() };
    let which = Which { run_id: Some(run_dir.to_string_lossy().into_owned()) };
    find_run(&which, &global).and_then(|found| read_report(&found)).ok()
}

/// Returns the halt that an outcome tells where there is no receipt of it.
fn halt_of(outcome: &Outcome) -> Option<HaltView> {
    let text = |key: &str| outcome.object.get(key).and_then(Value::as_str);
    let reason = HaltReason::from_name(text("halt_reason")?)?;
    Some(HaltView {
        reason,
        exit_class: reason.class().name(),
        exit_code: reason.class().code(),
        detail: text("detail").map(str::to_owned),
        why: text("why").unwrap_or_default().to_owned(),
        next: text("next").map(str::to_owned).into_iter().collect(),
    })
}

fn bare(halt: &HaltView) -> Finding {
    let title = format!("loopexec: {}", halt.reason);
    Finding::new(Level::Error, halt.reason.as_str(), &title, &halt.why)
}

/// Puts the first finding at the place of the loop file that it is about.
fn put_at(findings: &mut [Finding], place: &Place, prefix: &str, root: &Path) {
    // What came as a text of its own stands in no file.
    let there = |file: &String| root.join(file).is_file();
    if let Some(first) = findings.first_mut() {
        first.file = finding::repository_path(prefix, &place.file).filter(there);
        first.line = first.file.as_ref().and_then(|_| u32::try_from(place.line).ok());
    }
}

/// What does not fail the job is no error.
fn soften(findings: &mut [Finding]) {
    for finding in findings.iter_mut().filter(|finding| finding.level == Level::Error) {
        finding.level = Level::Warning;
    }
}

/// Returns the values of the step: a closed vocabulary, numbers, digests and paths of ours.
fn outputs(subject: &Subject, outcome: Option<&Outcome>) -> Vec<(String, String)> {
    let halt = subject.halt.as_ref();
    let report = subject.report.as_ref();
    let converged = halt.is_some_and(|halt| halt.reason == HaltReason::SuccessConditionMet);
    let shown = |path: PathBuf| path.to_string_lossy().into_owned();
    let patch = subject.run_dir.as_deref().map(|dir| dir.join("patch.diff"));
    let changed = outcome
        .and_then(|outcome| outcome.object.get("changed"))
        .and_then(Value::as_bool)
        .unwrap_or_else(|| {
            let last = report.and_then(|report| report.iterations.last());
            last.is_some_and(|iteration| !iteration.changes.is_empty())
        });
    let text = |value: Option<String>| value.unwrap_or_default();
    [
        ("halt-reason", text(halt.map(|halt| halt.reason.to_string()))),
        ("detail", text(halt.and_then(|halt| halt.detail.clone()))),
        ("exit-class", text(halt.map(|halt| halt.exit_class.to_owned()))),
        ("exit-code", text(halt.map(|halt| halt.exit_code.to_string()))),
        ("converged", converged.to_string()),
        ("changed", changed.to_string()),
        ("iterations", report.map_or(0, |report| report.iterations.len()).to_string()),
        ("run-id", subject.run_id.clone()),
        ("loop-digest", text(report.map(|report| report.loop_digest.clone()))),
        ("spent-usd", text(report.and_then(|report| report.spend.usd.clone()))),
        ("receipt", text(subject.run_dir.as_deref().map(|dir| shown(dir.join("receipt.jsonl"))))),
        ("head", text(report.map(|report| report.head.clone()))),
        ("patch", text(patch.filter(|path| path.exists()).map(shown))),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}
