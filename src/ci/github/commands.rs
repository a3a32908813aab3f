//! Workflow commands: annotations, groups, masks, and the fence round foreign output.
//!
//! The runner reads every line of both streams: it is a command when it starts with `::` behind
//! blanks, or when `##[name` stands anywhere in it (`ActionCommand.cs` and `ActionCommandManager.cs`
//! of actions/runner). stdout and stderr are read side by side, so what must keep its order (a
//! fence, what is in it, what comes after it) goes to one of the two.

use crate::ci::finding::{Finding, Level, MESSAGE_CHARS, MORE, bounded};
use crate::domain::normalise::strip_ansi;
use crate::report::text::{clean, one_line};

/// Annotations of one level that one step may leave; the runner drops the rest without a word
/// (`_maxCountPerIssueType` in `ExecutionContext.cs`).
pub const PER_LEVEL: usize = 10;
/// Characters of an annotation's title (GitHub's API description, `annotations.title`).
pub const TITLE_CHARS: usize = 255;
/// Characters of the shortest value that is masked: a mask of less blots out half of the log, and
/// the runner skips every output of a job that holds a masked text.
pub const MASKED_CHARS: usize = 4;

/// Escapes what stands behind the second `::` of a command.
pub fn escape_data(text: &str) -> String {
    // `%` first: the runner puts it back last.
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property of a command.
pub fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Returns the command, on one line, that makes an annotation of a finding.
///
/// Control characters and terminal escapes are gone; message and title are cut where the platform
/// would cut them.
pub fn annotation(finding: &Finding) -> String {
    let name = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Notice => "notice",
    };
    let mut properties = Vec::new();
    let title = one_line(&strip_ansi(&finding.title), TITLE_CHARS);
    let title = bounded(harmless(&title).trim(), TITLE_CHARS);
    // The runner drops empty properties, and takes `=` at the head of a value away.
    match title.chars().next() {
        None => {}
        Some('=') => properties.push(format!("title= {}", escape_property(&title))),
        Some(_) => properties.push(format!("title={}", escape_property(&title))),
    }
    if let Some(file) = finding.file.as_deref().filter(|file| can_be_told(file)) {
        properties.push(format!("file={}", escape_property(file)));
        if let Some(line) = finding.line {
            properties.push(format!("line={line}"));
        }
    }
    let space = if properties.is_empty() { "" } else { " " };
    let message = harmless(strip_ansi(&finding.message).trim());
    let message = escape_data(&bounded(&message, MESSAGE_CHARS));
    format!("::{name}{space}{}::{message}", properties.join(","))
}

/// Tells whether a file comes through the runner as it is: others it would take for other files, or
/// for a command where it does not know this one.
fn can_be_told(file: &str) -> bool {
    let is_kept = !file.is_empty() && !file.starts_with('=') && file.trim_end() == file;
    is_kept && !file.contains("##[")
}

/// Returns the findings that one step can show, in their order: of each level all where it has
/// room for them, else the first ones and one that counts the others.
///
/// One warning less than there is room for: what could not be told is said in one of our own.
pub fn select(findings: &[Finding]) -> Vec<Finding> {
    let mut shown = Vec::new();
    let mut more = Vec::new();
    for level in [Level::Error, Level::Warning, Level::Notice] {
        let all: Vec<usize> =
            (0..findings.len()).filter(|at| findings[*at].level == level).collect();
        let room = if level == Level::Warning { PER_LEVEL - 1 } else { PER_LEVEL };
        if all.len() <= room {
            shown.extend(all);
            continue;
        }
        let left_out = all.len() - (room - 1);
        shown.extend(&all[..room - 1]);
        let title = format!("{left_out} more");
        let message = format!("{left_out} more, see the summary of the job and the receipt.");
        more.push(Finding::new(level, MORE, &title, &message));
    }
    shown.sort_unstable();
    shown.into_iter().map(|at| findings[at].clone()).chain(more).collect()
}

/// Returns the command that opens a group of lines in the log.
pub fn group(title: &str) -> String {
    let title = harmless(&one_line(&strip_ansi(title), TITLE_CHARS));
    format!("::group::{}", escape_data(title.trim()))
}

/// Returns the command that closes the open group.
pub const fn endgroup() -> &'static str {
    "::endgroup::"
}

/// Returns the commands that mask a secret value: its lines, and the whole where that is more.
///
/// Nothing for a value that is too short to be one. The runner also masks each line of a value it
/// is given, so that a value with a short line (`{`) is masked by its longer lines alone. Never
/// printed inside a fence: there it would be text, and in the log.
pub fn mask(value: &str) -> Vec<String> {
    let is_long = |line: &str| line.trim().chars().count() >= MASKED_CHARS;
    let lines = || value.split(['\r', '\n']).filter(|line| !line.is_empty());
    let mut values: Vec<&str> = Vec::new();
    if lines().all(is_long) {
        values.push(value);
    }
    for line in lines().filter(|line| is_long(line)) {
        for form in [line, line.trim()] {
            if !values.contains(&form) {
                values.push(form);
            }
        }
    }
    values.retain(|value| is_long(value));
    values.iter().map(|value| format!("::add-mask::{}", escape_data(value))).collect()
}

/// A fence: between its two lines the runner takes nothing for a command.
///
/// One fence is used for one piece of foreign output, so that nothing that was printed can have
/// seen its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    token: String,
}

impl Fence {
    /// Makes a fence that nobody can guess.
    pub fn fresh() -> Self {
        Self { token: token() }
    }

    /// Returns the line that opens it.
    pub fn open_line(&self) -> String {
        format!("::stop-commands::{}", self.token)
    }

    /// Returns the line that closes it; it must start a line.
    pub fn close_line(&self) -> String {
        format!("::{}::", self.token)
    }

    /// Returns foreign output with the fence round it, every line ended.
    pub fn around(&self, output: &str) -> String {
        let end = if output.is_empty() || output.ends_with('\n') { "" } else { "\n" };
        format!("{}\n{output}{end}{}\n", self.open_line(), self.close_line())
    }
}

/// Returns text of ours that may quote foreign text, so that no line of it is a command: for every
/// line on GitHub that stands in no fence.
///
/// `##[` becomes `# #[`, and `::` at the start of a line `: :`. Control characters become `\u{fffd}`,
/// so that there are no other lines than those that end in `\n`.
pub fn harmless(text: &str) -> String {
    let text = clean(text).replace("##[", "# #[");
    text.split('\n').map(without_head).collect::<Vec<_>>().join("\n")
}

/// Returns JSON that says the same and holds no command: `##` stands only in strings, where it may
/// be written another way.
///
/// It also parts `##vso[` of Azure and `##teamcity[`.
pub fn harmless_json(json: &str) -> String {
    json.replace("##", "\\u0023\\u0023")
}

/// Parts the two colons that a line starts with.
///
/// Whatever is not printable ASCII counts as a blank: which characters the runner's comparison
/// skips depends on its culture.
fn without_head(line: &str) -> String {
    let is_blank = |c: &char| !c.is_ascii_graphic();
    let mut colons = line.char_indices().filter(|(_, c)| !is_blank(c)).take(2);
    if let (Some((first, ':')), Some((second, ':'))) = (colons.next(), colons.next())
        && !line[first..second].contains(' ')
    {
        return format!("{} {}", &line[..=first], &line[second..]);
    }
    line.to_owned()
}

/// Returns 128 fresh random bits as hexadecimal digits.
pub(super) fn token() -> String {
    // A ULID's time can be guessed; its 80 other bits come from a generator made for secrets.
    let half = || ulid::Ulid::generate().random() & u128::from(u64::MAX);
    format!("{:016x}{:016x}", half(), half())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A command as the runner understands a line.
    #[derive(Debug, PartialEq)]
    struct Command {
        name: String,
        properties: BTreeMap<String, String>,
        data: String,
    }

    fn unescape(text: &str, pairs: &[(&str, &str)]) -> String {
        pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    }

    const DATA: [(&str, &str); 3] = [("%0D", "\r"), ("%0A", "\n"), ("%25", "%")];
    const PROPERTY: [(&str, &str); 5] =
        [("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")];
    const FIRST: [(&str, &str); 5] =
        [("%3B", ";"), ("%0D", "\r"), ("%0A", "\n"), ("%5D", "]"), ("%25", "%")];

    fn command(
        info: &str,
        data: String,
        separator: char,
        pairs: &[(&str, &str)],
        is_known: &dyn Fn(&str) -> bool,
    ) -> Option<Command> {
        let (name, rest) = info.split_once(' ').unwrap_or((info, ""));
        if !is_known(name) {
            return None;
        }
        let mut properties = BTreeMap::new();
        for property in rest.trim().split(separator) {
            let property = property.trim_start_matches('=');
            if let Some((key, value)) = property.split_once('=') {
                // Empty entries are removed before the count is taken.
                let value = value.trim_start_matches('=');
                if !value.is_empty() {
                    properties.insert(key.to_owned(), unescape(value, pairs));
                }
            }
        }
        Some(Command { name: name.to_owned(), properties, data })
    }

    /// The form `::name key=value,…::data`, at the start of a line.
    fn second(line: &str, is_known: &dyn Fn(&str) -> bool) -> Option<Command> {
        let rest = line.trim_start().strip_prefix("::")?;
        let (info, data) = rest.split_once("::")?;
        command(info, unescape(data, &DATA), ',', &PROPERTY, is_known)
    }

    /// The form `##[name key=value;…]data`, anywhere in a line.
    fn first(line: &str, is_known: &dyn Fn(&str) -> bool) -> Option<Command> {
        let (_, rest) = line.split_once("##[")?;
        let (info, data) = rest.split_once(']')?;
        command(info, unescape(data, &FIRST), ';', &FIRST, is_known)
    }

    fn lines(text: &str) -> Vec<&str> {
        text.split(['\r', '\n']).collect()
    }

    /// The runner: what it takes for commands in all that a step prints.
    fn commands(printed: &str) -> Vec<Command> {
        let known = [
            "error",
            "warning",
            "notice",
            "group",
            "endgroup",
            "add-mask",
            "stop-commands",
            "set-output",
            "save-state",
            "debug",
            "add-matcher",
            "echo",
        ];
        let mut stopped: Option<String> = None;
        let mut done = Vec::new();
        for line in lines(printed) {
            let token = stopped.clone();
            let is_known = |name: &str| {
                let same = |known: &str| known.eq_ignore_ascii_case(name);
                known.iter().any(|known| same(known)) || token.as_deref().is_some_and(same)
            };
            let Some(found) = second(line, &is_known).or_else(|| first(line, &is_known)) else {
                continue;
            };
            match &stopped {
                Some(token) if found.name.eq_ignore_ascii_case(token) => stopped = None,
                Some(_) => {}
                None if found.name == "stop-commands" => stopped = Some(found.data),
                None => done.push(found),
            }
        }
        assert_eq!(stopped, None, "a fence stays open");
        done
    }

    fn hostile() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            proptest::sample::select(vec![
                "::",
                ":",
                "##[",
                "#",
                "[",
                "]",
                "%",
                "%0A",
                "%25",
                "%3A",
                "\n",
                "\r",
                "\r\n",
                " ",
                "\t",
                "error",
                "::error::",
                "::error file=a,line=1::x",
                "##[error]x",
                "::set-output name=a::b",
                "::stop-commands::x",
                "::add-mask::a",
                "::endgroup::",
                "=",
                ",",
                ";",
                "\u{ad}",
                "\u{200b}",
                "\u{85}",
                "\u{2028}",
                "\u{feff}",
                "\u{1b}[31m",
                "ä",
                "🦀",
            ])
            .prop_map(str::to_owned),
            any::<char>().prop_map(String::from),
            "[a-z]{1,4}",
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
    }

    fn any_name(_: &str) -> bool {
        true
    }

    proptest! {
        #[test]
        fn escapes_round_trip_through_the_runner(text in hostile()) {
            prop_assert_eq!(unescape(&escape_data(&text), &DATA), text.clone());
            prop_assert!(!escape_data(&text).contains(['\r', '\n']));
            prop_assert_eq!(unescape(&escape_property(&text), &PROPERTY), text.clone());
            prop_assert!(!escape_property(&text).contains(['\r', '\n', ':', ',']));
        }

        #[test]
        fn an_annotation_is_one_command_that_says_what_it_was_given(
            title in hostile(), message in hostile(), file in hostile(), line in any::<u32>(),
        ) {
            let file = Some(file).filter(|file| !file.is_empty());
            let finding = Finding::new(Level::Warning, "r", &title, &message).at(file.clone(), Some(line));
            let printed = annotation(&finding);
            prop_assert_eq!(lines(&printed).len(), 1);
            let found = second(&printed, &|name| name == "warning");
            prop_assert!(found.is_some(), "{}", printed);
            let found = found.unwrap();
            prop_assert_eq!(&found.data, &harmless(strip_ansi(&message).trim()));
            let plain = harmless(&one_line(&strip_ansi(&title), TITLE_CHARS));
            let told = found.properties.get("title").map_or("", String::as_str);
            prop_assert_eq!(told.trim(), plain.trim());
            // A file is told as it is or not at all.
            let told = found.properties.get("file");
            prop_assert!(told.is_none() || told == file.as_ref(), "{:?}", told);
            if told.is_none() {
                prop_assert!(!found.properties.contains_key("line"));
            }
            // A runner that does not know the command takes nothing else for one.
            prop_assert_eq!(first(&printed, &|name| name != "warning"), None);
        }

        #[test]
        fn no_line_of_our_talk_is_a_command(text in hostile()) {
            let printed = harmless(&text);
            for line in lines(&printed) {
                prop_assert_eq!(second(line, &any_name), None);
                prop_assert_eq!(first(line, &any_name), None);
                // Nor where the comparison skips what cannot be seen.
                let seen: String = line.chars().filter(|c| c.is_ascii_graphic()).collect();
                prop_assert!(!seen.starts_with("::") || line.contains(": :"), "{:?}", line);
            }
            prop_assert_eq!(harmless(&printed), printed);
        }

        #[test]
        fn json_says_the_same_and_is_no_command(text in hostile()) {
            let value = serde_json::json!({ "why": text, "#": [[format!("\\##{text}")]] });
            let printed = harmless_json(&value.to_string());
            prop_assert_eq!(lines(&printed).len(), 1);
            prop_assert_eq!(first(&printed, &any_name), None);
            prop_assert_eq!(second(&printed, &any_name), None);
            let read: serde_json::Value = serde_json::from_str(&printed).unwrap();
            prop_assert_eq!(read, value);
        }

        #[test]
        fn nothing_leaves_a_fence(output in hostile(), after in hostile()) {
            let finding = Finding::new(Level::Error, "r", "t", &after);
            let fence = Fence::fresh();
            let printed = format!("{}{}\n", fence.around(&output), annotation(&finding));
            let done = commands(&printed);
            prop_assert_eq!(done.len(), 1, "{}", printed);
            prop_assert_eq!(&done[0].name, "error");
        }

        #[test]
        fn a_group_is_one_command(title in hostile()) {
            let printed = group(&title);
            let done = commands(&printed);
            prop_assert_eq!(done.len(), 1);
            prop_assert_eq!(&done[0].name, "group");
        }

        #[test]
        fn masks_cover_every_line_and_nothing_short(value in "[ab{}\\r\\n%: ]{0,24}") {
            let mut masked = Vec::new();
            for done in commands(&mask(&value).join("\n")) {
                prop_assert_eq!(&done.name, "add-mask");
                masked.extend(done.data.split(['\r', '\n']).filter(|line| !line.is_empty()).map(str::to_owned));
            }
            prop_assert!(masked.iter().all(|line| line.trim().chars().count() >= MASKED_CHARS));
            for line in lines(&value) {
                let is_long = line.trim().chars().count() >= MASKED_CHARS;
                prop_assert_eq!(is_long, masked.iter().any(|masked| masked == line));
            }
        }
    }

    #[test]
    fn harmless_text_stays_readable() {
        assert_eq!(
            harmless("a::b ##[error]x\n  ::error::y\n"),
            "a::b # #[error]x\n  : :error::y\n"
        );
        assert_eq!(harmless("tests/a.py::test_b"), "tests/a.py::test_b");
        assert_eq!(harmless("x\r::error::y"), "x\u{fffd}::error::y");
        assert_eq!(harmless("\u{ad}::error::y"), "\u{ad}: :error::y");
    }

    #[test]
    fn masks_of_a_key_of_many_lines() {
        assert_eq!(mask("s3cret"), ["::add-mask::s3cret"]);
        assert_eq!(
            mask("line-1\nline-2"),
            ["::add-mask::line-1%0Aline-2", "::add-mask::line-1", "::add-mask::line-2"]
        );
        assert_eq!(
            mask("{\n  \"key\": 1\n}"),
            ["::add-mask::  \"key\": 1", "::add-mask::\"key\": 1"]
        );
        for short in ["", "  \n ", "abc", "a\nb"] {
            assert!(mask(short).is_empty(), "{short:?}");
        }
    }

    #[test]
    fn no_two_fences_are_alike() {
        let tokens: std::collections::BTreeSet<String> = (0..1000).map(|_| token()).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(
            tokens
                .iter()
                .all(|token| token.len() == 32 && token.bytes().all(|b| b.is_ascii_hexdigit()))
        );
    }

    #[test]
    fn as_many_are_shown_as_the_platform_shows_and_the_first_stays_first() {
        let many = |level, count: usize| {
            (0..count).map(move |n| Finding::new(level, "r", &format!("{level:?} {n}"), "m"))
        };
        let halt = Finding::new(Level::Error, "no_progress_detected", "halted", "why");
        let mut all = vec![halt.clone()];
        all.extend(many(Level::Error, 30));
        all.extend(many(Level::Notice, 10));
        all.extend(many(Level::Warning, 11));
        let shown = select(&all);
        assert_eq!(shown[0], halt);
        for (level, count, left_out) in
            [(Level::Error, 10, 22), (Level::Warning, 9, 3), (Level::Notice, 10, 0)]
        {
            let of: Vec<_> = shown.iter().filter(|finding| finding.level == level).collect();
            assert_eq!(of.len(), count, "{level:?}");
            let more: Vec<_> = of.iter().filter(|finding| finding.rule == MORE).collect();
            match left_out {
                0 => assert!(more.is_empty()),
                n => assert_eq!(more[0].title, format!("{n} more")),
            }
        }
    }

    #[test]
    fn long_texts_are_cut_where_the_platform_would_cut_them() {
        let finding = Finding {
            level: Level::Error,
            rule: "r".into(),
            title: "🦀".repeat(1_000),
            message: "🦀\n".repeat(10_000),
            file: None,
            line: Some(3),
        };
        let printed = annotation(&finding);
        let found = second(&printed, &any_name).unwrap();
        let units = |text: &str| text.encode_utf16().count();
        assert!((MESSAGE_CHARS - 3..=MESSAGE_CHARS).contains(&units(&found.data)));
        assert!((TITLE_CHARS - 3..=TITLE_CHARS).contains(&units(&found.properties["title"])));
        assert!(!found.properties.contains_key("line"));
    }
}
