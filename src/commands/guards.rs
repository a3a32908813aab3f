//! `loopexec guards`: the protected surface as it stands in the caller's tree. Nothing is run.
//!
//! What a path is says `integrity::surface`; what a loop file adds, `run::surface`.

use super::Global;
use super::outcome::Outcome;
use super::planning::plan_for;
use super::run::opening::prefix_of;
use super::run::rules::{SurfaceRules, compiled};
use super::run::source::{Workflow, prepare};
use crate::config::spec::GuardsSpec;
use crate::domain::guard::BlockedPaths;
use crate::error::Result;
use crate::foreign::{self, Links};
use crate::integrity::surface::{Class, classify};
use crate::integrity::syntax::{self, Language};
use crate::report::text::clean;
use crate::workspace::paths;
use ignore::WalkBuilder;
use ignore::gitignore::Gitignore;
use serde_json::{Value, json};
use std::collections::BTreeMap;
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
    /// Patterns of the loop file that match no file, with their key.
    idle: Vec<String>,
}

/// The patterns of a loop file that have matched nothing yet.
struct Patterns(Vec<(String, Gitignore)>);

impl Patterns {
    fn new(guards: &GuardsSpec) -> Result<Self> {
        let lists = [
            ("guards.mutable", &guards.mutable),
            ("guards.protected.add", &guards.protected.add),
            ("guards.protected.remove", &guards.protected.remove),
        ];
        let all = lists.iter().flat_map(|(key, list)| list.iter().map(move |one| (key, one)));
        let each = all.filter(|(_, pattern)| !pattern.starts_with('!')).map(|(key, pattern)| {
            Ok((format!("{key}: {pattern}"), compiled(std::slice::from_ref(pattern))?))
        });
        each.collect::<Result<_>>().map(Self)
    }

    fn see(&mut self, path: &Path) {
        self.0.retain(|(_, own)| !own.matched_path_or_any_parents(path, false).is_ignore());
    }

    fn names(self) -> Vec<String> {
        self.0.into_iter().map(|(name, _)| name).collect()
    }
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
    let mut idle = Patterns::new(&resolved.spec.guards)?;
    let mut surface = read_surface(&ready.caller.root, &rules, &blocked, &mut idle);
    surface.idle = idle.names();
    let counted: usize = surface.tests.values().flatten().sum();
    let uncounted = surface.tests.values().filter(|count| count.is_none()).count();
    let mut text = format!("test surface of {}\n", clean(&ready.caller.root.to_string_lossy()));
    let tests: Vec<String> = surface.tests.keys().cloned().collect();
    let counted = format!("{counted} {}", if counted == 1 { "test" } else { "tests" });
    let about = match (tests.len(), uncounted) {
        (0, _) => "none".to_owned(),
        (_, 0) => format!("{counted} in {}", files(&tests)),
        (_, n) => format!("{counted} in {}, {n} of them not readable as source", files(&tests)),
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
    for idle in &surface.idle {
        text.push_str(&format!("  {} matches no file that is here\n", clean(idle)));
    }
    text.push_str("Settings that are not there now and appear are guarded too. A green counts only with the tests, support files and fixtures as they are now.\n");
    let guards = &plan.guards;
    let surface = json!({
        "tests": surface.tests.iter().map(|(path, count)| json!({"path": path, "tests": count})).collect::<Vec<_>>(),
        "support": surface.support,
        "fixtures": surface.fixtures,
        "settings": surface.settings,
        "blocked": surface.blocked,
        "mutable": surface.mutable,
        "idle": surface.idle,
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
fn read_surface(
    root: &Path,
    rules: &SurfaceRules,
    blocked: &BlockedPaths,
    idle: &mut Patterns,
) -> Surface {
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
        idle.see(inside);
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
    let text = foreign::read(file, Links::Refuse, MOST_BYTES).ok()?;
    let scan = syntax::scan(language, &text)?;
    (!scan.broken).then_some(scan.items.len())
}
