//! Which commands of CMake's language decide what CTest runs and what it takes for a pass.

use super::plain::raw;
use super::walk::{Findings, Weight};
use super::{Pair, tree};
use std::collections::BTreeSet;

/// The most commands that are compared one by one.
const MAX_COMMANDS: usize = 5_000;
/// The most blocks that stand within each other.
const MAX_BLOCKS: usize = 64;

/// One command with the blocks around it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Command {
    name: String,
    arguments: Vec<String>,
    within: Vec<String>,
}

impl Command {
    fn text(&self) -> String {
        format!("{}({})", self.name, self.arguments.join(" "))
    }

    fn first(&self) -> &str {
        self.arguments.first().map_or("", String::as_str)
    }
}

/// Compares `CMakeLists.txt` and other scripts by the commands that count.
pub(super) fn lists(pair: &Pair<'_>, findings: &mut Findings) {
    let read = |bytes: Option<&[u8]>| bytes.map_or_else(|| Some(Vec::new()), parse);
    let Some(before) = read(pair.before) else {
        raw(pair, findings);
        return;
    };
    let Some(after) = read(pair.after) else {
        findings.add(Weight::Breach, "content", Some("parseable"), Some("not parseable"));
        return;
    };
    let tests = test_names(&before);
    let targets = test_targets(&before);
    let all_targets = test_targets(&after);
    let counted = |all: &[Command], targets: &BTreeSet<String>| -> Vec<Command> {
        all.iter().filter(|one| counts(one, targets)).cloned().collect()
    };
    let (old, new) = (counted(&before, &targets), counted(&after, &all_targets));
    let mut fresh = new.clone();
    for command in &old {
        if let Some(at) = fresh.iter().position(|one| one == command) {
            fresh.remove(at);
            continue;
        }
        let grown = fresh.iter().position(|one| {
            one.name == command.name
                && one.within == command.within
                && builds(&one.name)
                && one.first() == command.first()
                && command.arguments.iter().all(|word| one.arguments.contains(word))
        });
        let key = format!("{}({})", command.name, command.first());
        match grown {
            Some(at) => {
                let now = fresh.remove(at);
                findings.add(Weight::Allowed, key, Some(&command.text()), Some(&now.text()));
            }
            None => {
                let same = fresh
                    .iter()
                    .find(|one| one.name == command.name && one.first() == command.first());
                let now = same.map(|one| {
                    if one.within == command.within {
                        one.text()
                    } else {
                        format!("{} within {}", one.text(), one.within.join(" "))
                    }
                });
                findings.add(Weight::Breach, key, Some(&command.text()), now.as_deref());
            }
        }
    }
    for command in fresh {
        let weight = added(&command, &tests, &targets, &before);
        let key = format!("{}({})", command.name, command.first());
        findings.add(weight, key, None, Some(&command.text()));
    }
}

/// What a command means that was not there.
fn added(
    command: &Command,
    tests: &BTreeSet<String>,
    targets: &BTreeSet<String>,
    before: &[Command],
) -> Weight {
    let name = command.name.as_str();
    let known =
        |word: &String| tests.contains(word) || targets.contains(word) || word.contains("${");
    let steers = match name {
        "enable_testing" | "include" => false,
        "add_test" => test_name(command).is_none_or(|test| tests.contains(test)),
        "set_tests_properties" => {
            let (names, properties) = split_at_word(&command.arguments, "PROPERTIES");
            names.iter().any(known)
                && properties.iter().step_by(2).any(|property| property != "LABELS")
        }
        "gtest_discover_tests"
        | "gtest_add_tests"
        | "catch_discover_tests"
        | "doctest_discover_tests" => known(&command.first().to_owned()),
        "add_executable" => {
            before.iter().any(|one| one.name == name && one.first() == command.first())
        }
        "target_link_libraries" | "target_sources" => false,
        "add_subdirectory" => false,
        _ => true,
    };
    if steers { Weight::Breach } else { Weight::Allowed }
}

fn builds(name: &str) -> bool {
    matches!(name, "add_executable" | "target_link_libraries" | "target_sources")
}

/// Commands that tell CTest or the compiler something that changes a result.
fn counts(command: &Command, targets: &BTreeSet<String>) -> bool {
    let name = command.name.as_str();
    let words = &command.arguments;
    let first = command.first();
    match name {
        "add_test"
        | "set_tests_properties"
        | "enable_testing"
        | "gtest_discover_tests"
        | "gtest_add_tests"
        | "catch_discover_tests"
        | "doctest_discover_tests"
        | "add_subdirectory"
        | "subdirs"
        | "return"
        | "set_test_properties"
        | "ctest_start"
        | "ctest_test" => true,
        "set_property" => {
            first == "TEST"
                || words.iter().any(|word| word.contains("LAUNCHER") || word.contains("EMULATOR"))
        }
        "set_target_properties" => {
            words.iter().any(|word| word.contains("LAUNCHER") || word.contains("EMULATOR"))
        }
        "set" | "unset" | "option" => {
            first.starts_with("CTEST_")
                || first.starts_with("CMAKE_CTEST")
                || matches!(
                    first,
                    "BUILD_TESTING"
                        | "CMAKE_BUILD_TYPE"
                        | "CMAKE_TEST_LAUNCHER"
                        | "CMAKE_CROSSCOMPILING_EMULATOR"
                )
                || words.iter().any(|word| word.contains("NDEBUG"))
        }
        "add_compile_definitions"
        | "add_definitions"
        | "add_compile_options"
        | "target_compile_definitions"
        | "target_compile_options" => words.iter().any(|word| word.contains("NDEBUG")),
        "include" => matches!(first, "CTest" | "GoogleTest" | "Catch" | "doctest"),
        // A command of the same name stands in for the real one.
        "function" | "macro" => matches!(
            first.to_ascii_lowercase().as_str(),
            "add_test"
                | "set_tests_properties"
                | "enable_testing"
                | "gtest_discover_tests"
                | "catch_discover_tests"
                | "doctest_discover_tests"
        ),
        _ => builds(name) && targets.contains(first),
    }
}

fn test_name(command: &Command) -> Option<&String> {
    match command.first() {
        "NAME" => command.arguments.get(1),
        _ => command.arguments.first(),
    }
}

fn test_names(all: &[Command]) -> BTreeSet<String> {
    let tests = all.iter().filter(|one| one.name == "add_test");
    tests.filter_map(test_name).cloned().collect()
}

/// Executables that tests start.
fn test_targets(all: &[Command]) -> BTreeSet<String> {
    let executables: BTreeSet<&str> =
        all.iter().filter(|one| one.name == "add_executable").map(Command::first).collect();
    let mut targets = BTreeSet::new();
    for command in all {
        let discovers = matches!(
            command.name.as_str(),
            "gtest_discover_tests"
                | "catch_discover_tests"
                | "doctest_discover_tests"
                | "gtest_add_tests"
        );
        if command.name == "add_test" || discovers {
            let started =
                command.arguments.iter().filter(|word| executables.contains(word.as_str()));
            targets.extend(started.cloned());
        }
    }
    targets
}

fn split_at_word<'a>(words: &'a [String], word: &str) -> (&'a [String], &'a [String]) {
    let at = words.iter().position(|one| one == word).unwrap_or(words.len());
    (&words[..at], words.get(at + 1..).unwrap_or(&[]))
}

/// Reads a script into its commands; nothing where it does not hold together.
fn parse(bytes: &[u8]) -> Option<Vec<Command>> {
    let text = tree::text(bytes)?;
    let mut commands = Vec::new();
    let mut blocks: Vec<String> = Vec::new();
    let mut rest = text;
    loop {
        rest = blank(rest);
        if rest.is_empty() {
            break;
        }
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))?;
        let (name, after) = rest.split_at(end);
        if name.is_empty() {
            return None;
        }
        let name = name.to_ascii_lowercase();
        let (arguments, after) = arguments(blank(after).strip_prefix('(')?)?;
        rest = after;
        let words = arguments.join(" ");
        match name.as_str() {
            "else" => {
                let block = blocks.last_mut()?;
                block.insert_str(0, "not ");
                continue;
            }
            "elseif" => {
                let block = blocks.last_mut()?;
                *block = format!("not {block}, {words}");
                block.truncate(block.char_indices().nth(2000).map_or(block.len(), |(at, _)| at));
                continue;
            }
            "endif" | "endforeach" | "endwhile" | "endfunction" | "endmacro" | "endblock" => {
                blocks.pop();
                continue;
            }
            _ => {}
        }
        let opens =
            matches!(name.as_str(), "if" | "foreach" | "while" | "function" | "macro" | "block");
        let counted = Command { name: name.clone(), arguments, within: blocks.clone() };
        if opens {
            if blocks.len() >= MAX_BLOCKS {
                return None;
            }
            blocks.push(format!("{name}({words})"));
        }
        commands.push(counted);
    }
    (blocks.is_empty() && commands.len() <= MAX_COMMANDS).then_some(commands)
}

/// Leaves out blanks and comments.
fn blank(mut text: &str) -> &str {
    loop {
        text = text.trim_start();
        let Some(comment) = text.strip_prefix('#') else { return text };
        text = match bracket(comment) {
            Some((_, rest)) => rest,
            None => comment.find('\n').map_or("", |at| &comment[at..]),
        };
    }
}

/// A text between `[==[` and `]==]`.
fn bracket(text: &str) -> Option<(&str, &str)> {
    let inner = text.strip_prefix('[')?;
    let signs = inner.len() - inner.trim_start_matches('=').len();
    let body = inner[signs..].strip_prefix('[')?;
    let close = format!("]{}]", "=".repeat(signs));
    let at = body.find(&close)?;
    Some((&body[..at], &body[at + close.len()..]))
}

/// Reads arguments up to the closing parenthesis.
fn arguments(mut rest: &str) -> Option<(Vec<String>, &str)> {
    let mut words = Vec::new();
    let mut depth = 1_usize;
    loop {
        rest = blank(rest);
        let first = rest.chars().next()?;
        match first {
            ')' => {
                rest = &rest[1..];
                depth -= 1;
                if depth == 0 {
                    return Some((words, rest));
                }
                words.push(")".to_owned());
            }
            '(' => {
                rest = &rest[1..];
                depth += 1;
                words.push("(".to_owned());
            }
            '"' => {
                let mut end = None;
                let mut escaped = false;
                for (at, c) in rest.char_indices().skip(1) {
                    match c {
                        _ if escaped => escaped = false,
                        '\\' => escaped = true,
                        '"' => {
                            end = Some(at);
                            break;
                        }
                        _ => {}
                    }
                }
                let end = end?;
                words.push(rest[1..end].to_owned());
                rest = &rest[end + 1..];
            }
            _ => {
                if let Some((body, after)) = bracket(rest) {
                    words.push(body.to_owned());
                    rest = after;
                    continue;
                }
                let end = rest
                    .find(|c: char| c.is_whitespace() || "()\"#".contains(c))
                    .unwrap_or(rest.len());
                // Whatever stands here is taken, so that every turn moves on.
                let end = end.max(first.len_utf8());
                words.push(rest[..end].to_owned());
                rest = &rest[end..];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Judged, Mutable, compare};

    const BASE: &str = "cmake_minimum_required(VERSION 3.20)\nproject(calc C)\nenable_testing()\n\
        add_library(calc src/calc.c)\nadd_executable(t tests/t.c)\ntarget_link_libraries(t calc)\n\
        add_test(NAME add COMMAND t add)\n";

    fn judged(after: &str) -> Judged {
        compare("CMakeLists.txt", Some(BASE.as_bytes()), Some(after.as_bytes()), Mutable::No)
    }

    #[test]
    fn sources_layout_and_new_tests_are_free() {
        assert_eq!(judged(&BASE.replace("src/calc.c", "src/calc.c src/more.c")), Judged::Same);
        let laid = BASE.replace(
            "add_test(NAME add COMMAND t add)",
            "# c\nADD_TEST( NAME add\r\n  COMMAND t \"add\" )",
        );
        assert_eq!(judged(&laid), Judged::Same);
        let more = format!("{BASE}add_test(NAME sub COMMAND t sub)\n");
        assert!(matches!(judged(&more), Judged::Allowed(_)));
        let linked = BASE.replace("(t calc)", "(t calc m)");
        assert!(matches!(judged(&linked), Judged::Allowed(_)));
    }

    #[test]
    fn what_turns_a_result_is_a_breach() {
        for after in [
            format!("{BASE}set_tests_properties(add PROPERTIES WILL_FAIL TRUE)\n"),
            format!("{BASE}set_property(TEST add PROPERTY DISABLED TRUE)\n"),
            BASE.replace("add_test(NAME add COMMAND t add)", ""),
            BASE.replace("COMMAND t add", "COMMAND true"),
            BASE.replace(
                "add_test(NAME add COMMAND t add)",
                "if(OFF)\nadd_test(NAME add COMMAND t add)\nendif()",
            ),
            BASE.replace("enable_testing()", "macro(add_test)\nendmacro()\nenable_testing()"),
            BASE.replace("enable_testing()", "return()\nenable_testing()"),
            BASE.replace("project(calc C)", "project(calc C)\nadd_compile_definitions(NDEBUG)"),
            BASE.replace("tests/t.c", "tests/fake.c"),
            format!("{BASE}add_test("),
        ] {
            assert!(matches!(judged(&after), Judged::Breach(_)), "{after}");
        }
    }
}
