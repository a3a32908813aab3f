//! Lines that TeamCity takes as service messages.
//!
//! Format: TeamCity's page "Service Messages"; a problem's identity is a Java identifier of at most
//! 60 characters, its description at most 4,000.

use super::super::formats::{DOTENV, JUNIT, dotenv, identity, legal};
use super::{headline, result_line};
use crate::ci::finding::Level;
use crate::ci::subject::Subject;
use std::path::PathBuf;

/// The most characters of a description.
const MAX_DESCRIPTION: usize = 4_000;
/// The most characters of an identity.
pub const MAX_IDENTITY: usize = 60;
/// The most messages about findings; the files have all of them.
const MAX_MESSAGES: usize = 200;

/// Returns the build problem, a message for each finding, and the parameters.
///
/// A build problem and a message with status `ERROR` can fail a build, so that both are only there
/// where loopexec fails it.
pub fn lines(subject: &Subject) -> Vec<String> {
    let mut lines = Vec::new();
    if subject.fails {
        let description = legal::line(&result_line(subject), MAX_DESCRIPTION);
        let identity = identity(subject);
        lines.push(message(
            "buildProblem",
            &[("description", &description), ("identity", &identity)],
        ));
    } else {
        lines.push(message(
            "buildStatus",
            &[(
                "text",
                &format!("{}; {{build.status.text}}", legal::line(&result_line(subject), 300)),
            )],
        ));
    }
    for finding in subject.findings.iter().take(MAX_MESSAGES) {
        let status = match finding.level {
            Level::Error if subject.fails => "ERROR",
            Level::Error | Level::Warning => "WARNING",
            Level::Notice => "NORMAL",
        };
        let text = legal::both(&headline(finding, 500), &finding.message, MAX_DESCRIPTION);
        lines.push(message("message", &[("text", &text), ("status", status)]));
    }
    if subject.findings.len() > MAX_MESSAGES {
        let more = format!("{} more in the reports", subject.findings.len() - MAX_MESSAGES);
        lines.push(message("message", &[("text", &more), ("status", "NORMAL")]));
    }
    for (key, value) in dotenv::variables(subject) {
        let name = format!("loopexec.{}", key.trim_start_matches("LOOPEXEC_").to_lowercase());
        lines.push(message("setParameter", &[("name", &name), ("value", &value)]));
    }
    lines
}

/// Returns the messages that keep the files as artifacts and, where loopexec fails the build, take
/// up the JUnit report, whose failed tests fail it too.
pub fn uploads(subject: &Subject, files: &[PathBuf]) -> Vec<String> {
    let mut lines = Vec::new();
    for path in files {
        let (Some(path), Some(name)) = (path.to_str(), path.file_name()) else { continue };
        // In a specification of artifacts these separate, lead elsewhere or stand for many files.
        let special =
            path.contains([',', '*', '?', '+', '!', '(', ')', '%']) || path.contains("=>");
        if special || legal::line(path, usize::MAX) != path {
            continue;
        }
        if name == JUNIT && subject.fails {
            lines.push(message("importData", &[("type", "junit"), ("path", path)]));
        }
        if name != DOTENV {
            lines.push(format!(
                "##teamcity[publishArtifacts '{}']",
                escape(&format!("{path} => loopexec"))
            ));
        }
    }
    lines
}

/// Returns what the same problem is called in every build.
fn identity(subject: &Subject) -> String {
    let reason = subject.halt.as_ref().map_or("incomplete", |halt| halt.reason.as_str());
    let mut identity = format!("loopexec_{reason}_{}", identity::key_digest(&subject.key));
    identity.truncate(MAX_IDENTITY);
    identity
}

/// Returns one message on one line.
pub fn message(name: &str, attributes: &[(&str, &str)]) -> String {
    let mut line = format!("##teamcity[{name}");
    for (key, value) in attributes {
        line.push_str(&format!(" {key}='{}'", escape(value)));
    }
    line.push(']');
    line
}

/// Escapes a value; what is not ASCII is written by its UTF-16 units.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut units = [0_u16; 2];
    for c in text.chars() {
        match c {
            '|' | '\'' | '[' | ']' => {
                escaped.push('|');
                escaped.push(c);
            }
            '\n' => escaped.push_str("|n"),
            '\r' => escaped.push_str("|r"),
            ' '..='~' => escaped.push(c),
            c => {
                for unit in c.encode_utf16(&mut units) {
                    escaped.push_str(&format!("|0x{unit:04X}"));
                }
            }
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::reason::HaltReason;
    use proptest::prelude::*;

    /// Reads a message by the page's grammar: a name, then attributes in quotes, each quote and
    /// bracket that ends something being one that no bar stands before.
    fn read(line: &str) -> Option<(String, Vec<(String, String)>)> {
        let rest = line.strip_prefix("##teamcity[")?;
        let (name, mut rest) = rest.split_at(rest.find([' ', ']'])?);
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(' ');
            if let Some(after) = rest.strip_prefix(']') {
                return after.is_empty().then(|| (name.to_owned(), attributes));
            }
            let (key, value) = rest.split_once("='")?;
            let mut units = Vec::new();
            let mut chars = value.char_indices();
            let end = loop {
                let (at, c) = chars.next()?;
                match c {
                    '\'' => break at,
                    '[' | ']' => return None,
                    '|' => match chars.next()?.1 {
                        'n' => units.push(u16::from(b'\n')),
                        'r' => units.push(u16::from(b'\r')),
                        '0' => {
                            assert_eq!(chars.next()?.1, 'x');
                            let hex: String = chars.by_ref().take(4).map(|(_, c)| c).collect();
                            units.push(u16::from_str_radix(&hex, 16).ok()?);
                        }
                        c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
                    },
                    c => units.extend(c.encode_utf16(&mut [0; 2]).iter()),
                }
            };
            attributes.push((key.to_owned(), String::from_utf16(&units).ok()?));
            rest = &value[end + 1..];
        }
    }

    proptest! {
        #[test]
        fn a_message_comes_back_whole_and_alone(
            text in prop_oneof![any::<String>(), "[|'\\[\\]\r\n#n0xa-f\u{85}\u{2028}𝄞]*"],
        ) {
            let line = message("message", &[("text", &text), ("status", "ERROR")]);
            prop_assert!(line.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
            let (name, attributes) = read(&line).unwrap();
            prop_assert_eq!(name, "message");
            prop_assert_eq!(
                attributes,
                vec![("text".to_owned(), text), ("status".to_owned(), "ERROR".to_owned())]
            );
        }
    }

    #[test]
    fn every_identity_is_a_java_identifier_that_fits() {
        for reason in HaltReason::ALL {
            let length = "loopexec__".len() + reason.as_str().len() + 16;
            assert!(length <= MAX_IDENTITY, "{reason}");
            let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
            assert!(reason.as_str().chars().all(fits), "{reason}");
        }
    }
}
