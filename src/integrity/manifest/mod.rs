//! Compares a setting of t0 with what it is now: only what determines tests counts, as parsed, so
//! that a formatter, a new script or an added dependency disturbs nobody.
//!
//! Each family of tools has its own file. Code among the settings is not judged here. Symbolic
//! links and modes are the caller's.

mod cargo;
mod cmake;
mod dotnet;
mod fixture;
mod golang;
mod ini;
mod jvm;
mod locks;
mod make;
mod node;
mod packages;
mod php;
mod plain;
mod pytest;
mod python;
mod ruby;
mod scripts;
mod tree;
mod tsconfig;
mod walk;

pub use fixture::compare_fixture;
pub(in crate::integrity) use tree::document;

use packages::Age;
use std::borrow::Cow;
use walk::Findings;

/// One test-determining value that is not what it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The keys from the top, joined by dots, such as `scripts.test`; `content` for a whole file.
    pub key: String,
    /// At most 120 characters on one line; `absent` where there was nothing.
    pub before: String,
    /// As `before`.
    pub after: String,
}

/// What a change of a setting means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judged {
    /// Nothing that determines tests differs.
    Same,
    /// Something differs that cannot make a red test green.
    Allowed(Vec<Difference>),
    /// The tests may now be decided by something else; only what breaches is listed.
    Breach(Vec<Difference>),
    /// Two different pieces of code, to be compared as code.
    Code,
}

/// Whether the task declares that this file may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mutable {
    /// It is judged.
    No,
    /// Dependencies may change, runners among them may not; other settings may change freely.
    Yes,
}

/// What a comparison is given: the name it depends on, and both states.
struct Pair<'a> {
    /// From the root, separated by `/`.
    path: &'a str,
    name: &'a str,
    before: Option<&'a [u8]>,
    after: Option<&'a [u8]>,
}

impl Pair<'_> {
    /// A manifest that came below the root was no t0 test's.
    fn age(&self) -> Age {
        if self.before.is_none() && self.path.contains('/') { Age::New } else { Age::Old }
    }
}

/// Compares a setting with its t0 state; `None` is a file that is not there.
///
/// A dependency manifest that is [`Mutable::Yes`] still has its other parts judged. What could be
/// read at t0 and no longer can is a breach of `content`; what never could is compared by bytes.
pub fn compare(
    path: &str,
    before: Option<&[u8]>,
    after: Option<&[u8]>,
    mutable: Mutable,
) -> Judged {
    if before == after {
        return Judged::Same;
    }
    // Line ends and a byte order mark are what an editor or a checkout makes of the same text.
    let (before, after) = (before.map(plain_text), after.map(plain_text));
    let (before, after) = (before.as_deref(), after.as_deref());
    if before == after {
        return Judged::Same;
    }
    let name = path.rsplit('/').next().unwrap_or(path);
    let pair = Pair { path, name, before, after };
    let mut findings = Findings::new(mutable);
    let family = family(path, name);
    let Family::Manifest(judge) = family else {
        let free = mutable == Mutable::Yes;
        return match family {
            Family::Code if !free => Judged::Code,
            Family::Setting(judge) if !free => {
                judge(&pair, &mut findings);
                findings.judged()
            }
            _ => {
                plain::whole(&pair, walk::Weight::Allowed, &mut findings);
                findings.judged()
            }
        };
    };
    judge(&pair, &mut findings);
    findings.judged()
}

/// Returns a text without carriage returns at line ends and without its byte order mark; what is no text stays.
fn plain_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if bytes.contains(&0) || !text.contains(&b'\r') {
        return Cow::Borrowed(if bytes.contains(&0) { bytes } else { text });
    }
    let mut plain = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => plain.extend_from_slice(&[line, b"\n"].concat()),
            None => plain.extend_from_slice(line),
        }
    }
    Cow::Owned(plain)
}

type Judge = fn(&Pair<'_>, &mut Findings);

/// How a setting is compared.
enum Family {
    /// States dependencies, perhaps among other things.
    Manifest(Judge),
    Setting(Judge),
    Code,
}

fn family(path: &str, name: &str) -> Family {
    use Family::{Code, Manifest, Setting};
    let parent = path.rsplit('/').nth(1).unwrap_or("");
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    match name {
        "Cargo.toml" => Manifest(cargo::manifest),
        "Cargo.lock" | "poetry.lock" | "uv.lock" | "pdm.lock" | "pylock.toml" => {
            Manifest(locks::toml_packages)
        }
        "package.json" => Manifest(node::package),
        "package-lock.json" | "npm-shrinkwrap.json" => Manifest(locks::npm),
        "yarn.lock" => Manifest(locks::yarn),
        "pnpm-lock.yaml" => Manifest(locks::pnpm),
        "pnpm-workspace.yaml" => Manifest(node::pnpm_workspace),
        "pyproject.toml" => Manifest(python::pyproject),
        "setup.cfg" => Manifest(python::setup_cfg),
        "Pipfile" => Manifest(python::pipfile),
        "Pipfile.lock" => Manifest(locks::pipfile),
        "go.mod" | "go.work" => Manifest(golang::modules),
        "go.sum" | "go.work.sum" => Manifest(golang::sums),
        "Gemfile" | "gems.rb" => Manifest(ruby::gemfile),
        "Gemfile.lock" | "gems.locked" => Manifest(locks::gems),
        "composer.json" => Manifest(php::composer),
        "composer.lock" => Manifest(locks::composer),
        "pom.xml" => Manifest(jvm::pom),
        "libs.versions.toml" => Manifest(jvm::catalogue),
        "packages.lock.json" => Manifest(locks::nuget),
        "tox.ini" | "tox.toml" | "pytest.ini" | ".pytest.ini" | ".coveragerc" | "pytest.toml"
        | ".pytest.toml" => Setting(python::runner_settings),
        "rust-toolchain" | "rust-toolchain.toml" => Setting(cargo::toolchain),
        "nextest.toml" => Setting(cargo::nextest),
        "config" | "config.toml" if parent == ".cargo" => Setting(cargo::config),
        ".npmrc" | ".yarnrc" | ".yarnrc.yml" => Setting(node::package_manager),
        ".rspec" | ".rspec-local" => Setting(ruby::rspec),
        "CMakeLists.txt" => Setting(cmake::lists),
        "Makefile" | "makefile" | "GNUmakefile" | "justfile" | "Justfile" | ".justfile" => {
            Setting(make::rules)
        }
        "mise.toml" | ".mise.toml" => Setting(make::mise),
        ".pre-commit-config.yaml" => Setting(make::pre_commit),
        ".gitattributes" => Setting(plain::gitattributes),
        ".python-version" | ".nvmrc" | ".node-version" | ".ruby-version" | ".tool-versions" => {
            Setting(plain::trimmed)
        }
        "global.json"
        | "CMakePresets.json"
        | "CMakeUserPresets.json"
        | "lefthook.yml"
        | ".lefthook.yml"
        | "bunfig.toml"
        | "uv.toml"
        | ".babelrc"
        | ".swcrc"
        | "jasmine.json" => Setting(plain::parsed),
        "conftest.py" | "noxfile.py" | "setup.py" | "sitecustomize.py" | "usercustomize.py"
        | "spec_helper.rb" | "rails_helper.rb" | "test_helper.rb" | "Rakefile" | "Pest.php"
        | "bootstrap.php" | ".pnpmfile.cjs" => Code,
        _ if name.eq_ignore_ascii_case("entry_points.txt") => Setting(python::entry_points),
        "__init__.py" if matches!(parent, "sitecustomize" | "usercustomize") => Code,
        _ if name.starts_with(".nycrc") || name.starts_with(".c8rc") => Setting(node::thresholds),
        _ if name.starts_with(".mocharc") || name.starts_with(".babelrc") => {
            if matches!(extension, "js" | "cjs" | "mjs") { Code } else { Setting(plain::parsed) }
        }
        _ if name.starts_with("tsconfig") && extension == "json" => Setting(tsconfig::compare),
        _ if name.starts_with("requirements")
            || name.starts_with("constraints")
            || (parent == "requirements" && matches!(extension, "txt" | "in")) =>
        {
            Manifest(python::requirements)
        }
        _ if name.starts_with("phpunit") => Setting(php::phpunit),
        _ if name.starts_with("Taskfile") => Setting(make::taskfile),
        _ if name.starts_with("Dockerfile")
            || name.ends_with(".Dockerfile")
            || name.starts_with("docker-compose")
            || name.starts_with("compose.") =>
        {
            Setting(plain::container)
        }
        _ if path.starts_with(".husky/") => Setting(plain::hook),
        _ if name.starts_with("Directory.") => Manifest(dotnet::project),
        _ => match extension {
            "cmake" => Setting(cmake::lists),
            "mk" => Setting(make::rules),
            "gradle" => Manifest(jvm::gradle),
            "kts" if stem.ends_with(".gradle") => Manifest(jvm::gradle),
            "csproj" | "fsproj" | "vbproj" => Manifest(dotnet::project),
            "runsettings" => Setting(plain::parsed),
            "py" | "js" | "cjs" | "mjs" | "ts" | "cts" | "mts" => Code,
            "json" if name.contains(".config.") => Setting(plain::parsed),
            _ => Setting(plain::raw),
        },
    }
}

#[cfg(test)]
mod tests;
