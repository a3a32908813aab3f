//! Pipes, devices and what the system shows of itself, where loopexec looks for a file.

use super::{converges, project};
use crate::bench::Bench;

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
                    "rm -f go.mod coverage.out; echo 'mode: set' > coverage.out; rm -f {name}; {planted} {name}; grep -q yes src/done"
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
