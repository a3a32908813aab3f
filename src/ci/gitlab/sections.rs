//! Collapsible sections of the log.
//!
//! Source: GitLab's page "CI/CD job logs", "Custom collapsible sections". The escape codes here are
//! the only ones that loopexec writes into such a log; what is not ours goes through
//! [`others::inert`](crate::ci::others::inert::inert), which takes every one of them out.

use crate::ci::formats::legal;

/// Clears what stands in the line, so that the code is not shown.
const CLEAR: &str = "\x1b[0K";

/// Whether a section is open when the log is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// It is.
    Open,
    /// Only its title is seen.
    Collapsed,
}

/// Returns the line that starts a section; `time` is in seconds since 1970.
pub fn start(name: &str, title: &str, time: u64, shown: Shown) -> String {
    let option = match shown {
        Shown::Open => "",
        Shown::Collapsed => "[collapsed=true]",
    };
    let title = legal::line(title, 200);
    format!("{CLEAR}section_start:{time}:{}{option}\r{CLEAR}{title}", name_of(name))
}

/// Returns the line that ends a section.
pub fn end(name: &str, time: u64) -> String {
    format!("{CLEAR}section_end:{time}:{}\r{CLEAR}", name_of(name))
}

/// Returns the name in the characters that a section may have.
fn name_of(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).take(64).collect();
    if name.is_empty() { "loopexec".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_section_is_written_as_gitlab_reads_it() {
        assert_eq!(
            start("a b", "Title", 5, Shown::Collapsed),
            "\x1b[0Ksection_start:5:a_b[collapsed=true]\r\x1b[0KTitle"
        );
        assert_eq!(end("a b", 6), "\x1b[0Ksection_end:6:a_b\r\x1b[0K");
    }

    proptest! {
        #[test]
        fn no_name_and_no_title_makes_a_second_code(name in any::<String>(), title in any::<String>()) {
            let line = start(&name, &title, 1, Shown::Open);
            prop_assert_eq!(line.matches('\x1b').count(), 2);
            prop_assert_eq!(line.matches('\r').count(), 1);
            prop_assert!(!line.contains('\n'));
            prop_assert!(line.starts_with("\x1b[0Ksection_start:1:"));
        }
    }
}
