//! A loop that goes through every phase, watched from outside and killed where it is wanted.

use crate::bench::Bench;
use loopexec::domain::fold::is_cut_short;
use loopexec::receipt::record::{Compare, Folded, Step, fold};
use loopexec::receipt::rundir::RunDir;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Three tests; each iteration mends one and rewrites some files beside it.
const AGENT: &str = r#"
for name in a b c; do
  if ! grep -q good "src/$name"; then
    sleep 0.05 & sleep 0.05
    for n in 1 2 3 4 5 6 7; do echo "$name $n" > "src/many/$name$n"; done
    rm -f "src/old/$name"
    echo good > "src/$name"
    wait
    exit 0
  fi
done"#;

const CHECK: &str = r#"
echo 1..3
status=0
n=0
for name in a b c; do
  n=$((n + 1))
  if grep -q good "src/$name"; then echo "ok $n - $name"; else echo "not ok $n - $name"; status=1; fi
done
sleep 0.03
exit $status"#;

/// Pseudo-random numbers, enough to choose moments by.
pub(crate) struct Rng {
    pub(crate) seed: u64,
    state: u64,
}

impl Rng {
    pub(crate) fn from_time() -> Self {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let seed = since.as_nanos() as u64 % 1_000_000_007;
        Self { seed, state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1 }
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % limit
    }
}

/// How an undisturbed run ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    reason: String,
    tree: String,
    iterations: u32,
    execs: u32,
}

/// What a killed run is held against.
pub(crate) struct Reference {
    ended: Ended,
    before: BTreeMap<PathBuf, Vec<u8>>,
    after: BTreeMap<PathBuf, Vec<u8>>,
}

pub(crate) struct Site {
    pub(crate) bench: Bench,
}

impl Site {
    /// Makes one; `more` are further lines of its loop.
    pub(crate) fn new(more: &str) -> Self {
        let bench = Bench::new();
        for name in ["a", "b", "c"] {
            bench.write(&format!("src/{name}"), "bad\n");
            bench.write(&format!("src/old/{name}"), "old\n");
            bench.write(&format!("src/many/{name}1"), "t0\n");
        }
        for n in 0..600 {
            bench.write(&format!("data/{}/{n}", n % 20), format!("{n}\n"));
        }
        bench.write("agent.sh", AGENT);
        bench.write("check.sh", CHECK);
        bench.write(".gitignore", "vendor/\n");
        let text = concat!(
            "setup: mkdir -p vendor && echo made > vendor/it && sleep 0.1\n",
            "exec: sh agent.sh\n",
            "check: { run: sh check.sh, runner: tap }\n",
            "guards: { blocked_paths: [] }\n",
        );
        bench.loop_file(&format!("{text}{more}"));
        bench.commit();
        Self { bench }
    }

    fn run_dir(&self, id: &str) -> PathBuf {
        self.bench.path(&format!(".loopexec/runs/{id}"))
    }

    pub(crate) fn run_undisturbed(&self) -> Reference {
        let before = self.files();
        let ran = self.bench.run(&["run", "--json", "--run-id", "undisturbed"]);
        assert_eq!(ran.code, Some(10), "{ran:#?}");
        let ended = self.ended("undisturbed");
        assert_eq!((ended.iterations, ended.execs), (3, 3));
        let after = self.files();
        assert!(!after.contains_key(Path::new("vendor/it")));
        assert!(after.len() < before.len() + 21 && before != after);
        self.reset();
        assert!(self.files() == before);
        Reference { ended, before, after }
    }

    /// Puts the caller's tree back to t0.
    pub(crate) fn reset(&self) {
        self.bench.git(&["reset", "-q", "--hard"]);
        self.bench.git(&["clean", "-fdq"]);
    }

    /// Reads the caller's files, our own apart.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let root = self.bench.root();
        let mut found = BTreeMap::new();
        let mut pending = vec![root.clone()];
        while let Some(folder) = pending.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let name = path.strip_prefix(&root).unwrap().to_owned();
                let ours = [".git", ".loopexec", ".loop_state.json"];
                if ours.iter().any(|ours| name == Path::new(ours)) {
                    continue;
                }
                match path.is_dir() {
                    true => pending.push(path),
                    false => drop(found.insert(name, std::fs::read(path).unwrap())),
                }
            }
        }
        found
    }

    fn phase(&self, id: &str) -> Option<String> {
        let text = std::fs::read(self.run_dir(id).join("live.json")).ok()?;
        let now: serde_json::Value = serde_json::from_slice(&text).ok()?;
        Some(now["phase"].as_str()?.to_owned())
    }

    /// Starts a run, kills it in a phase, and returns the one it died in; none where it was over.
    pub(crate) fn kill_in(&self, id: &str, wanted: &str, rng: &mut Rng) -> Option<String> {
        let mut started = self.bench.start(&["run", "--json", "--run-id", id]);
        let mut nth = match wanted {
            "exec" | "check" => rng.below(3),
            "snapshot" => rng.below(8),
            "baseline" | "confirmation" => rng.below(2),
            _ => 0,
        };
        let mut last = String::new();
        loop {
            if started.child.try_wait().unwrap().is_some() {
                return None;
            }
            let now = self.phase(id).unwrap_or_default();
            if now == wanted && now != last {
                if nth == 0 {
                    break;
                }
                nth -= 1;
            }
            last = now;
            std::thread::sleep(Duration::from_micros(300));
        }
        let most = if wanted == "snapshot" { 8_000 } else { 60_000 };
        std::thread::sleep(Duration::from_micros(rng.below(most) as u64));
        started.child.kill().unwrap();
        started.wait();
        let phase = self.phase(id).unwrap_or_default();
        (phase != "ended").then_some(phase)
    }

    /// Takes a run up and kills it at some moment; false where it was over before.
    pub(crate) fn kill_resume(&self, id: &str, rng: &mut Rng) -> bool {
        let mut started = self.bench.start(&["run", "--json", "--resume", id]);
        std::thread::sleep(Duration::from_millis(rng.below(1500) as u64));
        if started.child.try_wait().unwrap().is_some() {
            return false;
        }
        started.child.kill().unwrap();
        started.wait();
        true
    }

    /// Everything a run starts has this bench's folder in its environment or its arguments.
    pub(crate) fn assert_nothing_lives(&self, seed: u64) {
        let mark = self.bench.beside("").to_string_lossy().trim_end_matches('/').to_owned();
        let start = Instant::now();
        loop {
            let alive = processes_with(&mark);
            if alive.is_empty() {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(1), "seed {seed}: {alive:?} live on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Every file of the caller is t0's or the delivered one.
    pub(crate) fn assert_files_are_whole(&self, reference: &Reference, seed: u64) {
        let now = self.files();
        let names = now.keys().chain(reference.before.keys()).chain(reference.after.keys());
        for name in names {
            let found = now.get(name);
            let good = found == reference.before.get(name) || found == reference.after.get(name);
            assert!(good, "seed {seed}: {} is neither: {found:?}", name.display());
        }
    }

    /// Folds what a run left; none where not one event is whole.
    pub(crate) fn fold(&self, id: &str, seed: u64) -> Option<Folded> {
        let run = RunDir::open(&self.run_dir(id)).ok()?;
        match fold(&run, Compare::Strict, &mut |_| Ok(())) {
            Ok(folded) => Some(folded),
            Err(error) => panic!("seed {seed}: the receipt of {id} does not hold: {error}"),
        }
    }

    fn ended(&self, id: &str) -> Ended {
        let run = RunDir::open(&self.run_dir(id)).unwrap();
        let mut execs = 0;
        let folded = fold(&run, Compare::Strict, &mut |step| {
            if let Step::Decided(observation, ..) = step {
                let counts = !is_cut_short(observation.fault.as_ref());
                execs += u32::from(counts && observation.exec.is_some());
            }
            Ok(())
        })
        .unwrap();
        let end = folded.end.expect("a final event");
        let delivery = folded.delivery.expect("a delivery");
        assert_eq!(delivery["state"], "applied", "{delivery:?}");
        Ended {
            reason: end.halt.reason.to_string(),
            tree: delivery["tree"].as_str().unwrap().to_owned(),
            iterations: end.iterations,
            execs,
        }
    }

    pub(crate) fn assert_ends_as(&self, reference: &Reference, id: &str, seed: u64) {
        assert_eq!(self.ended(id), reference.ended, "seed {seed}, {id}");
        let now = self.files();
        for name in now.keys().chain(reference.after.keys()) {
            let (found, wanted) = (now.get(name), reference.after.get(name));
            assert_eq!(found, wanted, "seed {seed}, {id}: {}", name.display());
        }
        self.assert_nothing_lives(seed);
    }
}

fn processes_with(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        if pid.parse::<u32>().is_err() || pid == std::process::id().to_string() {
            continue;
        }
        let read = |name: &str| {
            let bytes = std::fs::read(entry.path().join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let (command, environment) = (read("cmdline"), read("environ"));
        if command.contains(mark) || environment.contains(mark) {
            found.push(format!("{pid}: {command}"));
        }
    }
    found
}
