//! Foreign text in a log that no platform takes for a command.
//!
//! GitHub's own fence is `github::commands`'; this is for the platforms that have none.

use super::super::platform::Platform;
use crate::report::text::clean;

/// What stands between the signs of a command so that it is none.
const BREAK: char = ' ';

/// Returns lines that may be printed to the platform's log: without control characters (so nothing
/// moves a cursor, ends a line early, or opens or closes a section of GitLab), and with the signs
/// broken that start a command anywhere in a line of Azure, TeamCity or GitHub, or a group at the
/// start of a line of Buildkite.
pub fn inert(platform: Platform, text: &str) -> String {
    let text = clean(&text.replace("\r\n", "\n").replace('\r', "\n"));
    let mut safe = String::with_capacity(text.len());
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            safe.push('\n');
        }
        push_line(&mut safe, platform, line);
    }
    safe
}

fn push_line(safe: &mut String, platform: Platform, line: &str) {
    let start = line.trim_start();
    let is_group = ["---", "+++", "~~~", "***", "^^^"].iter().any(|sign| start.starts_with(sign));
    let is_command = start.starts_with("::");
    match platform {
        Platform::Buildkite if is_group => safe.push_str("| "),
        Platform::GitHub | Platform::Gitea if is_command => safe.push_str("| "),
        _ => {}
    }
    let mut rest = line;
    // `##vso[`, `##[`, `##teamcity[`: all begin with the two signs.
    while let Some(at) = rest.find("##") {
        safe.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        if begins_command(&rest[1..]) {
            safe.push(BREAK);
        }
    }
    safe.push_str(rest);
}

/// Tells whether what follows `##` makes it a command: letters and then a bracket.
fn begins_command(rest: &str) -> bool {
    rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').starts_with('[')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn signs_of_commands_are_broken_and_other_text_is_not() {
        let of = |text| inert(Platform::Azure, text);
        assert_eq!(of("x ##vso[task.complete]y"), "x # #vso[task.complete]y");
        assert_eq!(of("##[error]a\r##teamcity[b]"), "# #[error]a\n# #teamcity[b]");
        assert_eq!(of("###[a]"), "## #[a]");
        assert_eq!(of("## Heading\n#1 ##"), "## Heading\n#1 ##");
        assert_eq!(inert(Platform::Buildkite, "--- a\nb"), "| --- a\nb");
        assert_eq!(inert(Platform::GitHub, " ::error::a"), "|  ::error::a");
        let section = "\x1b[0Ksection_end:1:a\r\x1b[0K";
        assert!(!inert(Platform::GitLab, section).contains(['\x1b', '\r']));
    }

    proptest! {
        #[test]
        fn nothing_that_starts_a_command_is_left(
            parts in proptest::collection::vec(
                prop_oneof![
                    Just("##vso[".to_owned()), Just("##[".to_owned()), Just("#".to_owned()),
                    Just("##teamcity[".to_owned()), Just("\r".to_owned()), Just("\n".to_owned()),
                    Just("+++ ".to_owned()), Just("::".to_owned()), any::<String>(),
                ],
                0..12,
            ),
            platform in proptest::sample::select(Platform::ALL.to_vec()),
        ) {
            let safe = inert(platform, &parts.concat());
            prop_assert!(!safe.contains("##vso["));
            prop_assert!(!safe.contains("##["));
            prop_assert!(!safe.contains("##teamcity["));
            let moves = |c: char| c != '\n' && c != '\t' && c.is_control();
            prop_assert!(!safe.contains(moves));
            for line in safe.lines().map(str::trim_start) {
                prop_assert!(platform != Platform::Buildkite || !line.starts_with("+++"));
                prop_assert!(platform != Platform::GitHub || !line.starts_with("::"));
            }
            prop_assert_eq!(inert(platform, &safe), safe);
        }
    }
}
