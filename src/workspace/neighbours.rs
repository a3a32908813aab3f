//! Files that a file imports, by simple patterns: Python, JavaScript and TypeScript, Rust, Go.
//!
//! Pure: whether a file exists is asked for. It misses what only a compiler knows; a neighbour that
//! is missed costs context, never correctness.

use regex::Regex;
use std::sync::LazyLock;

/// Names the files that the text of `path` imports and that `exists` knows, in order, each once.
pub fn neighbours(path: &str, text: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let candidates = match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("py" | "pyi") => python(folder, text),
        Some("js" | "jsx" | "ts" | "tsx" | "mjs" | "cjs" | "mts" | "cts" | "vue" | "svelte") => {
            javascript(folder, text)
        }
        Some("rs") => rust(path, folder, text),
        Some("go") => go(path, text),
        _ => Vec::new(),
    };
    let mut found: Vec<String> = Vec::new();
    for candidate in candidates.iter().filter_map(|candidate| normalise(candidate)) {
        if candidate != path && !found.contains(&candidate) && exists(&candidate) {
            found.push(candidate);
        }
    }
    found
}

/// Resolves `.` and `..`; a path that leaves the root is none.
fn normalise(path: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            _ => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

#[expect(clippy::expect_used, reason = "the patterns are constants, and the tests compile each")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a constant pattern")
}

fn python(folder: &str, text: &str) -> Vec<String> {
    static FROM: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?m)^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+\(?([\w \t,.*]*)")
    });
    static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r"(?m)^[ \t]*import[ \t]+([\w.]+(?:[ \t]+as[ \t]+\w+)?(?:[ \t]*,[ \t]*[\w.]+(?:[ \t]+as[ \t]+\w+)?)*)",
        )
    });
    let first_word = |text: &str| text.split_whitespace().next().unwrap_or("").to_owned();
    let mut modules: Vec<(usize, String)> = Vec::new();
    for found in FROM.captures_iter(text) {
        let module = found[2].replace('.', "/");
        for name in found[3].split(',').map(first_word).filter(|name| !name.is_empty()) {
            modules.push((found[1].len(), format!("{module}/{name}")));
        }
        modules.push((found[1].len(), module));
    }
    for found in IMPORT.captures_iter(text) {
        modules.extend(found[1].split(',').map(|one| (0, first_word(one).replace('.', "/"))));
    }
    let mut candidates = Vec::new();
    for (dots, module) in modules {
        let roots = match dots {
            0 => vec![String::new(), "src".into(), folder.to_owned()],
            _ => vec![format!("{folder}{}", "/..".repeat(dots - 1))],
        };
        for root in roots {
            candidates.push(format!("{root}/{module}.py"));
            candidates.push(format!("{root}/{module}/__init__.py"));
        }
    }
    candidates
}

fn javascript(folder: &str, text: &str) -> Vec<String> {
    static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r#"(?:\bfrom\s*|\bimport\s*\(?\s*|\brequire\s*\(\s*)["'](\.{1,2}/[^"'\n]+)["']"#)
    });
    const ENDINGS: [&str; 14] = [
        "",
        ".ts",
        ".tsx",
        ".js",
        ".jsx",
        ".mjs",
        ".cjs",
        ".mts",
        ".json",
        ".vue",
        "/index.ts",
        "/index.tsx",
        "/index.js",
        "/index.mjs",
    ];
    let mut candidates = Vec::new();
    for found in IMPORT.captures_iter(text) {
        let base = format!("{folder}/{}", &found[1]);
        candidates.extend(ENDINGS.iter().map(|ending| format!("{base}{ending}")));
        // TypeScript names what it compiles to.
        if let Some(base) = base.strip_suffix(".js") {
            candidates.extend([format!("{base}.ts"), format!("{base}.tsx")]);
        }
    }
    candidates
}

fn rust(path: &str, folder: &str, text: &str) -> Vec<String> {
    static MOD: LazyLock<Regex> =
        LazyLock::new(|| pattern(r"(?m)^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?mod[ \t]+(\w+)[ \t]*;"));
    static USE: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r"(?m)^[ \t]*(?:pub(?:\([^)]*\))?[ \t]+)?use[ \t]+(\w+(?:::\w+)*)")
    });
    let stem = path.trim_end_matches(".rs");
    let mut candidates = Vec::new();
    for found in MOD.captures_iter(text) {
        for base in [folder, stem] {
            candidates.push(format!("{base}/{}.rs", &found[1]));
            candidates.push(format!("{base}/{}/mod.rs", &found[1]));
        }
    }
    // `src` of the crate: of the file itself, or beside its `tests`, `benches` or `examples`.
    let at = |name: &str| {
        let end = format!("{folder}/");
        let found = if end.starts_with(&format!("{name}/")) {
            Some(0)
        } else {
            end.find(&format!("/{name}/")).map(|at| at + 1)
        };
        found.map(|at| folder[..at].to_owned())
    };
    let root = ["src", "tests", "benches", "examples"].iter().find_map(|name| at(name));
    for found in USE.captures_iter(text) {
        let parts: Vec<&str> = found[1].split("::").collect();
        let base = match parts[0] {
            "std" | "core" | "alloc" => continue,
            "super" => format!("{folder}/"),
            "self" => format!("{stem}/"),
            _ => format!("{}src/", root.clone().unwrap_or_default()),
        };
        for end in (1..parts.len()).rev() {
            let module = parts[1..=end].join("/");
            candidates.push(format!("{base}{module}.rs"));
            candidates.push(format!("{base}{module}/mod.rs"));
        }
        if parts[0] != "super" && parts[0] != "self" {
            candidates.push(format!("{base}lib.rs"));
        }
    }
    candidates
}

fn go(path: &str, text: &str) -> Vec<String> {
    static IMPORT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(r#"(?m)^[ \t]*(?:import[ \t]+)?(?:[\w.]+[ \t]+)?"([\w./-]+)"[ \t]*$"#)
    });
    let mut candidates = Vec::new();
    if let Some(stem) = path.strip_suffix("_test.go") {
        candidates.push(format!("{stem}.go"));
    }
    for found in IMPORT.captures_iter(text) {
        // The module's own prefix is not known here: every tail of the import path may be the folder.
        let parts: Vec<&str> = found[1].split('/').collect();
        for start in 1..parts.len() {
            let folder = parts[start..].join("/");
            candidates.push(format!("{folder}/{}.go", parts[parts.len() - 1]));
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str, files: &[&str]) -> Vec<String> {
        neighbours(path, text, &|file| files.contains(&file))
    }

    #[test]
    fn each_language_finds_its_neighbours() {
        let files =
            ["pkg/a.py", "pkg/sub/__init__.py", "src/lib/b.py", "tests/helper.py", "pkg/c.py"];
        let text = "from pkg import a, missing\nimport lib.b as b, os\nfrom helper import x\n";
        assert_eq!(
            found("tests/test_a.py", text, &files),
            ["pkg/a.py", "tests/helper.py", "src/lib/b.py"]
        );
        let text = "from .sub import y\nfrom ..pkg.c import z\n";
        assert_eq!(found("pkg/d.py", text, &files), ["pkg/sub/__init__.py", "pkg/c.py"]);
        let files = ["web/a.ts", "web/ui/index.tsx", "b.json"];
        let text = "import x from './a.js';\nconst y = require(\"./ui\");\nimport('../b.json')";
        assert_eq!(found("web/m.ts", text, &files), files);
        let files = ["c/src/lib.rs", "c/src/one.rs", "c/src/one/two.rs", "c/src/deep/mod.rs"];
        let text = "mod one;\nuse crate::deep::Thing;\n";
        assert_eq!(found("c/src/lib.rs", text, &files), ["c/src/one.rs", "c/src/deep/mod.rs"]);
        let text = "use c::one::two::f;\nuse std::fs;\n";
        assert_eq!(
            found("c/tests/t.rs", text, &files),
            ["c/src/one/two.rs", "c/src/one.rs", "c/src/lib.rs"]
        );
        let files = ["calc.go", "inner/add/add.go"];
        let text = "import (\n\t\"testing\"\n\n\t\"example.org/calc/inner/add\"\n)\n";
        assert_eq!(found("calc_test.go", text, &files), files);
    }

    #[test]
    fn nothing_outside_the_root_is_asked_for() {
        let text = "import a from '../../etc/passwd';\nimport b from './x'";
        let asked = std::cell::RefCell::new(Vec::new());
        neighbours("web/m.js", text, &|file| {
            asked.borrow_mut().push(file.to_owned());
            false
        });
        assert!(asked.borrow().iter().all(|file| file.starts_with("web/x")), "{asked:?}");
    }
}
