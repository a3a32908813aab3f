//! The sections of a loop that a pull request must not choose by itself: `check`, `guards`,
//! `isolation`.
//!
//! They come from the base revision, or a person agrees to what differs. Who reads the base's loop file
//! is the caller's business; that a gate then holds the run back is `domain::gate`'s.

use super::diagnostic::Sources;
use super::spec::{LoopSpec, WorkspaceMode};
use super::{Inputs, Resolved, block, digest, layers, read_text, resolve, tree};
use crate::domain::gate::{Gate, ProtectedChange};
use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The sections that are protected.
pub const PROTECTED: [&str; 3] = ["check", "guards", "isolation"];

/// What the base revision says about the loop.
#[derive(Debug)]
pub enum Base {
    /// Its loop.
    Loop(Box<Resolved>),
    /// It has no such loop file.
    Absent,
    /// It cannot be read here: why, as a sentence, and what to do about it.
    Unavailable {
        /// Why, as the end of a sentence.
        why: String,
        /// What to do about it.
        hint: String,
    },
}

/// What became of a loop that was held to its base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// The protected sections are the base's own.
    Same,
    /// They differed, and those of the base are run.
    Replaced,
    /// They differ, and a person has to agree first.
    Asks,
}

impl Held {
    /// Returns the word, as the receipt has it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Replaced => "replaced",
            Self::Asks => "asks",
        }
    }
}

/// What a run records of the base it was held to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseNote {
    /// The revision as it was named.
    pub revision: String,
    /// What became of the loop.
    pub held: Held,
    /// The protected keys that differ.
    pub keys: Vec<String>,
}

/// Resolves the loop file of a base revision.
///
/// The environment and the accept list of the command line count as for the loop itself, as they say
/// what the machine lacks; other flags do not: what `--check` says is the pull request's word.
///
/// # Errors
/// `config_invalid` as `load`, naming the file as `name`; `own` is where it stands, as `load` takes it,
/// where it is a file of the tree.
pub fn parse_base(text: &str, name: &str, own: Option<&Path>, inputs: &Inputs) -> Result<Resolved> {
    let mut sources = Sources::default();
    let shown = format!("{name} of the base revision");
    let text = tree::text_of(&shown, text.as_bytes())?;
    let (mut settings, root) = read_text(&mut sources, &shown, text)?;
    layers::apply_env(&inputs.env, &mut sources, &mut settings)?;
    let accept: Vec<_> =
        inputs.flags.iter().filter(|(key, ..)| key == "isolation.accept").cloned().collect();
    layers::apply_flags(&accept, &mut sources, &mut settings)?;
    let path = Path::new(name);
    let (mut resolved, settings) =
        resolve(&sources, settings, root, super::stem_of(Some(path)), Some(path))?;
    if let Some(own) = own {
        block(inputs, own, &settings, &mut resolved);
    }
    Ok(resolved)
}

/// Returns the dotted keys of the protected sections in which two loops differ.
pub fn protected_difference(base: &LoopSpec, head: &LoopSpec) -> Vec<String> {
    let (base, head) = (sections(base), sections(head));
    let (mut then, mut now) = (Map::new(), Map::new());
    flatten(&base, "", &mut then);
    flatten(&head, "", &mut now);
    let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
    keys.into_iter().filter(|key| then.get(*key) != now.get(*key)).cloned().collect()
}

/// Holds a loop to the base revision of the pull request that it comes from.
///
/// - The protected sections are the base's: nothing to do.
/// - They differ, and the base asks for it (`human.approve: [protected_change]`): a person has to
///   agree before anything runs, also to what the base itself says.
/// - They differ otherwise: those of the base are run, and a warning says so.
/// - The base has no such file, or it cannot be read: as if all of it differed and the base asked.
///
/// Gates of the base stay, whatever the loop says, and so do its `exit_codes` and `fail_on`; of two caps
/// on the patch the smaller one counts. The digest is that of what runs.
///
/// # Errors
/// `config_invalid` where a gate of the base could not hold; `internal_error` when a loop has no JSON form.
pub fn hold_to_base(head: &mut Resolved, base: &Base, revision: &str) -> Result<Held> {
    let (held, keys) = hold(head, base)?;
    // Which halts fail a job is not the pull request's to say either: a question nobody answered would
    // be green.
    (head.spec.exit_codes, head.spec.fail_on) = match base {
        Base::Loop(base) => (base.spec.exit_codes.clone(), base.spec.fail_on.clone()),
        Base::Absent | Base::Unavailable { .. } => (BTreeMap::new(), None),
    };
    if head.spec.workspace.mode == WorkspaceMode::InPlace
        && (head.spec.human.approve.contains(&Gate::Deliver) || head.spec.limits.caps_patch())
    {
        return Err(Error::new(
            Kind::ConfigInvalid,
            "the base revision wants a yes before a result is delivered, and `workspace.mode: in_place` would change the tree before anybody can say no",
        )
        .hint("leave out `workspace.mode: in_place`"));
    }
    head.base = Some(BaseNote { revision: revision.to_owned(), held, keys });
    redigest(head)?;
    Ok(held)
}

fn hold(head: &mut Resolved, base: &Base) -> Result<(Held, Vec<String>)> {
    let (keys, why) = match base {
        Base::Loop(base) => {
            for gate in &base.spec.human.approve {
                if !head.spec.human.approve.contains(gate) {
                    head.spec.human.approve.push(*gate);
                }
            }
            let (caps, limits) = (&base.spec.limits, &mut head.spec.limits);
            limits.patch_files = smaller(limits.patch_files, caps.patch_files);
            limits.patch_lines = smaller(limits.patch_lines, caps.patch_lines);
            let keys = protected_difference(&base.spec, &head.spec);
            if keys.is_empty() {
                return Ok((Held::Same, keys));
            }
            if !base.spec.human.approve.contains(&Gate::ProtectedChange) {
                head.warnings.push(format!(
                    "{} of the loop file {} from the base revision; the base's {} used",
                    some(&keys),
                    if keys.len() == 1 { "differs" } else { "differ" },
                    if keys.len() == 1 { "is" } else { "are" },
                ));
                head.spec.check = base.spec.check.clone();
                head.spec.guards = base.spec.guards.clone();
                head.own_path.clone_from(&base.own_path);
                head.spec.isolation = base.spec.isolation.clone();
                return Ok((Held::Replaced, keys));
            }
            let why = format!(
                "{} {} from the base revision",
                some(&keys),
                if keys.len() == 1 { "differs" } else { "differ" }
            );
            (keys, why)
        }
        Base::Absent => (all(), "the base revision has no such loop file".to_owned()),
        Base::Unavailable { why, hint } => {
            head.warnings.push(format!("{why}; {hint}"));
            (all(), why.clone())
        }
    };
    let then = match base {
        Base::Loop(base) => sections(&base.spec),
        Base::Absent => json!("absent"),
        Base::Unavailable { .. } => json!("unavailable"),
    };
    let both = digest::canonical(json!({"base": then, "head": sections(&head.spec)}));
    let text = format!("loopexec.protected.v1\n{}", both.map_err(unwritable)?);
    let digest = hex::sha256(text.as_bytes());
    head.protected = Some(ProtectedChange { digest, keys: keys.clone(), why });
    Ok((Held::Asks, keys))
}

/// Returns the smaller of two caps; one that is not set allows everything.
fn smaller(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.into_iter().chain(other).min()
}

fn all() -> Vec<String> {
    PROTECTED.map(str::to_owned).to_vec()
}

fn redigest(head: &mut Resolved) -> Result<()> {
    // The loop file's own path is no part of the digest: it stands elsewhere on each machine.
    let mut spec = head.spec.clone();
    match &head.own_path {
        // A pattern from the root was added last.
        Some(own) if own.starts_with('/') => drop(spec.guards.blocked_paths.pop()),
        Some(own) => spec.guards.blocked_files.retain(|file| file != own),
        None => {}
    }
    head.digest = digest::loop_digest(&spec).map_err(unwritable)?;
    Ok(())
}

fn unwritable(source: serde_json::Error) -> Error {
    Error::new(Kind::Internal, "the loop cannot be digested").because(source)
}

fn sections(spec: &LoopSpec) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    let section = |name: &&str| {
        let found = value.get_mut(*name).map(Value::take).unwrap_or_default();
        ((*name).to_owned(), found)
    };
    Value::Object(PROTECTED.iter().map(section).collect())
}

fn flatten(value: &Value, prefix: &str, out: &mut Map<String, Value>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let path = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(value, &path, out);
            }
        }
        other => drop(out.insert(prefix.to_owned(), other.clone())),
    }
}

/// Names a few keys.
fn some(keys: &[String]) -> String {
    let shown: Vec<&str> = keys.iter().take(4).map(String::as_str).collect();
    match keys.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_str;

    const BASE: &str = "version: 1\nmodel: none\nexec: ./a.sh\ncheck: make test\n";

    fn head(text: &str) -> Resolved {
        parse_base(text, "loop.yml", Some(Path::new("loop.yml")), &Inputs::default()).unwrap()
    }

    fn base(text: &str) -> Base {
        Base::Loop(Box::new(head(text)))
    }

    #[test]
    fn keys_outside_the_protected_sections_are_the_pull_requests_own() {
        let text = "version: 1\nmodel: none\ngoal: other\nexec: ./b.sh\ncheck: make test\nlimits: {iterations: 3}\n";
        let mut loops = head(text);
        let before = loops.digest.clone();
        assert_eq!(hold_to_base(&mut loops, &base(BASE), "main").unwrap(), Held::Same);
        assert_eq!((loops.protected.clone(), loops.digest), (None, before));
    }

    #[test]
    fn a_digest_is_that_of_the_same_loop_without_a_base() {
        let mut loops = head(BASE);
        hold_to_base(&mut loops, &base(BASE), "main").unwrap();
        assert_eq!(loops.digest, parse_str(BASE, "loop.yml").unwrap().digest);
    }

    #[test]
    fn another_check_is_replaced_by_the_bases_with_one_warning() {
        let mut loops = head(&BASE.replace("make test", "exit 0"));
        assert_eq!(hold_to_base(&mut loops, &base(BASE), "main").unwrap(), Held::Replaced);
        assert_eq!(loops.digest, head(BASE).digest);
        assert_eq!(loops.spec.check, head(BASE).spec.check);
        assert!(loops.warnings[0].contains("check.run"), "{:?}", loops.warnings);
        assert_eq!((loops.warnings.len(), loops.protected), (1, None));
    }

    #[test]
    fn the_sealed_check_the_judge_and_what_may_change_are_the_bases_too() {
        let with = |held_out: &str, guards: &str| {
            format!(
                "version: 1\nmodel: none\nexec: ./a.sh\ncheck: {{run: make test{held_out}}}\nguards: {{{guards}}}\n"
            )
        };
        let strict = with(", held_out: ./sealed.sh", "judge: [./judge.sh]");
        let loose = with(
            ", held_out: 'true'",
            "mutable: [tests/**], protected: [], assertions: off, on_breach: revert",
        );
        let keys = protected_difference(&head(&strict).spec, &head(&loose).spec);
        for key in [
            "check.held_out.run",
            "guards.assertions",
            "guards.judge.run",
            "guards.mutable",
            "guards.on_breach",
            "guards.protected",
        ] {
            assert!(keys.iter().any(|known| known == key), "{key}: {keys:?}");
        }
        let mut loops = head(&loose);
        assert_eq!(hold_to_base(&mut loops, &base(&strict), "main").unwrap(), Held::Replaced);
        assert_eq!(loops.digest, head(&strict).digest);
        assert_eq!(loops.spec.check.held_out, head(&strict).spec.check.held_out);
        assert_eq!(loops.spec.guards, head(&strict).spec.guards);
    }

    #[test]
    fn which_halts_fail_a_job_is_the_bases_to_say() {
        let text = format!("{BASE}exit_codes: {{resumable-judgment: 0}}\nfail_on: []\n");
        for base in [base(&format!("{BASE}fail_on: [cap]\n")), Base::Absent] {
            let mut loops = head(&text);
            hold_to_base(&mut loops, &base, "main").unwrap();
            assert!(loops.spec.exit_codes.is_empty());
            let expected = matches!(base, Base::Loop(_)).then(|| vec!["cap".to_owned()]);
            assert_eq!(loops.spec.fail_on, expected);
        }
    }

    #[test]
    fn a_gate_of_the_base_is_not_gone_round_in_the_tree_itself() {
        let asking = base(&format!("{BASE}human: {{approve: [deliver]}}\n"));
        let mut loops = head(&format!("{BASE}workspace: {{mode: in_place}}\n"));
        let error = hold_to_base(&mut loops, &asking, "main").unwrap_err();
        assert_eq!(error.kind, Kind::ConfigInvalid);
    }

    #[test]
    fn a_base_that_asks_for_it_gets_a_gate_bound_to_both_sides() {
        let asking = format!("{BASE}human: {{approve: [protected_change]}}\n");
        let digest = |text: &str| {
            let mut loops = head(text);
            assert_eq!(hold_to_base(&mut loops, &base(&asking), "main").unwrap(), Held::Asks);
            let change = loops.protected.unwrap();
            assert_eq!(change.keys, ["check.run"]);
            assert_eq!(loops.spec.human.approve, [Gate::ProtectedChange], "the gate stays");
            change.digest
        };
        let (one, other) = (
            digest(&BASE.replace("make test", "exit 0")),
            digest(&BASE.replace("make test", "exit 00")),
        );
        assert_ne!(one, other);
    }

    #[test]
    fn a_base_without_the_file_or_out_of_reach_asks_for_all_of_it() {
        let unavailable =
            Base::Unavailable { why: "it is not here".into(), hint: "fetch it".into() };
        let mut digests = BTreeSet::new();
        for base in [Base::Absent, unavailable] {
            let mut loops = head(BASE);
            assert_eq!(hold_to_base(&mut loops, &base, "main").unwrap(), Held::Asks);
            let change = loops.protected.unwrap();
            assert_eq!(change.keys, PROTECTED);
            digests.insert(change.digest);
        }
        assert_eq!(digests.len(), 2);
    }

    #[test]
    fn the_gate_of_the_base_cannot_be_taken_away() {
        let asking = format!("{BASE}human: {{approve: [deliver]}}\n");
        let mut loops = head(BASE);
        assert_eq!(hold_to_base(&mut loops, &base(&asking), "main").unwrap(), Held::Same);
        assert_eq!(loops.spec.human.approve, [Gate::Deliver]);
        assert_eq!(loops.digest, head(&asking).digest);
    }

    #[test]
    fn of_two_caps_on_the_patch_the_smaller_one_counts() {
        let capped = |caps: &str| format!("{BASE}limits: {{{caps}}}\n");
        for (own, wanted) in
            [("", (Some(3), Some(50))), ("patch_files: 9, patch_lines: 20", (Some(3), Some(20)))]
        {
            let mut loops = head(&capped(own));
            let asking = base(&capped("patch_files: 3, patch_lines: 50"));
            hold_to_base(&mut loops, &asking, "main").unwrap();
            let limits = &loops.spec.limits;
            assert_eq!((limits.patch_files, limits.patch_lines), wanted);
            hold_to_base(&mut loops, &base(BASE), "main").unwrap();
            assert_eq!(loops.spec.limits.patch_files, Some(3), "a cap of its own stays");
        }
        let mut loops = head(&format!("{BASE}workspace: {{mode: in_place}}\n"));
        let asking = base(&capped("patch_lines: 50"));
        assert!(hold_to_base(&mut loops, &asking, "main").is_err());
    }

    #[test]
    fn a_flag_counts_as_the_pull_requests_word_and_the_accept_list_as_the_machines() {
        let flag = |key: &str, value: &str| (key.to_owned(), value.to_owned(), "--x".to_owned());
        let inputs = Inputs {
            flags: vec![flag("check", "exit 0"), flag("isolation.accept", "none")],
            ..Inputs::default()
        };
        let base = parse_base(BASE, "loop.yml", Some(Path::new("loop.yml")), &inputs).unwrap();
        let mut now = head(&BASE.replace("make test", "exit 0"));
        assert!(!protected_difference(&base.spec, &now.spec).is_empty());
        now.spec.isolation = base.spec.isolation.clone();
        assert_eq!(protected_difference(&base.spec, &now.spec), ["check.run"]);
    }
}
