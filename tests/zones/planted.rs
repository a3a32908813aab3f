//! What a command plants in the folders that it may write to leads the supervisor nowhere, and what a sealed check
//! lies in is shown to it alone.

use super::{Ground, json, run::backend, text};
use std::path::Path;

/// Puts links to a file of the host wherever a folder of ours can be written to.
fn plant(victim: &Path) -> String {
    let victim = victim.display();
    format!(
        "for io in $(awk '$5 ~ \"/io/\" {{print $5}}' /proc/self/mountinfo); do\n  \
         echo \"planted in $io\"\n  \
         for name in facts.json context.md failures.json; do ln -sf {victim} \"$io/$name\"; done\n  \
         rm -rf \"$io/out\" \"$io/python\"; ln -sf {victim} \"$io/out\"; ln -sf {victim} \"$io/python\"\n\
         done"
    )
}

#[test]
fn links_that_commands_plant_are_never_written_through() {
    let ground = Ground::new();
    let victim = ground.at("victim");
    std::fs::write(&victim, "of the host").unwrap();
    let plant = plant(&victim);
    let inner = plant.replace('\n', "\n    ");
    let judge = "grep -q run_id \"$LOOPEXEC_FACTS\" || exit 1\n    ! touch \"$(dirname \"$LOOPEXEC_FACTS\")/x\" 2>/dev/null || exit 1";
    ground.lines(
        backend(),
        &format!("{plant}\necho yes > done"),
        "CHECK",
        &format!("guards:\n  judge: |\n    {judge}\n"),
    );
    let check = format!(
        "check:\n  run: |\n    {inner}\n    grep -q yes done\n  held_out: |\n    {inner}\n    grep -q yes done\n"
    );
    ground.edit("check: |\n  CHECK\n", &check);
    ground.converges(&[]);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "of the host");
    assert!(ground.outputs().contains("planted in"), "it looked: {}", ground.outputs());
}

#[test]
fn a_sealed_check_outside_of_the_tree_is_seen_by_itself_alone() {
    let ground = Ground::new();
    let (sealed, loose) = (ground.at("sealed/run.sh"), ground.at("home/loose.sh"));
    std::fs::create_dir(ground.at("sealed")).unwrap();
    std::fs::write(ground.at("sealed/expected"), "yes\n").unwrap();
    std::fs::write(&sealed, "cmp \"$(dirname \"$0\")/expected\" done && ! touch \"$0\"\n").unwrap();
    // Beside this one lies the rest of a HOME.
    std::fs::write(&loose, "grep -q yes done && ! cat \"$(dirname \"$0\")/secret\"\n").unwrap();
    for script in [&sealed, &loose] {
        let name = script.display();
        let blind = format!("! cat {name} || exit 7");
        ground.lines(backend(), &format!("{blind}\necho yes > done"), "CHECK", "");
        let check = format!(
            "check:\n  diagnose: off\n  run: |\n    {blind}\n    grep -q yes done\n  held_out: sh {name}\n"
        );
        ground.edit("check: |\n  CHECK\n", &check);
        ground.converges(&[]);
    }
    std::fs::write(&sealed, "exit 1\n").unwrap();
    std::fs::write(ground.at("project/done"), "no\n").unwrap();
    ground.lines(backend(), "echo yes > done", "CHECK", "");
    let check = format!("check:\n  run: grep -q yes done\n  held_out: sh {}\n", sealed.display());
    ground.edit("check: |\n  CHECK\n", &check);
    let output = ground.command(&[]).args(["run", "--json"]).output().unwrap();
    assert_ne!(json(&output)["halt_reason"], "success_condition_met", "{}", text(&output));
}
