//! Paths no exec may touch: the default table, and how a loop amends it.
//!
//! Matching them is the duty of `workspace`; which scripts a command names that of `script`.

use super::kind::Val;
use super::script::script_paths;
use super::spec::GuardsSpec;
use crate::domain::command::CommandSpec;

/// The default patterns in gitignore syntax, from the workspace's root, and what each protects.
///
/// `.git/config*` is judged by key, not by file: what runs a program, includes, redirects or filters is
/// blocked, while `user.*`, `branch.*` and `remote.*` are the agent's. CI definitions are where the
/// platforms look for them, by their own documentation.
pub const DEFAULT_BLOCKED: &[(&str, &str)] = &[
    (".git/config*", "git: configuration, judged by key"),
    (".git/hooks/**", "git: programs that git runs"),
    (".git/info/**", "git: attributes and excludes"),
    ("!.git/info/refs", "git: written by git itself"),
    (".git/objects/info/alternates", "git: objects from elsewhere"),
    (".env*", "secrets"),
    ("!.env.example", "secrets: a sample without values"),
    ("!.env.sample", "secrets: a sample without values"),
    ("!.env.template", "secrets: a sample without values"),
    ("infra/**", "infrastructure"),
    (".github/workflows/**", "CI: GitHub"),
    (".github/actions/**", "CI: GitHub"),
    ("/.gitlab-ci.yml", "CI: GitLab"),
    (".gitlab/ci/**", "CI: GitLab"),
    ("/.buildkite/**", "CI: Buildkite"),
    ("/azure-pipelines*.yml", "CI: Azure"),
    ("/azure-pipelines*.yaml", "CI: Azure"),
    ("/.azure-pipelines/**", "CI: Azure"),
    ("/.teamcity/**", "CI: TeamCity"),
    ("/Jenkinsfile*", "CI: Jenkins"),
    ("/.circleci/**", "CI: CircleCI"),
    ("/bitbucket-pipelines.yml", "CI: Bitbucket"),
];

/// What no exec may touch, before the loop file is added.
pub(crate) struct Blocked {
    /// Patterns in gitignore syntax.
    pub(crate) paths: Vec<String>,
    /// Files relative to the folder the run was started in.
    pub(crate) files: Vec<String>,
}

/// Resolves `guards.blocked_paths`: a list replaces everything, an amendment adds and removes.
/// `deciding` are the commands that a verdict hangs on: their scripts are blocked.
pub(crate) fn resolve<'a>(
    setting: Option<&Val>,
    deciding: impl Iterator<Item = &'a CommandSpec>,
    warnings: &mut Vec<String>,
) -> Blocked {
    if let Some(Val::Texts(list)) = setting {
        return Blocked { paths: list.clone(), files: Vec::new() };
    }
    let mut files: Vec<String> = Vec::new();
    for script in deciding.flat_map(script_paths) {
        if !files.contains(&script) {
            files.push(script);
        }
    }
    let paths = DEFAULT_BLOCKED.iter().map(|(pattern, _)| (*pattern).to_owned()).collect();
    let mut blocked = Blocked { paths, files };
    if let Some(Val::Amend { add, remove }) = setting {
        for pattern in remove {
            let before = blocked.paths.len() + blocked.files.len();
            blocked.paths.retain(|known| bare(known) != bare(pattern));
            blocked.files.retain(|known| bare(known) != bare(pattern));
            // The loop file is added later, and only if it is not removed here.
            let is_loop_file = super::search::NAMES.iter().any(|name| bare(name) == bare(pattern));
            if before == blocked.paths.len() + blocked.files.len() && !is_loop_file {
                warnings.push(format!(
                    "`guards.blocked_paths` removes {}, which is not in the list",
                    super::diagnostic::quote(pattern)
                ));
            }
        }
        blocked.paths.extend(add.iter().cloned());
    }
    blocked
}

/// Says whether a loop file is blocked: not where a list replaced the patterns or an amendment removes it.
fn is_kept(setting: Option<&Val>, file: &str) -> bool {
    match setting {
        Some(Val::Texts(_)) => false,
        Some(Val::Amend { remove, .. }) => {
            !remove.iter().any(|pattern| bare(pattern) == bare(file))
        }
        _ => true,
    }
}

/// Adds the loop file to the blocked files, unless a list replaced them or an amendment removes it;
/// gives what was added.
pub(crate) fn add_loop_file(
    guards: &mut GuardsSpec,
    setting: Option<&Val>,
    file: &str,
) -> Option<String> {
    let added = is_kept(setting, file)
        && !guards.blocked_files.iter().any(|known| bare(known) == bare(file));
    added.then(|| {
        guards.blocked_files.push(bare(file).to_owned());
        bare(file).to_owned()
    })
}

/// Adds a loop file that lies in the tree but outside of the folder the run was started in; `file` is
/// relative to the root. Gives the pattern that was added.
pub(crate) fn add_loop_pattern(
    guards: &mut GuardsSpec,
    setting: Option<&Val>,
    file: &str,
) -> Option<String> {
    is_kept(setting, file).then(|| {
        let mut pattern = String::from("/");
        for c in bare(file).chars() {
            if matches!(c, '*' | '?' | '[' | ']' | '\\' | '!' | '#' | ' ') {
                pattern.push('\\');
            }
            pattern.push(c);
        }
        guards.blocked_paths.push(pattern.clone());
        pattern
    })
}

/// Returns a path without what anchors it.
fn bare(path: &str) -> &str {
    let path = path.strip_prefix("./").unwrap_or(path);
    path.strip_prefix('/').unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ignore::gitignore::GitignoreBuilder;

    /// Every default says what it should of a path, read by the very matcher that git's rules are read with.
    #[test]
    fn defaults_block_what_the_contract_names_and_nothing_beside_it() -> Result<(), ignore::Error> {
        let mut builder = GitignoreBuilder::new("/w");
        for (pattern, _) in DEFAULT_BLOCKED {
            builder.add_line(None, pattern)?;
        }
        let matcher = builder.build()?;
        let blocked = |path: &str| {
            matcher.matched_path_or_any_parents(format!("/w/{path}"), false).is_ignore()
        };
        for path in [
            ".git/config",
            ".git/hooks/pre-commit",
            ".git/info/exclude",
            ".git/objects/info/alternates",
            ".env",
            ".env.local",
            "pkg/.env",
            "infra/main.tf",
            "infra/a/b.tf",
            ".github/workflows/ci.yml",
            ".gitlab-ci.yml",
            ".buildkite/pipeline.yml",
            "azure-pipelines.yml",
            "azure-pipelines-nightly.yml",
            ".teamcity/settings.kts",
            "Jenkinsfile",
            ".circleci/config.yml",
            "bitbucket-pipelines.yml",
        ] {
            assert!(blocked(path), "{path} should be blocked");
        }
        for path in [
            ".git/index",
            ".git/refs/heads/main",
            ".git/info/refs",
            ".env.example",
            ".env.sample",
            "a/.env.template",
            "src/infra/x.rs",
            "src/main.rs",
            "tests/fixtures/.gitlab-ci.yml",
            ".github/CODEOWNERS",
            "environment.py",
        ] {
            assert!(!blocked(path), "{path} should not be blocked");
        }
        Ok(())
    }
}
