//! What the first event of a run says: loop, tree, isolation, model, tools.

use super::based::from_root;
use super::opening::prefix_of;
use super::recorder::Pins;
use super::site::Site;
use super::zoned::Zoned;
use crate::commands::planning::without_fractions;
use crate::config::Resolved;
use crate::config::spec::{self, LoopSpec, ModelSpec, WorkspaceMode};
use crate::domain::hex::sha256;
use crate::domain::plan::Plan;
use crate::error::Result;
use crate::process::{Capability, OverlayMode};
use crate::receipt::record::{Start, to_value};
use crate::workspace::caller::{Caller, CallerKind, Head};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Where platforms look for workflow files.
const WORKFLOWS: [&str; 2] = [".github/workflows/", ".gitea/workflows/"];

/// Returns the start of a run that could not be prepared.
pub fn bare_start(resolved: Option<&Resolved>) -> Start {
    Start {
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        name: resolved.map(|resolved| resolved.spec.name.clone()).unwrap_or_default(),
        loop_digest: resolved.map(|resolved| resolved.digest.clone()).unwrap_or_default(),
        plan: None,
        spec: Value::Null,
        caller: Value::Null,
        isolation: Value::Null,
        model: Value::Null,
        environment: Value::Null,
        check_digest: String::new(),
    }
}

/// Returns the start of a run that is prepared.
///
/// # Errors
/// `internal_error` when a part of the loop has no JSON form.
pub fn start_of(site: &Site, resolved: &Resolved, plan: &Plan) -> Result<Start> {
    let spec = &resolved.spec;
    let mut value = to_value(spec)?;
    without_fractions(&mut value);
    let mut model = to_value(&spec.model)?;
    without_fractions(&mut model);
    let tools: Vec<&str> =
        site.surround.toolchains.found.iter().map(|(name, _)| name.as_str()).collect();
    Ok(Start {
        plan: Some(plan.clone()),
        check_digest: check_digest(site, &value),
        caller: site.caller_facts.clone(),
        isolation: isolation_of(site),
        model,
        environment: json!({
            "tools": tools, "tools_digest": tools_digest(site),
            "pass_env": spec.check.command.pass_env,
        }),
        spec: value,
        ..bare_start(Some(resolved))
    })
}

/// Returns what a run records of the caller's tree: how it is kept, where in it the loop was started, the
/// workflow file it stands in, and the revision it was held to.
pub fn caller_of(caller: &Caller, resolved: &Resolved) -> Value {
    let mut kind = match &caller.kind {
        CallerKind::Git { object_format, head, .. } => json!({
            "kind": "git",
            "object_format": format!("{object_format:?}").to_lowercase(),
            "head": match head {
                Head::Branch(_) => "branch",
                Head::Detached => "detached",
                Head::Unborn(_) => "unborn",
            },
        }),
        CallerKind::Plain => json!({"kind": "plain"}),
    };
    kind["prefix"] = json!(prefix_of(caller));
    if let Some(base) = &resolved.base {
        kind["base"] = json!({
            "revision": base.revision, "held": base.held.word(), "differs": base.keys,
        });
    }
    let path = resolved.stands_in.as_deref().and_then(|file| from_root(caller, file));
    let is_workflow = |path: &String| {
        path == ".gitlab-ci.yml" || WORKFLOWS.iter().any(|folder| path.starts_with(folder))
    };
    if let Some(path) = path.filter(is_workflow) {
        kind["workflow"] = json!(path);
    }
    kind
}

/// Returns the digest of a recorded loop's check and setup with the names of the tools at hand.
pub fn check_digest(site: &Site, spec: &Value) -> String {
    let tools: Vec<&str> =
        site.surround.toolchains.found.iter().map(|(name, _)| name.as_str()).collect();
    sha256(json!([spec.get("check"), spec.get("setup"), tools]).to_string().as_bytes())
}

/// Returns the digest of which programs the tools are: name, real path and size of each.
pub fn tools_digest(site: &Site) -> String {
    if let Some(image) = site.zones.as_ref().and_then(Zoned::image) {
        // What an image holds is what its id says.
        return sha256(image.as_bytes());
    }
    let of = |path: &PathBuf| {
        let real = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let size = std::fs::metadata(&real).map_or(0, |found| found.len());
        format!("{}\0{size}", real.display())
    };
    let found = site.surround.toolchains.found.iter();
    let all: Vec<String> = found.map(|(name, path)| format!("{name}\0{}", of(path))).collect();
    sha256(all.join("\n").as_bytes())
}

/// Returns where processes run.
pub fn isolation_of(site: &Site) -> Value {
    let (namespaces, copies) = match &site.capability {
        Capability::Namespaces { overlay: OverlayMode::Unavailable } => (true, "real"),
        Capability::Namespaces { .. } => (true, "overlay"),
        Capability::Plain { .. } => (false, "real"),
    };
    let in_place = site.spec.workspace.mode == WorkspaceMode::InPlace;
    let mut isolation = json!({
        "backend": site.zones.as_ref().map_or("none", Zoned::backend), "degraded": site.zones.as_ref().is_none_or(Zoned::is_degraded) || in_place,
        "namespaces": namespaces, "copies": copies, "in_place": in_place,
    });
    if let Some(zones) = &site.zones {
        isolation["zones"] = zones.facts();
    }
    if let Some(why) = &site.stepped_down {
        isolation["stepped_down"] = json!(why);
    }
    isolation
}

/// Returns what every iteration event repeats.
pub fn pins_of(spec: &LoopSpec, start: &Start) -> Pins {
    let (identity, sampling, cost) = match &spec.model {
        ModelSpec::None => {
            (json!({"source": "none", "model": "none"}), json!({"source": "none"}), json!("none"))
        }
        ModelSpec::Declared(model) => {
            let mut sampling = to_value(&model.sampling).unwrap_or(Value::Null);
            without_fractions(&mut sampling);
            (
                json!({
                    "source": "declared", "provider": model.provider, "id_asked": model.id,
                    "version": model.version,
                }),
                json!({"source": if model.sampling.is_named() { "declared" } else { "unpinned" }, "values": sampling}),
                json!(match model.metering {
                    spec::Metering::File => "usage_file",
                    _ => "unpinned",
                }),
            )
        }
    };
    Pins {
        identity,
        sampling,
        cost,
        check_digest: start.check_digest.clone(),
        zone: start.isolation.clone(),
        wanted_rate: spec.check.max_flake_rate,
    }
}
