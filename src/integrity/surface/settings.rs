//! The names of files that configure runners, builds, dependencies and interpreters, present or
//! not when the run begins.

/// Exact names, in any folder.
const NAMES: &[&str] = &[
    // Python
    "conftest.py",
    "pytest.ini",
    ".pytest.ini",
    "pytest.toml",
    ".pytest.toml",
    "pyproject.toml",
    "tox.ini",
    "tox.toml",
    "setup.cfg",
    "setup.py",
    "noxfile.py",
    ".coveragerc",
    "sitecustomize.py",
    "usercustomize.py",
    ".python-version",
    "constraints.txt",
    "Pipfile",
    "Pipfile.lock",
    "poetry.lock",
    "uv.lock",
    "uv.toml",
    "pdm.lock",
    "pylock.toml",
    // Rust
    "Cargo.toml",
    "Cargo.lock",
    "rust-toolchain",
    "rust-toolchain.toml",
    "nextest.toml",
    // JavaScript and TypeScript
    "package.json",
    "package-lock.json",
    "npm-shrinkwrap.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "bun.lock",
    "bun.lockb",
    "bunfig.toml",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pnpmfile.cjs",
    "pnpm-workspace.yaml",
    "jasmine.json",
    ".babelrc",
    ".swcrc",
    ".nycrc",
    ".c8rc",
    ".nvmrc",
    ".node-version",
    // Go
    "go.mod",
    "go.sum",
    "go.work",
    "go.work.sum",
    // Java virtual machine
    "pom.xml",
    "gradlew",
    "gradlew.bat",
    "mvnw",
    "mvnw.cmd",
    "gradle.properties",
    "gradle.lockfile",
    "libs.versions.toml",
    // Ruby
    ".rspec",
    ".rspec-local",
    "spec_helper.rb",
    "rails_helper.rb",
    "test_helper.rb",
    "Gemfile",
    "Gemfile.lock",
    "gems.rb",
    "gems.locked",
    "Rakefile",
    ".ruby-version",
    // PHP
    "composer.json",
    "composer.lock",
    "Pest.php",
    // C and C++
    "CMakeLists.txt",
    "CMakePresets.json",
    "CMakeUserPresets.json",
    "CTestConfig.cmake",
    // .NET
    "global.json",
    "NuGet.config",
    "nuget.config",
    "packages.lock.json",
    "Directory.Build.props",
    "Directory.Build.targets",
    "Directory.Build.rsp",
    "Directory.Packages.props",
    // Any
    "Makefile",
    "makefile",
    "GNUmakefile",
    "justfile",
    "Justfile",
    ".justfile",
    ".tool-versions",
    "mise.toml",
    ".mise.toml",
    ".pre-commit-config.yaml",
    "lefthook.yml",
    ".lefthook.yml",
    ".gitattributes",
    ".gitlab-ci.yml",
    ".travis.yml",
    "Jenkinsfile",
    "azure-pipelines.yml",
    "bitbucket-pipelines.yml",
];

/// Beginnings and endings that make a name a setting.
const SHAPES: &[(&str, &str)] = &[
    ("requirements", ".txt"),
    ("requirements", ".in"),
    ("constraints", ".txt"),
    ("", ".pth"),
    ("tsconfig", ".json"),
    ("phpunit", ".xml"),
    ("phpunit", ".xml.dist"),
    (".mocharc", ""),
    (".nycrc", ""),
    (".c8rc", ""),
    (".babelrc", ""),
    ("", ".cmake"),
    ("", ".mk"),
    ("Dockerfile", ""),
    ("", ".Dockerfile"),
    ("docker-compose", ".yml"),
    ("docker-compose", ".yaml"),
    ("compose", ".yml"),
    ("compose", ".yaml"),
    ("Taskfile", ".yml"),
    ("Taskfile", ".yaml"),
    ("", ".gradle"),
    ("", ".gradle.kts"),
    ("", ".runsettings"),
    ("", ".csproj"),
    ("", ".fsproj"),
    ("", ".vbproj"),
];

/// Tools whose configuration is `NAME.config.EXTENSION`.
const CONFIGURED: &[&str] = &[
    "jest",
    "vitest",
    "vite",
    "babel",
    "playwright",
    "cypress",
    "ava",
    "karma",
    "nyc",
    "webpack",
    "rollup",
    "wdio",
];

/// Modules that stand in for a runner when they lie where Python looks first.
const SHADOWS: &[&str] =
    &["pytest.py", "unittest.py", "coverage.py", "pluggy.py", "iniconfig.py", "py.py"];

/// Packages of the same kind.
const SHADOW_PACKAGES: &[&str] = &["pytest", "unittest", "coverage", "pluggy", "iniconfig"];

/// Says whether a file is a setting.
pub(super) fn is_settings(folders: &[&str], name: &str) -> bool {
    let parent = folders.last().copied().unwrap_or("");
    let first = folders.first().copied().unwrap_or("");
    if NAMES.contains(&name) || is_shaped(name) || is_tool_configuration(name) {
        return true;
    }
    if folders.is_empty() && SHADOWS.contains(&name) {
        return true;
    }
    if folders.len() == 1 && SHADOW_PACKAGES.contains(&first) && name == "__init__.py" {
        return true;
    }
    // A package of that name starts with the interpreter as the module does.
    if name == "__init__.py" && matches!(parent, "sitecustomize" | "usercustomize") {
        return true;
    }
    // Metadata that lies beside the code is read as that of an installed package.
    if is_metadata(parent) && name.eq_ignore_ascii_case("entry_points.txt") {
        return true;
    }
    match first {
        "_pytest" => return name.ends_with(".py"),
        ".mvn" | ".husky" | ".circleci" => return true,
        ".github" => {
            return matches!(folders.get(1).copied(), Some("workflows" | "actions"));
        }
        _ => {}
    }
    match parent {
        ".cargo" => matches!(name, "config" | "config.toml"),
        "requirements" => name.ends_with(".txt") || name.ends_with(".in"),
        "wrapper" => folders.len() >= 2 && folders[folders.len() - 2] == "gradle",
        "tests" | "test" => name == "bootstrap.php",
        "mise" => name == "config.toml" && folders.contains(&".config"),
        _ => false,
    }
}

/// Says whether a folder describes an installed package; Python's finders look at the ending without case.
fn is_metadata(folder: &str) -> bool {
    let folder = folder.to_ascii_lowercase();
    folder.ends_with(".dist-info") || folder.ends_with(".egg-info")
}

fn is_shaped(name: &str) -> bool {
    SHAPES.iter().any(|(start, end)| {
        name.len() >= start.len() + end.len()
            && name.starts_with(start)
            && name.ends_with(end)
            && (!end.is_empty() || is_variant(&name[start.len()..]))
            // A module `tsconfig-paths.json` or `composed.yml` is none of these.
            && (start.is_empty()
                || end.is_empty()
                || is_variant(&name[start.len()..name.len() - end.len()]))
    })
}

/// What may follow a tool's name within a file name: nothing, or a part set off from it.
fn is_variant(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with(['.', '-', '_']) || !rest.starts_with(char::is_alphabetic)
}

fn is_tool_configuration(name: &str) -> bool {
    let Some((tool, rest)) = name.split_once('.') else { return false };
    let script =
        |extension: &str| matches!(extension, "js" | "cjs" | "mjs" | "ts" | "cts" | "mts" | "json");
    if tool == "karma" && rest.starts_with("conf.") {
        return true;
    }
    if tool == "vitest" && rest.starts_with("workspace.") {
        return true;
    }
    // `jest.config.unit.js` counts as `jest.config.js` does.
    CONFIGURED.contains(&tool)
        && rest.starts_with("config.")
        && rest.rsplit('.').next().is_some_and(script)
        || (tool == "jest" && rest.starts_with("setup."))
}

/// Returns gitignore patterns of settings that are watched even where git ignores them.
///
/// Later patterns win: the last ones take out what installers and builds write, for putting a
/// package in its place is honest.
pub fn hidden_settings() -> Vec<String> {
    let mut patterns: Vec<String> = [
        "conftest.py",
        "sitecustomize.py",
        "usercustomize.py",
        "sitecustomize/__init__.py",
        "usercustomize/__init__.py",
        "*.pth",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "setup.cfg",
        ".coveragerc",
        ".python-version",
        "/pytest.py",
        "/unittest.py",
        "/coverage.py",
        "/pluggy.py",
        "/_pytest/**",
        ".cargo/config",
        ".cargo/config.toml",
        "rust-toolchain",
        "rust-toolchain.toml",
        ".config/nextest.toml",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pnpmfile.cjs",
        "jest.config.*",
        "vitest.config.*",
        "vitest.workspace.*",
        "babel.config.*",
        ".babelrc*",
        ".mocharc*",
        ".nycrc*",
        ".c8rc*",
        ".nvmrc",
        ".node-version",
        "go.work",
        ".mvn/**",
        "gradle.properties",
        ".rspec",
        ".rspec-local",
        ".ruby-version",
        "phpunit.xml",
        "CMakeUserPresets.json",
        "Directory.Build.*",
        "*.runsettings",
        "GNUmakefile",
        "makefile",
        ".tool-versions",
        "mise.toml",
        ".mise.toml",
        "mise.local.toml",
        "docker-compose.override.y*ml",
        "compose.override.y*ml",
    ]
    .iter()
    .map(ToString::to_string)
    .collect();
    for tree in [
        "node_modules",
        "bower_components",
        ".venv",
        "venv",
        "site-packages",
        "dist-packages",
        ".tox",
        ".nox",
        ".git",
        ".bundle",
        ".loopexec",
    ] {
        patterns.push(format!("!**/{tree}/**"));
    }
    for tree in ["target", "vendor"] {
        patterns.push(format!("!/{tree}/**"));
    }
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_only_begin_alike_are_no_settings() {
        for name in
            ["composed.yml", "tsconfigs.json", "requirementsdoc.txt", "compose.rs", "jest.md"]
        {
            assert!(!is_settings(&[], name), "{name}");
        }
        for name in ["compose.yml", "requirements_dev.txt", "jest.config.unit.ts", "Dockerfile"] {
            assert!(is_settings(&[], name), "{name}");
        }
        assert!(!is_settings(&["src"], "pytest.py"));
        assert!(!is_settings(&["coverage"], "index.html"));
    }

    #[test]
    fn hidden_settings_leave_installed_packages_alone() {
        let patterns = hidden_settings();
        assert!(patterns.contains(&".npmrc".to_owned()));
        let first = patterns.iter().position(|pattern| pattern.starts_with('!')).unwrap();
        assert!(patterns[first..].iter().all(|pattern| pattern.starts_with('!')));
        assert!(patterns.contains(&"!**/node_modules/**".to_owned()));
    }
}
