//! `loopexec guards`: the protected surface as it stands in the caller's tree. Nothing is run.
//!
//! What a path is says `integrity::surface`; what a loop file adds, `run::surface`.

use super::Global;
use super::outcome::Outcome;
use super::planning::plan_for;
use super::run::opening::prefix_of;
use super::run::source::{Workflow, prepare};
use super::run::surface::SurfaceRules;
use crate::domain::guard::BlockedPaths;
use crate::error::Result;
use crate::integrity::surface::{Class, classify};
use crate::integrity::syntax::{self, Language};
use crate::report::text::clean;
use crate::workspace::paths;
use ignore::WalkBuilder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names a text shows of one kind; JSON has them all.
const SHOWN: usize = 12;
/// A larger file is named, and its tests are not counted.
const MOST_BYTES: u64 = 8 << 20;

/// Options of `guards`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The loop file; searched for when left out
    pub file: Option<PathBuf>,
    /// Another file that holds the loop.
    #[command(flatten)]
    pub from: Workflow,
}

/// What is found, by class.
#[derive(Debug, Default)]
struct Surface {
    tests: BTreeMap<String, Option<usize>>,
    support: Vec<String>,
    fixtures: Vec<String>,
    settings: Vec<String>,
    mutable: Vec<String>,
    blocked: Vec<String>,
}

/// Shows the surface.
///
/// # Errors
/// `workspace_invalid` without a tree, `config_invalid` for a loop file that is not valid.
pub fn run(args: &Args, global: &Global) -> Result<Outcome> {
    let run = super::run::Args {
        file: args.file.clone(),
        from: args.from.clone(),
        ..super::run::Args::default()
    };
    let (ready, resolved) = prepare(&run, global)?;
    let resolved = resolved?;
    let rules = SurfaceRules::new(&resolved.spec, &ready.caller.root, &ready.caller.prefix)?;
    let plan = plan_for(&resolved, &prefix_of(&ready.caller));
    let blocked = BlockedPaths::new(&plan.blocked_paths);
    let surface = read_surface(&ready.caller.root, &rules, &blocked);
    let counted: usize = surface.tests.values().flatten().sum();
    let uncounted = surface.tests.values().filter(|count| count.is_none()).count();
    let mut text = format!("test surface of {}\n", clean(&ready.caller.root.to_string_lossy()));
    let tests: Vec<String> = surface.tests.keys().cloned().collect();
    let about = match uncounted {
        0 => format!("{counted} tests in {} files", tests.len()),
        n => {
            format!("{counted} tests in {} files, {n} of them not readable as source", tests.len())
        }
    };
    line(&mut text, "tests", &about, &tests);
    line(&mut text, "support", &files(&surface.support), &surface.support);
    line(&mut text, "fixtures", &files(&surface.fixtures), &surface.fixtures);
    line(&mut text, "settings", &files(&surface.settings), &surface.settings);
    line(&mut text, "blocked", &files(&surface.blocked), &surface.blocked);
    let mutable = match resolved.spec.guards.mutable.is_empty() {
        true => "nothing: guards.mutable names no path".to_owned(),
        false => format!(
            "{} by guards.mutable: {}",
            files(&surface.mutable),
            resolved.spec.guards.mutable.join(", ")
        ),
    };
    line(&mut text, "mutable", &mutable, &surface.mutable);
    text.push_str("Settings that are not there now and appear are guarded too. A green counts only with the tests, support files and fixtures as they are now.\n");
    let guards = &plan.guards;
    let surface = json!({
        "tests": surface.tests.iter().map(|(path, count)| json!({"path": path, "tests": count})).collect::<Vec<_>>(),
        "support": surface.support,
        "fixtures": surface.fixtures,
        "settings": surface.settings,
        "blocked": surface.blocked,
        "mutable": surface.mutable,
    });
    let rules = json!({
        "assertions": guards.assertions,
        "on_breach": guards.on_breach,
        "max_reverts": guards.max_reverts,
        "coverage_tolerance_ppm": guards.coverage_tolerance_ppm,
        "blocked_paths": plan.blocked_paths,
        "mutable": resolved.spec.guards.mutable,
    });
    Ok(Outcome::text("guards", text)
        .with("surface", surface)
        .with("rules", rules)
        .with("loop_digest", Value::String(resolved.digest)))
}

fn files(list: &[String]) -> String {
    match list.len() {
        0 => "none".to_owned(),
        1 => "1 file".to_owned(),
        n => format!("{n} files"),
    }
}

fn line(text: &mut String, name: &str, about: &str, list: &[String]) {
    text.push_str(&format!("  {name:<9} {about}\n"));
    for path in list.iter().take(SHOWN) {
        text.push_str(&format!("            {}\n", clean(path)));
    }
    if list.len() > SHOWN {
        text.push_str(&format!(
            "            and {} more (--json names them)\n",
            list.len() - SHOWN
        ));
    }
}

/// Walks the tree as git would list it; what is ignored is no part of a snapshot.
fn read_surface(root: &Path, rules: &SurfaceRules, blocked: &BlockedPaths) -> Surface {
    let mut surface = Surface::default();
    let walk = WalkBuilder::new(root)
        .hidden(false)
        .parents(false)
        .ignore(false)
        .require_git(false)
        .follow_links(false)
        .filter_entry(|entry| {
            !matches!(entry.file_name().to_str(), Some(".git" | ".loopexec" | ".loop_state.json"))
        })
        .sort_by_file_path(Path::cmp)
        .build();
    for entry in walk.flatten() {
        if entry.file_type().is_none_or(|kind| kind.is_dir()) {
            continue;
        }
        let Ok(inside) = entry.path().strip_prefix(root) else { continue };
        let path = paths::escape(paths::as_bytes(inside));
        let class = rules.class(&path);
        let inline = class == Class::Source && path.ends_with(".rs");
        if blocked.blocks(&path).is_some() {
            surface.blocked.push(path.clone());
        }
        if rules.is_mutable(&path) {
            if classify(&path) != Class::Source {
                surface.mutable.push(path);
            }
            continue;
        }
        match class {
            Class::Test => {
                let count = count_tests(entry.path(), &path);
                surface.tests.insert(path, count);
            }
            Class::Support => surface.support.push(path),
            Class::Fixture => surface.fixtures.push(path),
            Class::Settings => surface.settings.push(path),
            Class::Source if inline => {
                if let Some(count @ 1..) = count_tests(entry.path(), &path) {
                    surface.tests.insert(path, Some(count));
                }
            }
            Class::Source => {}
        }
    }
    surface
}

fn count_tests(file: &Path, path: &str) -> Option<usize> {
    let language = Language::of(path)?;
    let found = fs::symlink_metadata(file).ok()?;
    if !found.is_file() || found.len() > MOST_BYTES {
        return None;
    }
    let scan = syntax::scan(language, &fs::read(file).ok()?)?;
    (!scan.broken).then_some(scan.items.len())
}
