//! The shortest way through: one exec that mends, one check that sees it.

use crate::bench::Bench;

#[test]
fn an_exec_that_mends_converges_and_the_mend_is_in_the_callers_tree() {
    let bench = Bench::new();
    bench.loop_file("exec: touch done.txt\ncheck: test -f done.txt\n");
    bench.commit();
    let ran = bench.run_loop(&[]);
    assert_eq!(ran.code, Some(10), "{ran:#?}");
    assert_eq!(ran.reason(), "success_condition_met");
    assert!(bench.path("done.txt").exists());
    assert_eq!(bench.fold(&ran).end.unwrap().iterations, 1);
    assert_eq!(bench.events(&ran).last().unwrap()["type"], "run_end");
}
