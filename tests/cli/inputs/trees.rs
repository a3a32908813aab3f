//! Test folders that are links, or that an agent puts a link, a pipe or a flood in the place of.

use super::{converges, is_long, project, violates};

#[test]
fn a_test_folder_that_was_a_link_from_the_start_disturbs_nobody() {
    let bench = project("echo yes > src/done");
    std::fs::rename(bench.path("tests"), bench.path("suite")).unwrap();
    std::os::unix::fs::symlink("suite", bench.path("tests")).unwrap();
    // Links that lead back up, to themselves and to nothing.
    std::os::unix::fs::symlink("..", bench.path("suite/up")).unwrap();
    std::os::unix::fs::symlink("loop", bench.path("suite/loop")).unwrap();
    std::os::unix::fs::symlink("nowhere", bench.path("suite/test_nothing.py")).unwrap();
    converges(&bench);
}

#[test]
fn a_link_to_weaker_tests_in_the_place_of_the_tests_is_told() {
    let weaker = "mkdir -p weak; echo true > weak/done.sh; echo true > weak/same.sh";
    violates(&project(&format!("{weaker}; rm -rf tests; ln -s weak tests")), "tests/done.sh");
    let outside = "d=${TMPDIR:-/tmp}/weak.$$; mkdir -p $d; echo true > $d/done.sh";
    violates(&project(&format!("{outside}; rm -rf tests; ln -s $d tests")), "tests/");
    violates(&project("echo true > w; ln -sf ../w tests/done.sh"), "tests/done.sh");
}

#[test]
fn a_link_to_itself_in_the_place_of_the_tests_is_told() {
    violates(&project("rm -rf tests; ln -s tests tests"), "tests/");
}

#[test]
fn a_pipe_in_the_place_of_the_tests_is_told() {
    violates(&project("rm -rf tests; mkfifo tests"), "tests/");
    let bench = project("rm tests/done.sh; mkfifo tests/done.sh");
    // A shell would wait for somebody who writes into it.
    bench.script("check.sh", "[ ! -f tests/done.sh ] || sh tests/done.sh");
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    violates(&bench, "tests/done.sh");
}

#[test]
fn a_flood_of_empty_files_in_the_place_of_the_tests_is_told() {
    let count = if is_long() { 100_000 } else { 5_000 };
    let flood = format!("mkdir -p tests; (cd tests && seq -f test_%.0f.py {count} | xargs touch)");
    violates(&project(&format!("rm -rf tests; {flood}")), "tests/");
    // Beside the tests it is only odd.
    converges(&project(&format!("{flood}; echo yes > src/done")));
}

#[test]
fn names_that_are_no_text_are_told_as_they_are() {
    let name = r"$(printf 'tests/\377\033[31m.sh')";
    let bench = project(&format!("echo yes > src/done; echo true > \"{name}\""));
    converges(&bench);
    // From the start, and taken away.
    let bench = project(&format!("rm -f tests/*.sh; echo yes > src/done; : \"{name}\""));
    use std::os::unix::ffi::OsStrExt as _;
    let odd = bench.path("tests").join(std::ffi::OsStr::from_bytes(b"\xff\x1b[31m.sh"));
    std::fs::write(odd, "true\n").unwrap();
    violates(&bench, "tests/");
}
