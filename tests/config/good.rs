//! Every key with values that are good, and what they resolve to.

use crate::support::*;
use loopexec::config::plan_json;

/// (key, value as written, value as resolved)
pub(crate) const GOOD: &[(&str, &str, &str)] = &[
    ("version", "1", "1"),
    ("name", "my-loop-2", "\"my-loop-2\""),
    ("name", "42", "\"42\""),
    ("mode", "check_fixpoint", "\"check_fixpoint\""),
    ("goal", "make it green", "\"make it green\""),
    ("model.provider", "open-router.x", "\"open-router.x\""),
    ("model.id", "meta/llama-3:free", "\"meta/llama-3:free\""),
    ("model.version", "1.10", "\"1.10\""),
    ("model.pin", "exact", "\"exact\""),
    ("model.pin", "family", "\"family\""),
    ("model.pin", "off", "\"off\""),
    ("model.sampling.temperature", "0", "0.0"),
    ("model.sampling.top_p", "0.9", "0.9"),
    ("model.sampling.seed", "7", "7"),
    ("model.sampling.max_tokens", "4096", "4096"),
    ("model.metering", "file", "\"file\""),
    ("model.metering", "none", "\"none\""),
    ("model.metering", "auto", "\"unknown\""),
    ("exec.run", "./a.sh", "\"./a.sh\""),
    ("exec.run", "[cargo, run, 1.50]", "[\"cargo\",\"run\",\"1.50\"]"),
    ("exec.shell", "bash", "\"bash\""),
    ("exec.shell", "sh", "\"sh\""),
    ("exec.shell", "none", "\"none\""),
    ("exec.cwd", "./pkg//core/", "\"pkg/core\""),
    (
        "exec.env",
        "{PORT: 5432, DEBUG: true, A: x, V: 1.10}",
        "{\"A\":\"x\",\"DEBUG\":\"true\",\"PORT\":\"5432\",\"V\":\"1.10\"}",
    ),
    ("exec.pass_env", "[ANTHROPIC_API_KEY]", "[\"ANTHROPIC_API_KEY\"]"),
    ("exec.timeout", "1h30m", "\"1h30m\""),
    ("exec.idle_timeout", "90s", "\"1m30s\""),
    ("exec.max_failures", "5", "5"),
    ("exec.adapter", "auto", "\"auto\""),
    ("exec.adapter", "none", "\"none\""),
    ("exec.on_rate_limit", "stop", ""),
    ("check.run", "'true'", "\"true\""),
    ("check.cwd", ".", "null"),
    ("check.shell", "sh", "\"sh\""),
    ("check.env", "{}", "{}"),
    ("check.pass_env", "[]", "[]"),
    ("check.timeout", "2h", "\"2h\""),
    ("check.success_exit_code", "3", "3"),
    ("check.runner", "auto", "\"auto\""),
    ("check.runner", "pytest", "\"pytest\""),
    ("check.runner", "unittest", "\"unittest\""),
    ("check.runner", "cargo", "\"cargo\""),
    ("check.runner", "nextest", "\"nextest\""),
    ("check.runner", "go", "\"go\""),
    ("check.runner", "node", "\"node\""),
    ("check.runner", "junit", "\"junit\""),
    ("check.runner", "tap", "\"tap\""),
    ("check.runner", "command", "\"command\""),
    ("check.results", "[target/**/*.xml]", "[\"target/**/*.xml\"]"),
    ("check.coverage", "[]", ""),
    ("check.baseline_runs", "1", "1"),
    ("check.confirm", "100", "100"),
    ("check.targets", "['a::b']", "[\"a::b\"]"),
    ("check.quarantine", "[t1, t2]", "[\"t1\",\"t2\"]"),
    ("check.require_red", "true", "true"),
    ("check.max_flake_rate", "0.01", "0.01"),
    ("check.adequacy", "off", ""),
    ("check.diagnose", "off", "\"off\""),
    ("check.services", "[]", ""),
    ("setup.run", "npm ci", "\"npm ci\""),
    ("setup.timeout", "5m", "\"5m\""),
    ("setup.network", "host", ""),
    ("setup.shell", "bash", "\"bash\""),
    ("setup.cwd", "web", "\"web\""),
    ("setup.env", "{A: b}", "{\"A\":\"b\"}"),
    ("setup.pass_env", "[NPM_TOKEN]", "[\"NPM_TOKEN\"]"),
    ("workspace.mode", "in_place", "\"in_place\""),
    ("workspace.carry", "auto", "\"auto\""),
    ("workspace.carry", "none", "\"none\""),
    ("workspace.carry", "[.venv, node_modules]", "[\".venv\",\"node_modules\"]"),
    ("workspace.carry_max", "64MiB", "\"64MiB\""),
    ("workspace.carry_max", "1MB", "\"1000000B\""),
    ("workspace.history", "50", "50"),
    ("workspace.history", "full", "\"full\""),
    ("workspace.on_dirty", "refuse", "\"refuse\""),
    ("workspace.deliver", "branch", "\"branch\""),
    ("workspace.deliver", "patch", "\"patch\""),
    ("workspace.deliver", "none", "\"none\""),
    ("limits.iterations", "1000000", "1000000"),
    ("limits.time", "250ms", "\"250ms\""),
    ("limits.usd", "5.10", "\"5.10\""),
    ("limits.usd", "'0.000001'", "\"0.000001\""),
    ("limits.tokens", "2000000", "2000000"),
    ("limits.calls", "40", "40"),
    ("limits.no_progress", "1", "1"),
    ("limits.same_failure", "4", "4"),
    ("limits.comprehension", "0", ""),
    ("guards.mutable", "[]", ""),
    ("guards.assertions", "off", ""),
    ("guards.hermeticity", "note", ""),
    ("guards.on_breach", "halt", ""),
    ("guards.blocked_paths", "[secrets/**]", "[\"secrets/**\"]"),
    ("ratchet.on_regression", "halt", "\"halt\""),
    ("ratchet.max_regressions", "7", "7"),
    ("isolation.backend", "auto", "\"auto\""),
    ("isolation.backend", "none", "\"none\""),
    ("isolation.accept", "[landlock, seatbelt, none]", "[\"landlock\",\"seatbelt\",\"none\"]"),
    ("context.tokens", "12", "12"),
    ("context.strategy", "[imports, failures]", "[\"imports\",\"failures\"]"),
    ("context.files", "[README.md]", "[\"README.md\"]"),
    ("human.approve", "[]", "[]"),
    ("human.approve", "[protected_change, deliver]", "[\"protected_change\",\"deliver\"]"),
    ("human.escalate", "stdout", "\"stdout\""),
    ("human.escalate", "file", "\"file\""),
    ("receipt.dir", "out/receipts", "\"out/receipts\""),
    ("receipt.capture", "4KiB", "\"4KiB\""),
    ("receipt.redact", "[MY_*, TOKEN]", "[\"MY_*\",\"TOKEN\"]"),
    ("receipt.unpinned", "[identity]", "[\"identity\"]"),
    ("receipt.durability", "iteration", "\"iteration\""),
];

#[test]
fn every_good_value_is_resolved_with_its_place() {
    for (key, written, wanted) in GOOD {
        let text = with(key, written);
        let plan = plan_json(&read(&text));
        if wanted.is_empty() {
            // Accepted because it says what happens anyway: nothing reads it in this release.
            assert!(plan["keys"].get(*key).is_none(), "{key} is in the plan");
            continue;
        }
        let row = &plan["keys"][*key];
        assert_eq!(row["value"].to_string(), *wanted, "{key}: {written}");
        if *key != "check.cwd" {
            assert_eq!(row["from"]["source"], "file", "{key}: {written}");
            let line = row["from"]["line"].as_u64().unwrap_or(0) as usize;
            assert!(text.lines().nth(line - 1).is_some_and(|line| line.contains(written)), "{key}");
        }
    }
}
