//! Compares coverage with t0's on t0's own lines, though lines move when files change.

use super::{Coverage, FileCoverage};

/// What became of a file of t0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileState {
    /// Its bytes are t0's.
    Same,
    /// It is there with other bytes.
    Changed,
    /// It is not there any more.
    Gone,
}

/// Coverage then and now, in millionths of t0's executable lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Floor {
    /// At t0.
    pub before_ppm: u32,
    /// Now.
    pub after_ppm: u32,
    /// Files of which more is left out than at t0: excluded lines, or the whole file while it is
    /// still there.
    pub excluded_grew: Vec<String>,
}

/// Measures `now` on the executable lines of `t0`.
///
/// A file that did not change is compared line by line. A changed one counts with its share of now,
/// on as many lines as it had. One that is gone counts as what new files cover, up to their size,
/// for it may have been moved; beyond that as it was, so that neither deleting code that is tested
/// nor code that is not moves the floor. One that is there but no longer reported is not covered.
/// Without any executable line at t0 both are a million.
pub fn floor(t0: &Coverage, now: &Coverage, state: &dyn Fn(&str) -> FileState) -> Floor {
    let fresh = now.files.iter().filter(|(path, _)| !t0.files.contains_key(*path));
    let mut moved = Pool::default();
    for (_, file) in fresh {
        moved.lines += file.executable.len() as u64;
        moved.covered += file.covered.len() as u64;
    }
    moved.left = moved.lines;
    let (mut all, mut before, mut after) = (0_u64, 0_u64, 0_u128);
    let mut excluded_grew = Vec::new();
    for (path, was) in &t0.files {
        let lines = was.executable.len() as u64;
        all += lines;
        before += was.covered.len() as u64;
        let state = state(path);
        let micro = match (now.files.get(path), state) {
            (_, FileState::Gone) => moved.take(was),
            (None, _) => {
                if lines > 0 {
                    excluded_grew.push(path.clone());
                }
                0
            }
            (Some(is), FileState::Same) => {
                if is.excluded.difference(&was.excluded).next().is_some() {
                    excluded_grew.push(path.clone());
                }
                was.executable.intersection(&is.covered).count() as u128 * MICRO
            }
            (Some(is), FileState::Changed) => {
                let grew = is.excluded.len() > was.excluded.len();
                if grew {
                    excluded_grew.push(path.clone());
                }
                if is.executable.is_empty() && !grew {
                    moved.take(was)
                } else {
                    share(is.covered.len() as u64, is.executable.len() as u64, lines)
                }
            }
        };
        after += micro;
    }
    let ppm = |micro: u128| -> u32 {
        let share = micro.checked_div(u128::from(all)).unwrap_or(MICRO);
        u32::try_from(share.min(MICRO)).unwrap_or(1_000_000)
    };
    Floor { before_ppm: ppm(u128::from(before) * MICRO), after_ppm: ppm(after), excluded_grew }
}

const MICRO: u128 = 1_000_000;

/// `covered` of `of`, on `lines` lines, in millionths of a line.
fn share(covered: u64, of: u64, lines: u64) -> u128 {
    (u128::from(covered) * u128::from(lines) * MICRO).checked_div(u128::from(of)).unwrap_or(0)
}

/// Lines of files that t0 did not know.
#[derive(Debug, Default)]
struct Pool {
    lines: u64,
    covered: u64,
    /// Those that no vanished file was held against yet.
    left: u64,
}

impl Pool {
    /// What a file that is gone still counts for.
    fn take(&mut self, was: &FileCoverage) -> u128 {
        let lines = was.executable.len() as u64;
        let here = lines.min(self.left);
        self.left -= here;
        share(self.covered, self.lines, here) + share(was.covered.len() as u64, lines, lines - here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coverage(files: &[(&str, u32, u32)]) -> Coverage {
        let file = |lines: u32, covered: u32| FileCoverage {
            executable: (1..=lines).collect(),
            covered: (1..=covered).collect(),
            ..FileCoverage::default()
        };
        let files =
            files.iter().map(|(path, lines, covered)| ((*path).to_owned(), file(*lines, *covered)));
        Coverage { files: files.collect() }
    }

    #[test]
    fn neither_omission_nor_exclusion_raises_the_floor() {
        let t0 = coverage(&[("a", 10, 10), ("b", 10, 0)]);
        let omitted = floor(&t0, &coverage(&[("a", 10, 10)]), &|_| FileState::Same);
        assert_eq!((omitted.before_ppm, omitted.after_ppm), (500_000, 500_000));
        assert_eq!(omitted.excluded_grew, ["b"]);
        let mut now = t0.clone();
        let b = now.files.get_mut("b").unwrap();
        b.excluded = std::mem::take(&mut b.executable);
        let excluded = floor(&t0, &now, &|_| FileState::Changed);
        assert_eq!((excluded.after_ppm, excluded.excluded_grew), (500_000, vec!["b".to_owned()]));
    }

    #[test]
    fn lines_that_moved_within_a_changed_file_are_no_loss() {
        let t0 = coverage(&[("a", 10, 8)]);
        let mut now = coverage(&[("a", 20, 16)]);
        let file = now.files.get_mut("a").unwrap();
        file.executable = (101..=120).collect();
        file.covered = (101..=116).collect();
        assert_eq!(floor(&t0, &now, &|_| FileState::Changed).after_ppm, 800_000);
        assert_eq!(floor(&t0, &now, &|_| FileState::Same).after_ppm, 0);
    }

    #[test]
    fn a_move_counts_as_what_the_new_file_covers_and_a_deletion_as_nothing() {
        let t0 = coverage(&[("a", 10, 9), ("b", 10, 9)]);
        let gone = |path: &str| if path == "b" { FileState::Gone } else { FileState::Same };
        let moved = floor(&t0, &coverage(&[("a", 10, 9), ("c", 10, 9)]), &gone);
        assert_eq!(moved.after_ppm, 900_000);
        let bare = floor(&t0, &coverage(&[("a", 10, 9), ("c", 10, 0)]), &gone);
        assert_eq!(bare.after_ppm, 450_000);
        let deleted = floor(&t0, &coverage(&[("a", 10, 9)]), &gone);
        assert_eq!(deleted.after_ppm, 900_000);
        assert!(deleted.excluded_grew.is_empty());
    }
}
