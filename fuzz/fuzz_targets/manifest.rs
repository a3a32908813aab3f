//! Feeds two texts to the comparison of settings and of fixtures, the name chosen by the first byte: it must
//! not panic, says nothing of what is equal whichever came first, and what it tells stays short.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopexec::integrity::manifest::{Difference, Judged, Mutable, compare, compare_fixture};

/// A name for every reader, and for the shapes that one reader tells apart.
const NAMES: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "package.json",
    "package-lock.json",
    "yarn.lock",
    "pnpm-lock.yaml",
    "pnpm-workspace.yaml",
    "pyproject.toml",
    "setup.cfg",
    "Pipfile",
    "Pipfile.lock",
    "go.mod",
    "go.sum",
    "Gemfile",
    "Gemfile.lock",
    "composer.json",
    "composer.lock",
    "pom.xml",
    "gradle/libs.versions.toml",
    "packages.lock.json",
    "tox.ini",
    "tox.toml",
    "pytest.ini",
    "pytest.toml",
    "a-1.0.dist-info/entry_points.txt",
    ".coveragerc",
    "rust-toolchain",
    "rust-toolchain.toml",
    ".config/nextest.toml",
    ".cargo/config.toml",
    ".npmrc",
    ".yarnrc.yml",
    ".rspec",
    "CMakeLists.txt",
    "Makefile",
    "justfile",
    "mise.toml",
    ".pre-commit-config.yaml",
    ".gitattributes",
    ".nvmrc",
    "global.json",
    "lefthook.yml",
    "bunfig.toml",
    "conftest.py",
    ".nycrc.yml",
    ".mocharc.json",
    "tsconfig.json",
    "requirements.txt",
    "a/requirements.txt",
    "phpunit.xml",
    "Taskfile.yml",
    "Dockerfile",
    "docker-compose.yml",
    ".husky/pre-commit",
    "Directory.Packages.props",
    "a.cmake",
    "build.gradle",
    "build.gradle.kts",
    "a.csproj",
    "a.runsettings",
    "jest.config.json",
    "tests/data/a.json",
    "tests/data/a.toml",
    "tests/data/a.yml",
    "tests/data/a.xml",
    "tests/data/a.golden",
];

fn told(judged: &Judged) -> &[Difference] {
    match judged {
        Judged::Same | Judged::Code => &[],
        Judged::Allowed(list) | Judged::Breach(list) => {
            assert!(!list.is_empty());
            list
        }
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    let name = NAMES[usize::from(*which) % NAMES.len()];
    // A text that a formatter could have made of the first is near it: one byte tells where they part.
    let Some((cut, bytes)) = bytes.split_first() else { return };
    let (before, after) = bytes.split_at(bytes.len() * usize::from(*cut) / 255);
    for mutable in [Mutable::No, Mutable::Yes] {
        for then in [None, Some(before), Some(after)] {
            assert_eq!(compare(name, then, then, mutable), Judged::Same);
            for now in [None, Some(before), Some(after), Some(bytes)] {
                let judged = compare(name, then, now, mutable);
                for difference in told(&judged) {
                    for side in [&difference.before, &difference.after] {
                        assert!(side.chars().count() <= 120 && !side.contains('\n'), "{side}");
                    }
                }
            }
        }
    }
    for (then, now) in [(before, after), (bytes, before), (before, bytes)] {
        let judged = compare_fixture(name, then, Some(now));
        let back = compare_fixture(name, now, Some(then));
        assert_eq!(judged == Judged::Same, back == Judged::Same, "{judged:?} {back:?}");
        told(&judged);
    }
    assert!(matches!(compare_fixture(name, before, None), Judged::Breach(_)));
});
