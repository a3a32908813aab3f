//! Says of a path what part it plays in what decides the tests; which names count as settings is
//! `settings`' duty, which installed trees belong to a runner `trees`'.
//!
//! Only names are looked at: nothing here opens a file, and a name alone never accuses.

mod settings;
mod trees;

pub use settings::hidden_settings;
pub use trees::is_runner_tree;

/// What a file is to the tests; the order is the order in which the rules are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Configuration of a runner, a build, a dependency set or an interpreter.
    Settings,
    /// Holds tests by the naming rules of some runner.
    Test,
    /// Code that only tests use.
    Support,
    /// Data that only tests read: inputs, golden files, snapshots, recordings.
    Fixture,
    /// The rest.
    Source,
}

/// Folders whose whole content is test data, wherever they stand.
const DATA_FOLDERS: &[&str] = &[
    "testdata",
    "test_data",
    "test-data",
    "fixtures",
    "__fixtures__",
    "__snapshots__",
    "snapshots",
    "golden",
    "goldens",
    "cassettes",
    "expected",
];

/// Those of [`DATA_FOLDERS`] that name nothing else in any trade: code in them is the tests' own.
const ONLY_TESTS_USE: &[&str] =
    &["testdata", "test_data", "test-data", "__fixtures__", "__snapshots__", "golden", "goldens"];

const CODE: &[&str] = &[
    "py", "pyi", "rs", "go", "js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts", "java", "kt",
    "kts", "scala", "groovy", "rb", "php", "phpt", "c", "cc", "cpp", "cxx", "h", "hh", "hpp",
    "hxx", "cs", "fs", "vb", "swift", "m", "mm", "sh", "bash", "zsh", "fish", "bats", "pl", "pm",
    "t", "lua", "ex", "exs", "erl", "hs", "clj", "cljs", "dart", "jl", "r", "zig", "nim", "vue",
    "svelte", "ps1",
];

const JS: &[&str] = &["js", "jsx", "mjs", "cjs", "ts", "tsx", "mts", "cts"];

/// Says what the file at `path` is: from the root, separated by `/`.
pub fn classify(path: &str) -> Class {
    let path = path.strip_prefix("./").unwrap_or(path);
    let (folders, name) = match path.rsplit_once('/') {
        Some((folders, name)) => (folders, name),
        None => ("", path),
    };
    let folders: Vec<&str> = folders.split('/').filter(|folder| !folder.is_empty()).collect();
    if name.is_empty() || trees::is_installed(&folders) {
        return Class::Source;
    }
    if settings::is_settings(&folders, name) {
        return Class::Settings;
    }
    let extension = match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => extension,
        _ => "",
    };
    let code = CODE.contains(&extension);
    if code && holds_tests(&folders, name, extension) {
        return Class::Test;
    }
    let data_folder = folders.iter().any(|folder| DATA_FOLDERS.contains(folder));
    let own = folders.iter().any(|folder| ONLY_TESTS_USE.contains(folder));
    let test_folder = folders.iter().any(|folder| is_test_folder(folder));
    if code {
        return if test_folder || own { Class::Support } else { Class::Source };
    }
    if is_litter(name) {
        return Class::Source;
    }
    if data_folder || is_golden(name, extension) {
        return Class::Fixture;
    }
    if is_document(&folders, name, extension) {
        return Class::Source;
    }
    if test_folder && !only_specification(&folders) { Class::Fixture } else { Class::Source }
}

/// Folders that hold tests by habit of some language.
fn is_test_folder(folder: &str) -> bool {
    matches!(folder, "tests" | "test" | "spec" | "specs" | "__tests__" | "__mocks__")
        || matches!(folder, "androidTest" | "integrationTest" | "testFixtures" | "functionalTest")
        || [".Tests", ".Test", ".UnitTests", ".IntegrationTests"]
            .iter()
            .any(|ending| folder.ends_with(ending))
}

/// A `spec` folder may hold the specification of an API: data there is a fixture only below a
/// folder that says so.
fn only_specification(folders: &[&str]) -> bool {
    let firm =
        folders.iter().any(|folder| is_test_folder(folder) && !matches!(*folder, "spec" | "specs"));
    let said = folders.iter().any(|folder| {
        matches!(*folder, "data" | "support" | "files" | "factories" | "fixture" | "mocks")
    });
    !firm && !said
}

fn is_golden(name: &str, extension: &str) -> bool {
    matches!(extension, "snap" | "golden" | "ambr")
        || name.contains(".approved.")
        || ["expected", "golden"]
            .iter()
            .any(|word| name.split(['.', '-', '_']).any(|part| part == *word))
        || name.ends_with(".snap.new")
}

/// What tools and editors leave behind and no test reads.
fn is_litter(name: &str) -> bool {
    matches!(name, ".gitignore" | ".gitkeep" | ".keep" | ".DS_Store" | ".editorconfig")
        || name.ends_with(".swp")
        || name.ends_with('~')
        || name.ends_with(".pyc")
}

fn is_document(folders: &[&str], name: &str, extension: &str) -> bool {
    matches!(extension, "md" | "rst" | "adoc" | "mdx")
        || name.starts_with("README")
        || name.starts_with("CHANGELOG")
        || name.starts_with("LICENSE")
        || folders.first().is_some_and(|folder| matches!(*folder, "docs" | "doc"))
}

/// Names by which a file in a test folder says that it only helps.
fn helps(stem: &str) -> bool {
    let stem = stem.to_ascii_lowercase();
    ["helper", "setup", "util", "fixture", "mock", "support", "common", "config", "global"]
        .iter()
        .any(|word| stem.contains(word))
}

fn holds_tests(folders: &[&str], name: &str, extension: &str) -> bool {
    let stem = name.strip_suffix(extension).and_then(|s| s.strip_suffix('.')).unwrap_or(name);
    let parent = folders.last().copied().unwrap_or("");
    let within = |wanted: &str| folders.contains(&wanted);
    let in_tests = folders.iter().any(|folder| is_test_folder(folder));
    match extension {
        "py" => stem.starts_with("test_") || stem.ends_with("_test") || stem == "tests",
        "go" => stem.ends_with("_test"),
        _ if JS.contains(&extension) => {
            let named = |word: &str| {
                stem.strip_suffix(word)
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with(['.', '-', '_']))
            };
            named("test")
                || named("spec")
                || named("cy")
                || named("e2e")
                || stem.ends_with("Spec")
                || stem.starts_with("test-")
                || stem.starts_with("test_")
                || (within("__tests__") && !within("__mocks__") && !helps(stem))
                // mocha and node take every script of a `test` folder.
                || (within("test") && !within("fixtures") && !helps(stem))
        }
        "rb" => {
            stem.ends_with("_spec")
                || stem.ends_with("_test")
                || (stem.starts_with("test_") && in_tests)
        }
        "php" => stem.ends_with("Test") || stem.ends_with("Cest"),
        "phpt" | "bats" => true,
        "t" => within("t"),
        "java" | "kt" | "groovy" | "scala" => {
            let place = folders
                .iter()
                .any(|folder| *folder == "test" || *folder == "tests" || folder.ends_with("Test"));
            place
                && (["Test", "Tests", "IT", "TestCase", "Spec", "Suite"]
                    .iter()
                    .any(|ending| stem.ends_with(ending))
                    || stem.starts_with("Test"))
        }
        "cs" | "fs" | "vb" => stem.ends_with("Tests") || stem.ends_with("Test"),
        "rs" => {
            matches!(stem, "tests" | "test" | "test_suite")
                || stem.ends_with("_test")
                || stem.ends_with("_tests")
                || (parent == "tests" && stem != "mod")
                || (parent == "tests" && within("src"))
                || (stem == "main" && within("tests"))
        }
        "c" | "cc" | "cpp" | "cxx" | "m" | "mm" => {
            stem.ends_with("_test")
                || stem.ends_with("_tests")
                || stem.ends_with("_unittest")
                || stem.starts_with("test_")
                || stem.ends_with("Test")
                || stem.ends_with("Tests")
                || (in_tests && !helps(stem))
        }
        "sh" | "bash" | "zsh" => {
            stem.starts_with("test_")
                || stem.starts_with("test-")
                || stem.ends_with("_test")
                || stem.ends_with(".test")
        }
        "ex" | "exs" | "dart" | "clj" | "cljs" | "zig" | "lua" => {
            stem.ends_with("_test") || stem.ends_with("_spec")
        }
        "swift" => stem.ends_with("Tests") || stem.ends_with("Test"),
        "hs" => stem.ends_with("Spec") || stem.ends_with("Test"),
        "jl" => stem == "runtests",
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(class: Class, paths: &[&str]) {
        for path in paths {
            assert_eq!(classify(path), class, "{path}");
        }
    }

    #[test]
    fn names_of_every_runner_are_tests() {
        all(
            Class::Test,
            &[
                "tests/test_calc.py",
                "src/pkg/calc_test.py",
                "app/tests.py",
                "a_test.go",
                "src/a.test.ts",
                "src/a.spec.mjs",
                "src/__tests__/a.tsx",
                "test/a.js",
                "spec/models/user_spec.rb",
                "test/user_test.rb",
                "tests/CalcTest.php",
                "src/test/java/a/CalcTest.java",
                "src/test/java/a/CalcIT.java",
                "Calc.Tests/CalcTests.cs",
                "tests/cli.rs",
                "src/parse/tests.rs",
                "tests/cli/main.rs",
                "tests/calc.cpp",
                "src/calc_test.cc",
                "test/calc.bats",
                "t/basic.t",
            ],
        );
    }

    #[test]
    fn code_of_test_folders_supports_and_data_there_is_fixture() {
        all(
            Class::Support,
            &[
                "tests/helpers.py",
                "tests/common/mod.rs",
                "test/helper.js",
                "spec/support/db.rb",
                "testdata/prog/main.go",
                "tests/calc.h",
                "src/test/java/a/Builder.java",
                "src/__mocks__/fs.js",
            ],
        );
        all(
            Class::Fixture,
            &[
                "tests/data/add.json",
                "data/expected.json",
                "report-golden.txt",
                "testdata/a.txt",
                "src/__snapshots__/a.test.js.snap",
                "pkg/golden/a.md",
                "app/fixtures/users.json",
                "a.approved.txt",
                "spec/fixtures/a.yml",
                "spec/cassettes/a.yml",
            ],
        );
    }

    #[test]
    fn settings_are_named_wherever_they_stand() {
        all(
            Class::Settings,
            &[
                "conftest.py",
                "tests/conftest.py",
                "pyproject.toml",
                "pytest.py",
                "_pytest/reports.py",
                "Cargo.toml",
                "crates/a/Cargo.toml",
                ".cargo/config.toml",
                "rust-toolchain",
                ".config/nextest.toml",
                "package.json",
                ".npmrc",
                "tsconfig.build.json",
                "vitest.config.mts",
                "requirements-dev.txt",
                "requirements/test.txt",
                "go.mod",
                "pom.xml",
                ".mvn/maven.config",
                "gradle/wrapper/gradle-wrapper.properties",
                "spec/spec_helper.rb",
                "phpunit.xml.dist",
                "CMakeLists.txt",
                "cmake/tests.cmake",
                "GNUmakefile",
                "build/rules.mk",
                "Dockerfile.test",
                ".husky/pre-commit",
                ".gitattributes",
                "Directory.Build.props",
                "a/b.csproj",
                ".tool-versions",
            ],
        );
    }

    #[test]
    fn what_is_neither_stays_source() {
        all(
            Class::Source,
            &[
                "src/calc.py",
                "src/test_utils/mod.rs",
                "README.md",
                "tests/README.md",
                "tests/.gitignore",
                "src/fixtures/service.ts",
                "spec/openapi.yaml",
                "node_modules/jest/package.json",
                ".venv/lib/python3.11/site-packages/pytest/__init__.py",
                "target/debug/build/a/Cargo.toml",
                "vendor/a/Makefile",
                "Conftest.py",
                "docs/test/notes.txt",
                "src/coverage/mod.rs",
                "coverage/lcov.info",
                ".env",
                "data/config.json",
                "",
                "/",
            ],
        );
    }
}
