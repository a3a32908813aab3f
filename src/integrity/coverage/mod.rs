//! Line coverage from any of the usual reports, and the floor it may not fall under.
//!
//! The floor stands on the lines of t0: neither an exclusion nor a file that left the report can
//! raise it. Each format has its own file; which one a report is in is told by its content.

mod floor;
mod formats;
mod marks;
mod xml;

pub use floor::{FileState, Floor, floor};
pub use marks::exclusion_marks;

use std::collections::{BTreeMap, BTreeSet};

/// The largest report that is read.
const MAX_REPORT: usize = 128 << 20;
/// The most lines of all files together.
const MAX_LINES: usize = 8_000_000;
/// The largest line number that is believed.
const MAX_LINE: u32 = 10_000_000;

/// Which lines of one file a run went through; lines count from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileCoverage {
    /// Lines that can be executed.
    pub executable: BTreeSet<u32>,
    /// Those of them that were.
    pub covered: BTreeSet<u32>,
    /// Lines that the report says were left out; only coverage.py says so.
    pub excluded: BTreeSet<u32>,
}

/// The coverage of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Coverage {
    /// By path from the root, separated by `/`; by what the report calls them where that is not
    /// known.
    pub files: BTreeMap<String, FileCoverage>,
}

impl Coverage {
    /// Returns what percentage of the executable lines of `denominators` this run covers; a line or
    /// a file that left the report is not covered. Nothing where there are no such lines.
    pub fn percent_on(&self, denominators: &Self) -> Option<f64> {
        let (mut all, mut covered) = (0_u64, 0_u64);
        for (path, was) in &denominators.files {
            all += was.executable.len() as u64;
            if let Some(is) = self.files.get(path) {
                covered += was.executable.intersection(&is.covered).count() as u64;
            }
        }
        (all > 0).then(|| covered as f64 * 100.0 / all as f64)
    }
}

/// Reads a report: lcov, Cobertura, JaCoCo, a Go profile or coverage.py's JSON.
///
/// `roots` are absolute folders that paths are made relative to. `packages` gives the file of a Go
/// import path or of a JaCoCo source (`com/a/B.java`); where it gives none, the report's own name
/// stays.
///
/// # Errors
/// One sentence, where the report is of no known format, broken, too large, or has no line at all.
pub fn parse(
    bytes: &[u8],
    roots: &[String],
    packages: &dyn Fn(&str) -> Option<String>,
) -> Result<Coverage, String> {
    if bytes.len() > MAX_REPORT {
        return Err(format!("The coverage report is larger than {} MiB.", MAX_REPORT >> 20));
    }
    let text = std::str::from_utf8(bytes)
        .map_err(|_| "The coverage report is not UTF-8 text.".to_owned())?;
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let mut gather = Gather { roots, packages, coverage: Coverage::default(), lines: 0 };
    if text.starts_with('<') {
        xml::read(text, &mut gather)?;
    } else if text.starts_with('{') {
        formats::coverage_py(text, &mut gather)?;
    } else if text.starts_with("mode:") {
        formats::go(text, &mut gather)?;
    } else if text.lines().any(|line| line.starts_with("SF:")) {
        formats::lcov(text, &mut gather)?;
    } else {
        return Err("The coverage report is of no known format.".to_owned());
    }
    let coverage = gather.coverage;
    if coverage.files.values().all(|file| file.executable.is_empty() && file.excluded.is_empty()) {
        return Err("The coverage report names no line.".to_owned());
    }
    Ok(coverage)
}

/// What the readers of all formats fill.
struct Gather<'a> {
    roots: &'a [String],
    packages: &'a dyn Fn(&str) -> Option<String>,
    coverage: Coverage,
    lines: usize,
}

/// What a report says of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Seen {
    Covered,
    Missed,
    Excluded,
}

impl Gather<'_> {
    /// Makes a path relative to a root; nothing for one outside of all.
    fn path(&self, path: &str) -> Option<String> {
        let path = path.trim().replace('\\', "/");
        let absolute = path.starts_with('/') || path.as_bytes().get(1) == Some(&b':');
        let relative = if absolute {
            self.roots.iter().find_map(|root| {
                let root = root.replace('\\', "/");
                path.strip_prefix(root.trim_end_matches('/'))?.strip_prefix('/').map(str::to_owned)
            })?
        } else {
            path
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in relative.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop()?;
                }
                part => parts.push(part),
            }
        }
        (!parts.is_empty()).then(|| parts.join("/"))
    }

    /// Finds the file of a name that is no path.
    fn named(&self, name: &str) -> Option<String> {
        (self.packages)(name).or_else(|| self.path(name))
    }

    /// Names a file even if no line of it follows.
    fn file(&mut self, path: &str) {
        self.coverage.files.entry(path.to_owned()).or_default();
    }

    /// Takes one line; a line that is covered once is covered.
    fn line(&mut self, path: &str, line: u32, seen: Seen) -> Result<(), String> {
        if line == 0 || line > MAX_LINE {
            return Err(format!("The coverage report names line {line} of {path}."));
        }
        if !self.coverage.files.contains_key(path) {
            self.file(path);
        }
        let Some(file) = self.coverage.files.get_mut(path) else { return Ok(()) };
        let new = match seen {
            Seen::Excluded => file.excluded.insert(line),
            Seen::Missed => file.executable.insert(line),
            Seen::Covered => {
                file.covered.insert(line);
                file.executable.insert(line)
            }
        };
        self.lines += usize::from(new);
        if self.lines > MAX_LINES {
            return Err(format!("The coverage report names more than {MAX_LINES} lines."));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Coverage, String> {
        parse(text.as_bytes(), &["/srv/calc".to_owned()], &|name| {
            name.strip_prefix("example.com/calc/").map(str::to_owned)
        })
    }

    fn lines(coverage: &Coverage, path: &str) -> (Vec<u32>, Vec<u32>) {
        let file = &coverage.files[path];
        (file.executable.iter().copied().collect(), file.covered.iter().copied().collect())
    }

    #[test]
    fn every_format_gives_the_same_lines() {
        for (path, report) in [
            ("src/a.js", "TN:\nSF:/srv/calc/src/a.js\nDA:1,3\nDA:2,0\nDA:4,1,x\nend_of_record\n"),
            ("src/a.js", "TN:\r\nSF:./src/a.js\r\nDA:1,3\r\nDA:2,0\r\nDA:4,1\r\nend_of_record\r\n"),
            (
                "src/a.py",
                "{\"meta\": {}, \"files\": {\"src/a.py\": {\"executed_lines\": [1, 4], \"missing_lines\": [2], \"excluded_lines\": []}}}",
            ),
            (
                "src/a.py",
                "<?xml version=\"1.0\" ?>\n<!DOCTYPE coverage SYSTEM 'http://x/coverage-04.dtd'>\n<coverage><sources><source>/srv/calc/src</source></sources><packages><package><classes><class filename=\"a.py\"><methods/><lines><line number=\"1\" hits=\"1\"/><line number=\"2\" hits=\"0\"/><line number=\"4\" hits=\"2\"/></lines></class></classes></package></packages></coverage>",
            ),
            (
                "com/a/B.java",
                "<!DOCTYPE report PUBLIC \"-//JACOCO//DTD Report 1.1//EN\" \"report.dtd\"><report name=\"x\"><package name=\"com/a\"><sourcefile name=\"B.java\"><line nr=\"1\" mi=\"0\" ci=\"2\" mb=\"0\" cb=\"0\"/><line nr=\"2\" mi=\"3\" ci=\"0\"/><line nr=\"4\" mi=\"1\" ci=\"1\"/></sourcefile></package></report>",
            ),
            (
                "pkg/a.go",
                "mode: set\nexample.com/calc/pkg/a.go:1.2,1.9 1 1\nexample.com/calc/pkg/a.go:2.1,2.9 1 0\nexample.com/calc/pkg/a.go:4.1,4.3 1 5\n",
            ),
        ] {
            let coverage = read(report).unwrap_or_else(|error| panic!("{error} {report}"));
            assert_eq!(lines(&coverage, path), (vec![1, 2, 4], vec![1, 4]), "{report}");
        }
    }

    #[test]
    fn files_outside_the_roots_are_left_out() {
        let report =
            "SF:/usr/lib/a.js\nDA:1,1\nend_of_record\nSF:/srv/calc/b.js\nDA:1,1\nend_of_record\n";
        assert_eq!(read(report).unwrap().files.keys().collect::<Vec<_>>(), ["b.js"]);
    }

    #[test]
    fn what_is_no_report_is_an_error_and_never_empty() {
        let deep = "<a>".repeat(100_000);
        let nested = "[".repeat(100_000);
        for text in [
            "",
            "hello",
            "{}",
            "{\"files\": 3}",
            "mode: set\n",
            "mode: set\na.go:1.2,x 1 1\n",
            "mode: set\na.go:1.1,4294967295.1 1 1\n",
            "<coverage/>",
            "<html/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]><coverage>&b;</coverage>",
            "SF:a\nDA:0,1\nend_of_record\n",
            "SF:a\nDA:x,1\nend_of_record\n",
            &deep,
            &format!("{{\"files\": {nested}"),
        ] {
            assert!(read(text).is_err(), "{text:.60}");
        }
        assert!(parse(b"\xff\xfe", &[], &|_| None).is_err());
    }

    #[test]
    fn the_percentage_stands_on_the_lines_of_t0() {
        let t0 = read("SF:a\nDA:1,1\nDA:2,1\nend_of_record\nSF:b\nDA:1,1\nDA:2,0\nend_of_record\n");
        let now = read("SF:a\nDA:1,1\nend_of_record\nSF:c\nDA:1,1\nend_of_record\n").unwrap();
        let t0 = t0.unwrap();
        assert_eq!(t0.percent_on(&t0), Some(75.0));
        assert_eq!(now.percent_on(&t0), Some(25.0));
        assert_eq!(now.percent_on(&Coverage::default()), None);
    }
}
