//! Feeds any bytes to the readers of coverage and holds the result against itself: no panic, what is covered
//! can be executed, and a report that did not change is no fall.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loopexec::integrity::coverage::{FileState, exclusion_marks, floor, parse};

/// How each format begins: mutation alone takes long to find it.
const STARTS: [&str; 8] = [
    "",
    "TN:\nSF:a.js\nDA:1,1\nDA:2,0\n",
    "mode: set\na.go:1.2,3.4 1 1\n",
    "{\"files\": {\"a.py\": {\"executed_lines\": [1], \"missing_lines\": [2], \"excluded_lines\": [3",
    "<coverage><sources><source>/w</source></sources><packages><package><classes><class filename=\"a.py\"><lines><line number=\"1\" hits=\"1\"/>",
    "<report name=\"x\"><package name=\"a\"><sourcefile name=\"B.java\"><line nr=\"1\" mi=\"0\" ci=\"2\"/>",
    "<coverage>",
    "<report>",
];

fuzz_target!(|bytes: &[u8]| {
    let Some((which, bytes)) = bytes.split_first() else { return };
    exclusion_marks(bytes);
    let mut text = STARTS[usize::from(*which) % STARTS.len()].as_bytes().to_vec();
    text.extend_from_slice(bytes);
    let roots = ["/w".to_owned()];
    let Ok(coverage) = parse(&text, &roots, &|name| name.strip_prefix("m/").map(str::to_owned))
    else {
        return;
    };
    for (path, file) in &coverage.files {
        assert!(file.covered.is_subset(&file.executable), "{path}");
        assert!(!path.is_empty() && !path.starts_with('/'), "{path}");
        assert!(path.split('/').all(|part| !matches!(part, "" | "." | "..")), "{path}");
        assert!(!file.executable.contains(&0) && !file.excluded.contains(&0), "{path}");
    }
    let percent = coverage.percent_on(&coverage);
    assert!(percent.is_none_or(|percent| (0.0..=100.0).contains(&percent)));
    let same = floor(&coverage, &coverage, &|_| FileState::Same);
    assert_eq!(same.before_ppm, same.after_ppm);
    assert!(same.excluded_grew.is_empty() && same.before_ppm <= 1_000_000);
    for state in [FileState::Changed, FileState::Gone] {
        let other = floor(&coverage, &coverage, &|_| state);
        assert_eq!(other.before_ppm, same.before_ppm);
        assert!(other.after_ppm <= 1_000_000);
    }
});
