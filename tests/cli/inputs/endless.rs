//! Pipes, devices and what the system shows of itself, where loopexec looks for a file.

use super::{converges, ends, project};
use crate::bench::Bench;
use crate::reasons::text;
use loopexec::domain::reason::HaltReason;

const DONE: &str = "echo yes > src/done";

#[test]
fn what_stands_for_a_runners_declaration_is_not_waited_for() {
    for planted in ["mkfifo", "ln -s /dev/zero", "ln -s /proc/self/mem"] {
        let bench = project(&format!(
            "cd node_modules/x-info; rm -f entry_points.txt; {planted} entry_points.txt; cd ../..; {DONE}"
        ));
        bench.write(".gitignore", "node_modules\n");
        bench.write("node_modules/x-info/entry_points.txt", "");
        converges(&bench);
    }
}

#[test]
fn what_stands_for_a_module_or_a_coverage_report_is_not_waited_for() {
    for planted in ["mkfifo", "ln -s /dev/zero"] {
        for name in ["go.mod", "coverage.out"] {
            let bench = Bench::new();
            bench.write("src/done", "no\n");
            bench.write(".gitignore", "go.mod\ncoverage.out\n");
            bench.script(
                "check.sh",
                &format!(
                    "echo 'mode: set' > coverage.out; rm -f {name}; {planted} {name}; grep -q yes src/done"
                ),
            );
            bench.loop_file(
                "exec: ./agent.sh\ncheck: {run: ./check.sh, coverage: [coverage.out]}\n",
            );
            bench.script("agent.sh", DONE);
            converges(&bench);
        }
    }
}

#[test]
fn a_script_of_the_check_that_became_a_pipe_is_not_waited_for() {
    let mut bench = Bench::new();
    bench.env("WANTED_HERE", "yes");
    bench.script(
        "check.sh",
        "test -n \"$WANTED_HERE\" || { rm check.sh; mkfifo check.sh; exit 1; }",
    );
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    bench.script("agent.sh", DONE);
    let ran = ends(&bench, HaltReason::CheckNotHermetic);
    assert_eq!(text(&ran.json()["detail"]), "environment", "{}", ran.json());
}

#[test]
fn links_and_words_that_lead_into_the_system_are_no_data_and_no_program() {
    let bench = project(DONE);
    for (link, to) in [("processes", "/proc/self"), ("kernel", "/sys/kernel"), ("shm", "/dev/shm")]
    {
        std::os::unix::fs::symlink(to, bench.path("tests").join(link)).unwrap();
    }
    bench.script(
        "check.sh",
        "# see /proc/kmsg, /proc/self/pagemap and /dev/zero\ngrep -q yes src/done",
    );
    bench.loop_file("exec: ./agent.sh\ncheck: ./check.sh\n");
    converges(&bench);
}
