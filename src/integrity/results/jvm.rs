//! Reads from the text of Maven and Gradle why a build failed; their tests stand in reports.

use super::lines::each_line;
use super::tally::{MAX_MESSAGE, Tally};
use crate::domain::results::{Results, Runner};

/// A streaming reader of both.
#[derive(Debug, Default)]
pub(super) struct Jvm {
    failed: Option<Runner>,
    open: bool,
    message: String,
}

impl Jvm {
    /// Takes one line.
    pub(super) fn line(&mut self, line: &str) {
        if self.failed.is_none() {
            let maven =
                ["[ERROR] COMPILATION ERROR", "[ERROR] Some problems were encountered while"];
            let gradle =
                line.strip_prefix("> Task :").and_then(|rest| rest.strip_suffix(" FAILED"));
            let task = gradle.map(|task| task.rsplit(':').next().unwrap_or(task));
            if maven.iter().any(|start| line.starts_with(start)) {
                self.failed = Some(Runner::Maven);
                self.open = true;
            } else if task.is_some_and(|task| task.starts_with("compile")) {
                self.failed = Some(Runner::Gradle);
                self.open = true;
            }
            return;
        }
        if line.starts_with("[INFO] BUILD FAILURE") || line.starts_with("* Try:") {
            self.open = false;
        }
        let rule = line.trim_start_matches("[INFO]").trim_start_matches("[ERROR]").trim();
        if self.open && !rule.trim_matches('-').is_empty() && self.message.len() < MAX_MESSAGE {
            self.message.push_str(rule);
            self.message.push('\n');
        }
    }

    /// Returns what was read; `None` where no build failed.
    pub(super) fn finish(self) -> Option<Results> {
        let mut tally = Tally::new(self.failed?, &[]);
        tally.broken(&format!("The build failed.\n{}", self.message));
        Some(tally.finish())
    }
}

/// Reads one text.
pub(super) fn parse(bytes: &[u8], _roots: &[String]) -> Results {
    let mut reader = Jvm::default();
    each_line(bytes, &mut |line| reader.line(line));
    reader.finish().unwrap_or_else(|| Results::new(Runner::Maven))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_does_not_compile_says_why() {
        let r = parse(b"[INFO] x\n[ERROR] COMPILATION ERROR : \n[INFO] ------\n[ERROR] /w/A.java:[3,5] cannot find symbol\n[INFO] BUILD FAILURE\n[INFO] later\n", &[]);
        assert_eq!(
            r.broken.as_deref(),
            Some("The build failed.\n/w/A.java:[3,5] cannot find symbol")
        );
        let r = parse(
            b"> Task :app:compileJava FAILED\n/w/A.java:3: error: ';' expected\n* Try:\n",
            &[],
        );
        assert_eq!(r.runner, Runner::Gradle);
        assert!(r.broken.is_some_and(|text| text.contains("';' expected")));
        assert_eq!(parse(b"> Task :test FAILED\n[ERROR] Tests run: 1\n", &[]).broken, None);
    }
}
