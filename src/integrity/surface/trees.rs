//! Trees of installed or built files: none of them is a setting, some of them belong to a runner.

/// Folders of installed packages and build products, at any depth.
const INSTALLED: &[&str] = &[
    "node_modules",
    "bower_components",
    ".venv",
    "venv",
    "site-packages",
    "dist-packages",
    ".tox",
    ".nox",
    ".git",
    ".gradle",
    ".bundle",
    ".pytest_cache",
    "__pycache__",
    ".mypy_cache",
    ".loopexec",
];

/// Says whether a file below these folders was put there by an installer or a build.
pub(super) fn is_installed(folders: &[&str]) -> bool {
    folders.iter().any(|folder| INSTALLED.contains(folder))
        || folders.first().is_some_and(|folder| matches!(*folder, "target" | "vendor"))
        || folders
            .windows(2)
            .any(|pair| pair[0] == "target" && matches!(pair[1], "debug" | "release" | "classes"))
}

const NODE: &[&str] = &[
    "ava",
    "c8",
    "chai",
    "cypress",
    "expect",
    "jasmine",
    "jasmine-core",
    "karma",
    "mocha",
    "nyc",
    "power-assert",
    "should",
    "sinon",
    "supertest",
    "tap",
    "tape",
    "ts-jest",
    "tsx",
    "ts-node",
    "typescript",
    "uvu",
    "vitest",
    "babel-jest",
];

const NODE_SCOPES: &[&str] = &["@jest", "@vitest", "@playwright", "@testing-library", "@sinonjs"];

const PYTHON: &[&str] = &[
    "pytest",
    "_pytest",
    "pluggy",
    "iniconfig",
    "coverage",
    "unittest",
    "nose",
    "nose2",
    "xdist",
    "hypothesis",
    "mock",
    "py",
    "tox",
    "nox",
];

const EXECUTABLES: &[&str] = &[
    "pytest", "py.test", "python", "python3", "coverage", "tox", "nox", "jest", "vitest", "mocha",
    "rspec", "phpunit", "pest", "bats", "node", "npm",
];

/// Says whether an ignored path is part of an installed test runner or assertion library.
///
/// It explains why an overlay is red where the workspace is green; it accuses of nothing.
pub fn is_runner_tree(path: &str) -> bool {
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    let Some(name) = parts.last().copied() else { return false };
    let starts_along = |name: &str| matches!(name, "sitecustomize" | "usercustomize");
    if starts_along(name.strip_suffix(".py").unwrap_or(name)) || name.ends_with(".pth") {
        return true;
    }
    if parts.iter().rev().skip(1).any(|folder| starts_along(folder)) {
        return true;
    }
    let after = |folder: &str| parts.iter().rposition(|part| *part == folder).map(|at| at + 1);
    if let Some(at) = after("node_modules") {
        return parts.get(at).is_some_and(|package| {
            *package == ".bin"
                || NODE.contains(package)
                || package.starts_with("jest")
                || NODE_SCOPES.contains(package)
        });
    }
    if let Some(at) = after("site-packages").or_else(|| after("dist-packages")) {
        return parts.get(at).is_some_and(|package| {
            let package = package.strip_suffix(".py").unwrap_or(package);
            PYTHON.contains(&package)
                || package.starts_with("pytest_")
                || package.starts_with("pytest-")
                || package.starts_with("_pytest")
        });
    }
    let in_folder = |folder: &str| parts.len() > 1 && parts[parts.len() - 2] == folder;
    if (in_folder("bin") || in_folder("Scripts"))
        && EXECUTABLES.contains(&name.strip_suffix(".exe").unwrap_or(name))
    {
        return true;
    }
    if let Some(at) = after("vendor") {
        let rest = parts[at..].join("/");
        return rest.starts_with("phpunit/")
            || rest.starts_with("pestphp/")
            || rest.starts_with("sebastian/")
            || rest.starts_with("github.com/stretchr/testify/")
            || rest.starts_with("github.com/onsi/")
            || rest.contains("/rspec-")
            || rest.contains("/minitest-");
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runners_and_assertion_libraries_are_told_from_other_packages() {
        for path in [
            "node_modules/expect/build/index.js",
            "node_modules/jest-circus/index.js",
            "node_modules/@vitest/runner/dist/index.js",
            "node_modules/.bin/jest",
            ".venv/lib/python3.11/site-packages/_pytest/reports.py",
            ".venv/lib/python3.11/site-packages/x.pth",
            ".venv/bin/pytest",
            "vendor/phpunit/phpunit/src/Framework/Assert.php",
            "vendor/bundle/ruby/3.1.0/gems/rspec-core-3.12/lib/rspec.rb",
        ] {
            assert!(is_runner_tree(path), "{path}");
        }
        for path in [
            "node_modules/left-pad/index.js",
            ".venv/lib/python3.11/site-packages/requests/api.py",
            "node_modules/a/node_modules/b/x.js",
            "vendor/github.com/pkg/errors/errors.go",
            "src/bin/main.rs",
            "",
        ] {
            assert!(!is_runner_tree(path), "{path}");
        }
    }
}
