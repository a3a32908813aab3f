//! Lines that Azure Pipelines takes as logging commands.
//!
//! Escaping: the agent's `Command` and `taskcommand` of azure-pipelines-task-lib; paths are absolute.
//! The agent keeps ten errors and ten warnings of a step and drops the rest without a word.

use super::super::formats::{DOTENV, SUMMARY, dotenv, identity, legal};
use super::{headline, result_line};
use crate::ci::finding::{Finding, Level};
use crate::ci::subject::Subject;
use crate::domain::reason::HaltReason;
use std::path::PathBuf;

/// The most issues of a level, the one that counts the rest among them.
const MAX_ISSUES: usize = 10;
/// The most characters of a message.
const MAX_MESSAGE: usize = 2_000;

/// Returns the issues, the variables and, for a halt that does not fail the job, the warning sign.
pub fn lines(subject: &Subject) -> Vec<String> {
    let mut lines = vec![inert_line(subject)];
    for (level, kind) in [(Level::Error, "error"), (Level::Warning, "warning")] {
        lines.extend(issues(subject, level, kind));
    }
    for (key, value) in dotenv::variables(subject) {
        let name = variable_name(key);
        lines.push(command(
            "task.setvariable",
            &[("variable", &name), ("isOutput", "true")],
            &value,
        ));
    }
    let converged = HaltReason::SuccessConditionMet;
    let halted = subject.halt.as_ref().is_some_and(|halt| halt.reason != converged);
    if halted && !subject.fails {
        let text = result_line(subject);
        lines.push(command("task.complete", &[("result", "SucceededWithIssues")], &text));
    }
    lines
}

/// Returns the commands that show the summary and keep the files as an artifact.
pub fn uploads(files: &[PathBuf]) -> Vec<String> {
    let mut lines = Vec::new();
    for path in files {
        let (Some(path), Some(name)) = (path.to_str(), path.file_name()) else { continue };
        // What cleaning would change is another file's name.
        if !path.starts_with('/') || legal::line(path, usize::MAX) != path {
            continue;
        }
        if name == SUMMARY {
            lines.push(command("task.uploadsummary", &[], path));
        }
        if name != DOTENV {
            let place = [("containerfolder", "loopexec"), ("artifactname", "loopexec")];
            lines.push(command("artifact.upload", &place, path));
        }
    }
    lines
}

/// The result as a line of the log that is no command.
fn inert_line(subject: &Subject) -> String {
    super::inert::inert(crate::ci::platform::Platform::Azure, &result_line(subject))
}

fn issues(subject: &Subject, level: Level, kind: &str) -> Vec<String> {
    let all: Vec<&Finding> =
        subject.findings.iter().filter(|finding| finding.level == level).collect();
    let shown = if all.len() > MAX_ISSUES { MAX_ISSUES - 1 } else { all.len() };
    let mut lines: Vec<String> =
        all.iter().take(shown).map(|finding| issue(subject, finding, kind)).collect();
    if all.len() > shown {
        let more = format!("{} more; see the summary and the receipt", all.len() - shown);
        lines.push(command("task.logissue", &[("type", kind)], &more));
    }
    lines
}

fn issue(subject: &Subject, finding: &Finding, kind: &str) -> String {
    let code = identity::rule(finding);
    let message = legal::both(&headline(finding, 500), &finding.message, MAX_MESSAGE);
    let file = identity::file(finding.file.as_deref());
    let source = file.map(|file| subject.root.join(file).to_string_lossy().into_owned());
    let line = finding.line.map(|line| line.to_string());
    let mut properties = vec![("type", kind)];
    if let Some(source) = &source {
        properties.push(("sourcepath", source.as_str()));
        if let Some(line) = &line {
            properties.push(("linenumber", line.as_str()));
            properties.push(("columnnumber", "1"));
        }
    }
    properties.push(("code", &code));
    command("task.logissue", &properties, &message)
}

/// Returns the name of an output variable: `LOOPEXEC_HALT_REASON` as `haltReason`.
fn variable_name(key: &str) -> String {
    let mut name = String::new();
    for part in key.trim_start_matches("LOOPEXEC_").split('_') {
        let lower = part.to_ascii_lowercase();
        let mut letters = lower.chars();
        match letters.next() {
            Some(first) if !name.is_empty() => name.push(first.to_ascii_uppercase()),
            Some(first) => name.push(first),
            None => {}
        }
        name.push_str(letters.as_str());
    }
    name
}

/// Returns one command on one line.
pub fn command(name: &str, properties: &[(&str, &str)], data: &str) -> String {
    let mut line = format!("##vso[{name}");
    for (number, (key, value)) in properties.iter().enumerate() {
        line.push(if number == 0 { ' ' } else { ';' });
        line.push_str(&format!("{key}={}", property(value)));
    }
    line.push(']');
    line.push_str(&self::data(data));
    line
}

/// Escapes the data of a command.
pub fn data(text: &str) -> String {
    text.replace('%', "%AZP25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes the value of a property.
pub fn property(text: &str) -> String {
    data(text).replace(']', "%5D").replace(';', "%3B")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Command = (String, BTreeMap<String, String>, String);

    /// Reads a line as the agent does: the first `##vso[`, the first `]` after it, properties apart
    /// at `;` and at their first `=`, then every escape by itself.
    fn read(line: &str) -> Option<Command> {
        let start = line.find("##vso[")?;
        let end = start + line[start..].find(']')?;
        let inside = &line[start + 6..end];
        let (name, rest) = inside.split_once(' ').unwrap_or((inside, ""));
        let properties = rest
            .split(';')
            .filter_map(|pair| pair.trim().split_once('='))
            .map(|(key, value)| (key.to_owned(), unescape(value)))
            .collect();
        Some((name.to_owned(), properties, unescape(&line[end + 1..])))
    }

    fn unescape(text: &str) -> String {
        let text = text.replace("%3B", ";").replace("%0D", "\r").replace("%0A", "\n");
        text.replace("%5D", "]").replace("%AZP25", "%")
    }

    proptest! {
        #[test]
        fn a_command_comes_back_whole_and_alone(
            value in "[^\u{85}]*",
            text in prop_oneof![any::<String>(), "[%;\\]\r\n#vso\\[AZP25BD30]*"],
        ) {
            let value = value.trim().to_owned();
            let line = command("task.logissue", &[("type", "error"), ("sourcepath", &value)], &text);
            prop_assert!(!line.contains(['\r', '\n']));
            let (name, properties, data) = read(&line).unwrap();
            prop_assert_eq!(name, "task.logissue");
            prop_assert_eq!(properties.len(), 2);
            prop_assert_eq!(properties.get("sourcepath"), Some(&value));
            prop_assert_eq!(data, text);
        }
    }

    #[test]
    fn variables_are_named_as_azure_names_its_own() {
        assert_eq!(variable_name("LOOPEXEC_HALT_REASON"), "haltReason");
        assert_eq!(variable_name("LOOPEXEC_CHANGED"), "changed");
        assert_eq!(variable_name("LOOPEXEC_SPENT_USD"), "spentUsd");
    }

    #[test]
    fn only_absolute_plain_paths_are_uploaded() {
        let files = ["/w/loopexec-summary.md", "rel.xml", "/w/a\nb.xml", "/w/loopexec.env"];
        let lines = uploads(&files.map(PathBuf::from));
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert_eq!(lines[0], "##vso[task.uploadsummary]/w/loopexec-summary.md");
    }
}
