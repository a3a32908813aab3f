//! Two scans of added source lines that advise and never judge: literals of an assertion that
//! stand together in the source, and words by which a program knows its grader.

use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The most notes of one scan.
const MAX_NOTES: usize = 100;
/// The most added lines that are looked at.
const MAX_LINES: usize = 50_000;
/// The longest part of a line that is looked at, in bytes.
const MAX_WIDTH: usize = 4 << 10;
/// The largest file whose lines are compared.
const MAX_FILE: usize = 8 << 20;

/// Something a reader may want to look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// From the root.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// The literals or the words that were seen, separated by commas.
    pub what: String,
}

/// Notes added lines on which literals of one assertion stand together.
///
/// `expected` holds the literals of each assertion as [`literals_of`] gives them; `added` file, line
/// and text. Two literals that mean something suffice; single digits count where the line decides
/// or returns something; 0, 1, −1 and the empty text only as a third.
pub fn literal_leak(expected: &[Vec<String>], added: &[(String, u32, String)]) -> Vec<Note> {
    // Assertions with the same literals are one, the last of them.
    let mut sets: HashMap<BTreeSet<&str>, usize> = HashMap::new();
    for (number, literals) in expected.iter().enumerate() {
        sets.insert(literals.iter().map(String::as_str).collect(), number);
    }
    // Held by a literal that tells something, without which nothing leaks: thousands have a 0 or a 1.
    let mut holders: HashMap<&str, Vec<(usize, &BTreeSet<&str>)>> = HashMap::new();
    for (set, number) in &sets {
        for literal in set.iter().filter(|literal| !is_trivial(literal)) {
            holders.entry(literal).or_default().push((*number, set));
        }
    }
    let mut notes = Vec::new();
    for (file, line, text) in added.iter().take(MAX_LINES) {
        if notes.len() >= MAX_NOTES {
            break;
        }
        if is_comment(text) {
            continue;
        }
        let own: BTreeSet<String> = literals_of(text).into_iter().collect();
        if own.len() < 2 {
            continue;
        }
        let mut hits: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for literal in &own {
            for (holder, set) in holders.get(literal.as_str()).into_iter().flatten() {
                hits.entry(*holder).or_insert_with(|| {
                    own.iter().map(String::as_str).filter(|own| set.contains(own)).collect()
                });
            }
        }
        let leak = hits.into_values().filter(|hits| leaks(hits, text)).max_by_key(Vec::len);
        if let Some(literals) = leak {
            notes.push(Note {
                file: file.clone(),
                line: *line,
                what: bounded(&literals.join(", ")),
            });
        }
    }
    notes
}

fn leaks(hits: &[&str], text: &str) -> bool {
    let telling: Vec<&&str> = hits.iter().filter(|literal| !is_trivial(literal)).collect();
    if hits.len() >= 3 && !telling.is_empty() {
        return true;
    }
    if telling.len() < 2 {
        return false;
    }
    let digits = telling.iter().all(|literal| literal.trim_start_matches('-').len() == 1);
    !digits || decides(text)
}

/// A line that chooses a value, as opposed to one that counts or slices.
fn decides(text: &str) -> bool {
    ["if ", "if(", "return", "=>", "case ", "? ", "elif", "when ", "{"]
        .iter()
        .any(|word| text.contains(word))
}

fn is_trivial(literal: &str) -> bool {
    matches!(literal, "0" | "1" | "-1" | "0.0" | "1.0" | "\"\"" | "\" \"" | "true" | "false")
}

fn is_comment(text: &str) -> bool {
    let text = text.trim_start();
    // An attribute of Rust and a directive of C begin like a comment of others.
    let directive = ["#[", "#![", "#define", "#undef"].iter().any(|start| text.starts_with(start));
    (text.starts_with('#') && !directive)
        || ["//", "/*", "* ", "--", ">>>"].iter().any(|start| text.starts_with(start))
}

/// Returns the numbers and texts of a line: numbers without separators and type suffixes, texts in
/// double quotes whatever quotes they had.
pub fn literals_of(text: &str) -> Vec<String> {
    let text = cut(text);
    let mut found = Vec::new();
    let mut rest = text.char_indices().peekable();
    let mut before = ' ';
    // What stood before the last sign, to tell a sign from a subtraction.
    let mut sign = false;
    while let Some((at, c)) = rest.next() {
        if matches!(c, '"' | '\'' | '`') {
            if let Some(end) = closing(&text[at + 1..], c) {
                found.push(format!("\"{}\"", &text[at + 1..at + 1 + end]));
                let past = at + 1 + end;
                while rest.next_if(|(next, _)| *next <= past).is_some() {}
            }
            (before, sign) = ('"', false);
        } else if c.is_ascii_digit()
            && !(before.is_alphanumeric() || matches!(before, '_' | '.' | '$'))
        {
            let mut end = at + 1;
            while let Some((next, part)) = rest.next_if(|(next, part)| {
                part.is_ascii_alphanumeric()
                    || *part == '_'
                    || (*part == '.' && text[next + 1..].starts_with(|c: char| c.is_ascii_digit()))
            }) {
                end = next + part.len_utf8();
            }
            let number = number(&text[at..end]);
            found.push(if sign { format!("-{number}") } else { number });
            (before, sign) = ('0', false);
        } else if c == '-' {
            sign = before == ' ' || "([{,=:<>?&|!+*/%;".contains(before);
            before = '-';
        } else if !c.is_whitespace() {
            (before, sign) = (c, false);
        } else if before.is_alphabetic() && text[..at].ends_with("return") {
            before = ' ';
        } else if before.is_alphanumeric()
            && rest.peek().is_some_and(|(_, next)| next.is_ascii_digit())
        {
            // A word and a number are apart where a blank stands between them.
            before = ' ';
        }
    }
    found
}

/// Where a text that began with `quote` ends.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return Some(at),
            _ => {}
        }
    }
    None
}

/// A number as every language reads it alike.
fn number(text: &str) -> String {
    let bare = text.replace('_', "").to_ascii_lowercase();
    if bare.starts_with("0x") || bare.starts_with("0b") || bare.starts_with("0o") {
        return bare;
    }
    let exponent = |at: usize| {
        bare[at..].starts_with('e') && bare[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    };
    let end = bare
        .char_indices()
        .find(|(at, c)| c.is_ascii_alphabetic() && !exponent(*at))
        .map_or(bare.len(), |(at, _)| at);
    bare[..end].to_owned()
}

/// Words of runners and of ways around them. Those that end or begin with a letter stand alone.
const AWARE: &[&str] = &[
    "pytest",
    "_pytest",
    "PYTEST_CURRENT_TEST",
    "unittest",
    "sys.modules",
    "sys._getframe",
    "_getframe",
    "inspect.stack",
    "inspect.currentframe",
    "traceback.extract_stack",
    "gc.get_objects",
    "gc.get_referrers",
    "sys.settrace",
    "os._exit",
    "atexit",
    "__eq__",
    "__ne__",
    "TestReport",
    "pluggy",
    "NODE_ENV",
    "JEST_WORKER_ID",
    "VITEST",
    "VITEST_WORKER_ID",
    "import.meta.vitest",
    "process.exit",
    "process.reallyExit",
    "process.argv0",
    "require.main",
    "jest",
    "vitest",
    "mocha",
    "cfg!(test)",
    "not(test)",
    "process::exit",
    "process::abort",
    "NEXTEST",
    "RUST_TEST_THREADS",
    "testing.Testing",
    "flag.Lookup(\"test.",
    "os.Exit",
    "RSpec",
    "Minitest",
    "RAILS_ENV",
    "RACK_ENV",
    "at_exit",
    "exit!",
    "PHPUnit",
    "PHPUNIT_COMPOSER_INSTALL",
    "register_shutdown_function",
    "org.junit",
    "getStackTrace",
    "System.exit",
    "Runtime.halt",
    "debug_backtrace",
    "macro_rules! assert",
    "macro_rules! assert_eq",
    "macro_rules! assert_ne",
    "#define assert",
    "#undef assert",
    "GTEST_",
    "CTEST_",
    "BATS_TEST",
];

/// Notes added lines that name a test runner, ask whether they are being tested, leave the process
/// or redefine equality.
pub fn grader_awareness(added: &[(String, u32, String)]) -> Vec<Note> {
    let mut notes = Vec::new();
    for (file, line, text) in added.iter().take(MAX_LINES) {
        if notes.len() >= MAX_NOTES {
            break;
        }
        if is_comment(text) {
            continue;
        }
        let text = cut(text);
        let mut words: Vec<&str> =
            AWARE.iter().copied().filter(|word| stands_alone(text, word)).collect();
        // `sys._getframe` says all that `_getframe` does.
        let all = words.clone();
        words.retain(|word| !all.iter().any(|other| other != word && other.contains(word)));
        if !words.is_empty() {
            notes.push(Note { file: file.clone(), line: *line, what: words.join(", ") });
        }
    }
    notes
}

/// Whether a word occurs that is not part of a longer one.
fn stands_alone(text: &str, word: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(word).any(|(at, _)| {
        let starts = !word.starts_with(part) || !text[..at].ends_with(part);
        let ends = !word.ends_with(char::is_alphanumeric)
            || !text[at + word.len()..].starts_with(|c: char| c.is_alphanumeric());
        starts && ends
    })
}

/// Returns the lines, from 1, that a file has and had not; a line that only moved is none.
///
/// A binary or very large file has none.
pub fn added_lines(before: Option<&[u8]>, after: &[u8]) -> Vec<(u32, String)> {
    if after.len() > MAX_FILE || after.contains(&0) {
        return Vec::new();
    }
    let mut left: HashMap<&[u8], u32> = HashMap::new();
    for line in before.unwrap_or_default().split(|b| *b == b'\n') {
        *left.entry(line.trim_ascii()).or_default() += 1;
    }
    let mut added = Vec::new();
    for (number, line) in (1_u32..).zip(after.split(|b| *b == b'\n')) {
        match left.get_mut(line.trim_ascii()) {
            Some(count) if *count > 0 => *count -= 1,
            _ if line.trim_ascii().is_empty() => {}
            _ => {
                let text = String::from_utf8_lossy(&line[..line.len().min(MAX_WIDTH)]);
                added.push((number, text.trim_end().to_owned()));
            }
        }
    }
    added
}

/// The part of a line that is looked at.
fn cut(text: &str) -> &str {
    let end = (0..=text.len().min(MAX_WIDTH)).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

fn bounded(text: &str) -> String {
    text.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(lines: &[&str]) -> Vec<(String, u32, String)> {
        (1..)
            .zip(lines)
            .map(|(at, line)| ("src/calc.py".to_owned(), at, (*line).to_owned()))
            .collect()
    }

    fn assertions(lines: &[&str]) -> Vec<Vec<String>> {
        lines.iter().map(|line| literals_of(line)).collect()
    }

    #[test]
    fn literals_are_the_same_however_a_language_writes_them() {
        assert_eq!(
            literals_of("f(1_000u32, -4, 'a', \"b\\\"c\") == 2.5e3"),
            ["1000", "-4", "\"a\"", "\"b\\\"c\"", "2.5e3"]
        );
        assert_eq!(literals_of("x2 = y - 3; return -1; a[0x1F]"), ["3", "-1", "0x1f"]);
        assert_eq!(literals_of("it's 5 o'clock, ünd 7n"), ["\"s 5 o\"", "7"]);
        assert!(literals_of("a1 b_2 u32").is_empty());
    }

    #[test]
    fn outputs_that_were_copied_from_assertions_are_noted() {
        let expected = assertions(&[
            "assert add(1, 2) == 3",
            "assert add(10, -4) == 6",
            "assert mean([2, 4, 9]) == 5",
            "assert name(17) == 'seventeen'",
        ]);
        let leaks = added(&[
            "return {(1,2):3,(0,0):0,(2,3):5,(10,-4):6}.get((a,b),0)",
            "if n == 17: return \"seventeen\"",
            "if (a, b) == (1, 2): return 3",
        ]);
        let notes = literal_leak(&expected, &leaks);
        assert_eq!(notes.iter().map(|note| note.line).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn ordinary_fixes_are_not() {
        let expected = assertions(&[
            "assert add(1, 2) == 3",
            "assert mean([1, 0]) == 0",
            "assert fib(10) == 55",
            "assert split('a,b', ',') == ['a', 'b']",
        ]);
        let honest = added(&[
            "return a + b",
            "for i in range(2, 3):",
            "if n < 0: return -1",
            "return sum(xs) / len(xs) if xs else 0",
            "a, b = b, a + b",
            "return text.split(sep or ',')",
            "# add(1, 2) == 3",
            "x = x[1:-1]",
        ]);
        assert_eq!(literal_leak(&expected, &honest), []);
        assert_eq!(grader_awareness(&honest), []);
    }

    #[test]
    fn words_of_graders_are_named() {
        for (line, word) in [
            ("if 'pytest' in sys.modules:", "pytest, sys.modules"),
            ("def __eq__(self, other): return True", "__eq__"),
            ("f = sys._getframe(1)", "sys._getframe"),
            ("atexit.register(lambda: os._exit(0))", "os._exit, atexit"),
            ("if (process.env.NODE_ENV === 'test') process.exit(0)", "NODE_ENV, process.exit"),
            ("if cfg!(test) { std::process::exit(0) }", "cfg!(test), process::exit"),
            ("if testing.Testing() {", "testing.Testing"),
            ("import _pytest.reports", "_pytest"),
            ("exit!(0)", "exit!"),
        ] {
            let notes = grader_awareness(&added(&[line]));
            assert_eq!(notes.first().map(|note| note.what.as_str()), Some(word), "{line}");
        }
        let plain =
            added(&["digest(x)", "latest = 1", "#[cfg(test)]", "// pytest", "majestic jester"]);
        assert_eq!(grader_awareness(&plain), []);
    }

    #[test]
    fn a_line_that_moved_or_was_indented_is_not_added() {
        let before = b"a\nb\nc\n";
        let found = added_lines(Some(before), b"c\r\n  b\nb2\n\na\na\n");
        assert_eq!(found, [(3, "b2".to_owned()), (6, "a".to_owned())]);
        assert_eq!(added_lines(None, b"x\0y"), []);
        assert_eq!(added_lines(None, b"x\n"), [(1, "x".to_owned())]);
    }

    #[test]
    fn odd_text_ends_and_does_not_panic() {
        for text in [
            "\"",
            "'é",
            "\\",
            "-",
            "--1",
            "9.",
            "1.é",
            "0x",
            "`",
            &"é'".repeat(10_000),
            &"1 ".repeat(10_000),
        ] {
            literals_of(text);
            grader_awareness(&added(&[text]));
        }
    }
}
