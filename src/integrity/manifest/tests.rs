//! Pairs of texts: what an attack on a setting looks like, and what an honest task does to one.

use super::*;

fn judged(path: &str, before: &str, after: &str) -> Judged {
    let state = |text: &'static str| -> Option<&'static [u8]> {
        (text != "absent").then_some(text.as_bytes())
    };
    let leak = |text: &str| -> &'static str { Box::leak(text.to_owned().into_boxed_str()) };
    compare(path, state(leak(before)), state(leak(after)), Mutable::No)
}

/// Each pair is a breach, and the key it names is the given one.
fn breaches(cases: &[(&str, &str, &str, &str)]) {
    for (path, before, after, key) in cases {
        match judged(path, before, after) {
            Judged::Breach(found) => assert!(
                found.iter().any(|difference| difference.key.starts_with(key)),
                "{path}: {after}\n{found:?}"
            ),
            other => panic!("{path}: {after}\n{other:?}"),
        }
    }
}

fn free(cases: &[(&str, &str, &str)]) {
    for (path, before, after) in cases {
        let found = judged(path, before, after);
        assert!(matches!(found, Judged::Same | Judged::Allowed(_)), "{path}: {after}\n{found:?}");
    }
}

fn same(cases: &[(&str, &str, &str)]) {
    for (path, before, after) in cases {
        assert_eq!(judged(path, before, after), Judged::Same, "{path}: {after}");
    }
}

const PYPROJECT: &str = "[project]\nname = 'calc'\nversion = '1.0'\ndependencies = ['requests>=2']\n\
    [tool.pytest.ini_options]\naddopts = '-ra'\n[tool.coverage.report]\nfail_under = 80\n\
    [build-system]\nrequires = ['setuptools']\nbuild-backend = 'setuptools.build_meta'\n";
const PACKAGE: &str = r#"{"name": "calc", "version": "1.0.0", "scripts": {"test": "jest", "build": "tsc"},
    "devDependencies": {"jest": "^30.0.0", "left-pad": "1.0.0"}, "jest": {"testTimeout": 100}}"#;
const CARGO: &str = "[package]\nname = 'calc'\nversion = '0.1.0'\nedition = '2021'\n\
    [dependencies]\nserde = '1'\n[dev-dependencies]\nproptest = '1'\n[lib]\npath = 'src/lib.rs'\n";

#[test]
fn a_makefile_may_list_more_files() {
    let old = b"SRC = lib/a.sh lib/b.sh\nOBJS = a.o\n\ntest: $(OBJS)\n\t./run $(SRC)\n\nclean:\n\trm -f *.o\n";
    let with = |from: &str, to: &str| {
        let new = String::from_utf8_lossy(old).replace(from, to);
        compare("Makefile", Some(old), Some(new.as_bytes()), Mutable::No)
    };
    assert!(matches!(with("lib/b.sh", "lib/b.sh lib/c.sh"), Judged::Allowed(_)));
    assert!(matches!(with("OBJS = a.o", "OBJS = a.o b.o"), Judged::Allowed(_)));
    assert!(matches!(with("lib/a.sh lib/b.sh", "lib/b.sh"), Judged::Breach(_)));
    assert!(matches!(with("lib/b.sh", "lib/b.sh || true"), Judged::Breach(_)));
    let Judged::Breach(list) = with("./run $(SRC)", "true") else { panic!() };
    assert_eq!(list.len(), 1, "{list:?}");
}

#[test]
fn attacks_on_python_settings_are_breaches() {
    breaches(&[
        (
            "pyproject.toml",
            PYPROJECT,
            &PYPROJECT.replace("'-ra'", "'-ra --deselect=tests/test_calc.py::test_add'"),
            "tool.pytest.ini_options.addopts",
        ),
        (
            "pyproject.toml",
            "[project]\nname='a'\n",
            "[project]\nname='a'\n[tool.pytest]\naddopts = ['--deselect=tests/test_calc.py::test_add']\n",
            "tool.pytest.addopts",
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            &PYPROJECT.replace("= 80", "= 10"),
            "tool.coverage.report.fail_under",
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            &PYPROJECT.replace("fail_under", "omit = ['src/calc.py']\nfail_under"),
            "tool.coverage.report.omit",
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            &format!("{PYPROJECT}[project.entry-points.pytest11]\nx = 'calc.plugin'\n"),
            "project.entry-points.pytest11.x",
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            &PYPROJECT.replace("'requests>=2'", "'requests>=2', 'pytest-rerunfailures'"),
            "project.dependencies.pytest-rerunfailures",
        ),
        ("pyproject.toml", PYPROJECT, "[tool", "content"),
        ("pyproject.toml", PYPROJECT, "absent", "content"),
        ("pytest.ini", "absent", "[pytest]\naddopts = --reruns 5\n", "pytest.addopts"),
        ("pytest.ini", "absent", "", "content"),
        ("pytest.ini", "[pytest]\n", "[pytest]\npython_files = none_*.py\n", "pytest.python_files"),
        ("tox.ini", "[tox]\nenvlist = py\n", "[tox]\nenvlist = py\n[pytest]\n", "pytest"),
        (
            "setup.cfg",
            "[metadata]\nname = a\n",
            "[metadata]\nname = a\n[tool:pytest]\ntestpaths = none\n",
            "tool:pytest.testpaths",
        ),
        (
            ".coveragerc",
            "[report]\nfail_under = 90\n",
            "[report]\nfail_under = 9\n",
            "report.fail_under",
        ),
        ("requirements.txt", "pytest==8.0\n", "pytest==7.0\n", "requirements.pytest"),
        ("requirements.txt", "requests==2\n", "requests==2\n--index-url http://x\n", "options"),
        ("requirements.txt", "requests==2\nflask\n", "requests==2\n", "requirements.flask"),
        (".python-version", "3.11\n", "shim\n", "content"),
        (".tool-versions", "absent", "python path:/tmp/shim\n", "content"),
        ("mise.toml", "absent", "[tools]\npython = 'path:./shim'\n", "tools.python"),
        ("x.pth", "absent", "import os\n", "content"),
    ]);
}

#[test]
fn attacks_on_rust_settings_are_breaches() {
    breaches(&[
        (
            "Cargo.toml",
            CARGO,
            &CARGO.replace("edition", "autotests = false\nedition"),
            "package.autotests",
        ),
        ("Cargo.toml", CARGO, &format!("{CARGO}test = false\n"), "lib.test"),
        ("Cargo.toml", CARGO, &format!("{CARGO}doctest = false\n"), "lib.doctest"),
        ("Cargo.toml", CARGO, &format!("{CARGO}harness = false\n"), "lib.harness"),
        (
            "Cargo.toml",
            CARGO,
            &format!("{CARGO}[[test]]\nname = 'it'\nharness = false\n"),
            "test.it",
        ),
        (
            "Cargo.toml",
            CARGO,
            &format!("{CARGO}[profile.test]\noverflow-checks = false\n"),
            "profile.test.overflow-checks",
        ),
        (
            "Cargo.toml",
            CARGO,
            &format!("{CARGO}[patch.crates-io]\nproptest = {{ path = 'fake' }}\n"),
            "patch",
        ),
        ("Cargo.toml", CARGO, &CARGO.replace("serde = '1'", "serde = '2'"), "dependencies.serde"),
        (
            ".cargo/config.toml",
            "absent",
            "[target.x86_64-unknown-linux-gnu]\nrunner = 'true'\n",
            "target.x86_64-unknown-linux-gnu.runner",
        ),
        (".cargo/config.toml", "absent", "[alias]\nt = 'check'\n", "alias.t"),
        (".cargo/config", "[env]\nA = '1'\n", "[env]\nA = '2'\n", "env.A"),
        ("rust-toolchain.toml", "absent", "[toolchain]\npath = '/tmp/shim'\n", "toolchain.path"),
        ("rust-toolchain", "1.90.0\n", "nightly\n", "toolchain.channel"),
        (".config/nextest.toml", "absent", "[profile.default]\nretries = 3\n", "profile"),
        (
            ".config/nextest.toml",
            "[profile.default]\nfail-fast = false\n",
            "[profile.default]\nfail-fast = false\ndefault-filter = 'none()'\n",
            "profile.default.default-filter",
        ),
    ]);
}

#[test]
fn attacks_on_javascript_settings_are_breaches() {
    breaches(&[
        ("package.json", PACKAGE, &PACKAGE.replace("\"jest\",", "\"exit 0\","), "scripts.test"),
        (
            "package.json",
            PACKAGE,
            &PACKAGE.replace("\"test\":", "\"posttest\": \"true\", \"test\":"),
            "scripts.posttest",
        ),
        (
            "package.json",
            PACKAGE,
            &PACKAGE.replace(
                "\"testTimeout\"",
                "\"testPathIgnorePatterns\": [\"jt\"], \"testTimeout\"",
            ),
            "jest.testPathIgnorePatterns",
        ),
        (
            "package.json",
            PACKAGE,
            &PACKAGE.replace(
                "\"testTimeout\"",
                "\"setupFilesAfterEnv\": [\"./fake.js\"], \"testTimeout\"",
            ),
            "jest.setupFilesAfterEnv",
        ),
        ("package.json", PACKAGE, &PACKAGE.replace("100}", "100000}"), "jest.testTimeout"),
        (
            "package.json",
            PACKAGE,
            &PACKAGE.replace("^30.0.0", "file:./fake"),
            "devDependencies.jest",
        ),
        (
            "package.json",
            PACKAGE,
            &PACKAGE.replace(
                "\"jest\": {",
                "\"overrides\": {\"expect\": \"file:./fake\"}, \"jest\": {",
            ),
            "overrides.expect",
        ),
        ("package.json", PACKAGE, "{", "content"),
        (".npmrc", "absent", "script-shell=/bin/true\n", "script-shell"),
        (".npmrc", "absent", "node-options=--require ./x.js\n", "node-options"),
        (".yarnrc.yml", "absent", "scriptShell: /bin/true\n", "scriptShell"),
        (".mocharc.json", r#"{"spec": "test"}"#, r#"{"spec": "test", "retries": 5}"#, "retries"),
        (".mocharc.yml", "absent", "grep: none\n", "grep"),
        (".nycrc", r#"{"lines": 90}"#, r#"{"lines": 10}"#, "lines"),
        (".nvmrc", "20\n", "18\n", "content"),
        (
            "tsconfig.json",
            "{\"compilerOptions\": {\"strict\": true}, // all\n}",
            r#"{"compilerOptions": {"strict": true}, "exclude": ["src/broken.ts"]}"#,
            "exclude",
        ),
        (
            "tsconfig.json",
            r#"{"compilerOptions": {"strict": true}}"#,
            r#"{"compilerOptions": {"strict": false}}"#,
            "compilerOptions.strict",
        ),
        (
            "package-lock.json",
            r#"{"packages": {"node_modules/expect": {"version": "30.0.0", "integrity": "sha512-a"}}}"#,
            r#"{"packages": {"node_modules/expect": {"version": "30.0.0", "integrity": "sha512-b"}}}"#,
            "node_modules/expect@30.0.0",
        ),
        (
            "yarn.lock",
            "left-pad@^1.0.0:\n  version \"1.0.0\"\n  integrity sha512-a\n",
            "left-pad@^1.0.0:\n  version \"1.3.0\"\n  integrity sha512-b\n",
            "left-pad",
        ),
    ]);
    for path in ["jest.config.js", "vitest.config.ts", "babel.config.cjs", ".mocharc.cjs"] {
        assert_eq!(judged(path, "absent", "export default {}"), Judged::Code, "{path}");
    }
}

#[test]
fn attacks_on_other_settings_are_breaches() {
    breaches(&[
        (".rspec", "absent", "--example each\n", "options"),
        (".rspec", "--color\n", "--color\n--tag ~slow\n", "options"),
        ("go.mod", "module a\n\ngo 1.19\n", "module a\n\ngo 1.19\n\nreplace b => ./b\n", "replace"),
        ("go.mod", "module a\n", "module a\nignore ./tests\n", "ignore"),
        ("pkg/go.mod", "absent", "module b\n", "content"),
        ("go.sum", "a v1 h1:x=\n", "a v1 h1:y=\n", "a v1"),
        (
            "phpunit.xml",
            "<phpunit><testsuites><testsuite name=\"u\"><directory>tests</directory></testsuite></testsuites></phpunit>",
            "<phpunit><testsuites><testsuite name=\"u\"><directory>tests</directory><exclude>tests/ATest.php</exclude></testsuite></testsuites></phpunit>",
            "phpunit.testsuites.testsuite u",
        ),
        (
            "pom.xml",
            "<project><properties><a>1</a></properties></project>",
            "<project><properties><a>1</a><maven.test.skip>true</maven.test.skip></properties></project>",
            "project.properties.maven.test.skip",
        ),
        (
            "pom.xml",
            "<project><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId></plugin></plugins></build></project>",
            "<project><build><plugins><plugin><artifactId>maven-surefire-plugin</artifactId><configuration><rerunFailingTestsCount>5</rerunFailingTestsCount></configuration></plugin></plugins></build></project>",
            "project.build.plugins.plugin org.apache.maven.plugins:maven-surefire-plugin.configuration",
        ),
        (".mvn/maven.config", "absent", "-DskipTests\n", "content"),
        (
            "build.gradle",
            "plugins { id 'java' }\n",
            "plugins { id 'java' }\ntest { ignoreFailures = true }\n",
            "content",
        ),
        ("gradlew", "exec java\n", "true\n", "content"),
        (
            "composer.json",
            r#"{"scripts": {"test": "phpunit"}}"#,
            r#"{"scripts": {"test": "true"}}"#,
            "scripts.test",
        ),
        ("Gemfile", "gem 'rspec'\n", "gem 'rspec', path: 'fake'\n", "gem.rspec"),
        (".gitattributes", "* text=auto\n", "* text=auto\n*.py filter=x\n", "attributes"),
        (".husky/pre-commit", "npm test\n", "absent", "content"),
        ("Dockerfile", "FROM a\nRUN test\n", "FROM a\nRUN true\n", "content"),
        ("a.runsettings", "<RunSettings/>", "<RunSettings><A>1</A></RunSettings>", "RunSettings"),
    ]);
    for path in [
        "conftest.py",
        "pytest.py",
        "_pytest/reports.py",
        "sitecustomize.py",
        "spec/spec_helper.rb",
    ] {
        assert_eq!(judged(path, "absent", "x = 1\n"), Judged::Code, "{path}");
    }
}

#[test]
fn formatters_and_line_ends_change_nothing() {
    let package: serde_json::Value = serde_json::from_str(PACKAGE).unwrap();
    same(&[
        ("package.json", PACKAGE, &serde_json::to_string_pretty(&package).unwrap()),
        ("package.json", PACKAGE, &PACKAGE.replace("1.0.0\", \"scripts", "1.1.0\", \"scripts")),
        ("pyproject.toml", PYPROJECT, &PYPROJECT.replace('\'', "\"").replace('\n', "\r\n")),
        ("pyproject.toml", PYPROJECT, &format!("{PYPROJECT}[tool.ruff]\nline-length = 100\n")),
        ("pyproject.toml", PYPROJECT, &PYPROJECT.replace("'1.0'", "'1.1'")),
        ("Cargo.toml", CARGO, &CARGO.replace("serde = '1'", "serde = { version = \"1\" }")),
        ("Cargo.toml", CARGO, &CARGO.replace("'0.1.0'", "'0.2.0'").replace("'2021'", "'2024'")),
        ("setup.cfg", "[flake8]\nmax = 1\n", "[flake8]\r\nmax = 2\r\n"),
        ("go.mod", "module a\nrequire b v1\n", "module a\n\nrequire (\n\tb v1 // indirect\n)\n"),
        (
            "phpunit.xml",
            "<phpunit a=\"1\" b=\"2\"/>",
            "<?xml version=\"1.0\"?>\n<phpunit b=\"2\" a=\"1\"></phpunit>",
        ),
        (".nvmrc", "20", "20\n"),
        ("requirements.txt", "Flask_Login >= 1, <2 # x\n", "flask-login<2,>=1\n"),
        (
            "package-lock.json",
            r#"{"version": "1.0.0", "packages": {"": {"version": "1.0.0"}, "node_modules/a": {"version": "1.0.0", "resolved": "https://x/a", "integrity": "s"}}}"#,
            r#"{"version": "1.1.0", "packages": {"": {"version": "1.1.0"}, "node_modules/a": {"version": "1.0.0", "resolved": "https://y/a", "integrity": "s", "peer": true}}}"#,
        ),
        (
            "Cargo.lock",
            "[[package]]\nname='calc'\nversion='0.1.0'\n[[package]]\nname='a'\nversion='1.0.0'\nsource='r'\nchecksum='c'\n",
            "[[package]]\nname='calc'\nversion='0.2.0'\n[[package]]\nname='a'\nversion='1.0.0'\nsource='r'\nchecksum='c'\ndependencies=['b']\n",
        ),
    ]);
}

#[test]
fn additions_disturb_nobody() {
    free(&[
        (
            "package.json",
            PACKAGE,
            &PACKAGE.replace("\"left-pad\"", "\"zod\": \"^4.0.0\", \"left-pad\""),
        ),
        (
            "package.json",
            PACKAGE,
            &PACKAGE.replace("\"build\": \"tsc\"", "\"build\": \"tsc -b\", \"dev\": \"node .\""),
        ),
        ("packages/new/package.json", "absent", PACKAGE),
        (
            "pyproject.toml",
            PYPROJECT,
            &PYPROJECT.replace("'requests>=2'", "'requests>=2', 'httpx[http2]>=0.27'"),
        ),
        (
            "pyproject.toml",
            PYPROJECT,
            &PYPROJECT.replace("addopts", "markers = ['slow: x']\naddopts"),
        ),
        ("pyproject.toml", PYPROJECT, &PYPROJECT.replace("'-ra'", "'-ra -vv --tb=short'")),
        ("pyproject.toml", PYPROJECT, &PYPROJECT.replace("= 80", "= 85")),
        ("pyproject.toml", "absent", "[project]\nname = 'a'\ndependencies = ['requests']\n"),
        (
            "Cargo.toml",
            CARGO,
            &CARGO.replace(
                "serde = '1'",
                "serde = { version = '1', features = ['derive'] }\nregex = '1'",
            ),
        ),
        (
            "Cargo.toml",
            CARGO,
            &CARGO.replace("proptest = '1'", "proptest = '1'\ntempfile = '3'\ninsta = '1'"),
        ),
        (
            "Cargo.toml",
            CARGO,
            &format!(
                "{CARGO}[[bin]]\nname = 'x'\npath = 'src/x.rs'\n[profile.release]\nlto = true\n"
            ),
        ),
        (
            "Cargo.toml",
            CARGO,
            &format!("{CARGO}[[test]]\nname = 'cli'\npath = 'tests/cli/main.rs'\n"),
        ),
        ("crates/new/Cargo.toml", "absent", CARGO),
        (
            "Cargo.lock",
            "[[package]]\nname='calc'\nversion='0.1.0'\n",
            "[[package]]\nname='calc'\nversion='0.1.0'\n[[package]]\nname='a'\nversion='1.0.0'\nsource='r'\nchecksum='c'\n",
        ),
        ("Cargo.lock", "absent", "version = 4\n"),
        ("requirements.txt", "pytest==8\n", "pytest==8\nrequests==2.0 ; python_version >= '3.8'\n"),
        ("go.mod", "module a\n", "module a\nrequire github.com/stretchr/testify v1.9.0\n"),
        (
            "go.mod",
            "module a\nrequire golang.org/x/sys v0.9.0 // indirect\n",
            "module a\nrequire (\n golang.org/x/sys v0.10.0 // indirect\n golang.org/x/term v0.1.0\n)\n",
        ),
        ("go.sum", "a v1 h1:x=\n", "b v1 h1:y=\n"),
        (
            "Gemfile",
            "source 'x'\ngem 'rspec'\n",
            "source \"x\"\n\ngroup :test do\n  gem \"rspec\"\nend\ngem 'rack'\n",
        ),
        (
            "pom.xml",
            "<project><version>1</version><dependencies/></project>",
            "<project><version>2</version><dependencies><dependency><groupId>g</groupId><artifactId>a</artifactId><version>1</version></dependency></dependencies></project>",
        ),
        (
            "build.gradle.kts",
            "dependencies {\n    implementation(\"a:b:1\")\n}\n",
            "dependencies {\n  implementation(\"a:b:1\")\n  implementation(\"c:d:1\")\n}\n",
        ),
        (
            "composer.json",
            r#"{"require": {"php": ">=8"}}"#,
            r#"{"require": {"php": ">=8", "a/b": "^1"}}"#,
        ),
        (
            "tsconfig.json",
            r#"{"compilerOptions": {"strict": true}}"#,
            r#"{"compilerOptions": {"strict": true, "jsx": "react", "noUnusedLocals": true}}"#,
        ),
        ("tsconfig.build.json", "absent", "{}"),
        (".gitattributes", "absent", "* text=auto\n*.png binary\n"),
        (".rspec", "absent", "--require spec_helper\n--color\n"),
        ("cmake/flags.cmake", "absent", "set(FLAGS -Wall)\n"),
        (
            ".pre-commit-config.yaml",
            "repos:\n- repo: a\n  rev: '1'\n  hooks: [{id: x}]\n",
            "repos:\n- repo: b\n  rev: '1'\n  hooks: [{id: y}]\n- repo: a\n  rev: '1'\n  hooks:\n  - id: x\n",
        ),
    ]);
}

#[test]
fn what_is_declared_mutable_may_change_but_for_runners() {
    let mutable = |path: &str, before: &str, after: &str| {
        compare(path, Some(before.as_bytes()), Some(after.as_bytes()), Mutable::Yes)
    };
    let free = |found: Judged| matches!(found, Judged::Allowed(_));
    assert!(free(mutable("Makefile", "test:\n\ttrue\n", "test:\n\tfalse\n")));
    assert!(free(mutable("conftest.py", "a = 1\n", "a = 2\n")));
    assert!(free(mutable("package.json", PACKAGE, &PACKAGE.replace("\"1.0.0\"}", "\"2.0.0\"}"))));
    assert!(!free(mutable("package.json", PACKAGE, &PACKAGE.replace("^30.0.0", "^29.0.0"))));
    assert!(!free(mutable("package.json", PACKAGE, &PACKAGE.replace("\"jest\",", "\"true\","))));
    assert!(free(mutable("Cargo.toml", CARGO, &CARGO.replace("serde = '1'", "serde = '2'"))));
}

#[test]
fn nothing_a_hostile_file_holds_makes_it_panic() {
    let deep = "[".repeat(5_000);
    let odd: &[&[u8]] = &[
        b"",
        b"\xff\xfe\x00",
        b"null",
        b"[1,2]",
        b"\"text\"",
        b"a: &a [*a]",
        b"<a",
        b"[[package]]\nname = 1\n[[test]]\n",
        b"{\"scripts\": 3, \"dependencies\": [1], \"overrides\": {\"\": \"\", \"@\": {}}}",
        b"[\n]\n=\n:\n(((\n\"",
        "é[=[é".as_bytes(),
        deep.as_bytes(),
    ];
    for path in [
        "Cargo.toml",
        "Cargo.lock",
        "package.json",
        "package-lock.json",
        "yarn.lock",
        "pnpm-lock.yaml",
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
        ".coveragerc",
        "rust-toolchain",
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
        ".nycrc",
        ".mocharc.yml",
        "tsconfig.json",
        "requirements.txt",
        "phpunit.xml",
        "Taskfile.yml",
        "Dockerfile",
        ".husky/x",
        "Directory.Build.props",
        "a.cmake",
        "build.gradle",
        "a.csproj",
        "a.runsettings",
        "uv.lock",
        "pnpm-workspace.yaml",
        "conftest.py",
    ] {
        for before in odd.iter().map(|bytes| Some(*bytes)).chain([None]) {
            for after in odd.iter().map(|bytes| Some(*bytes)).chain([None]) {
                let found = compare(path, before, after, Mutable::No);
                assert!(before != after || found == Judged::Same, "{path}");
            }
        }
    }
}
