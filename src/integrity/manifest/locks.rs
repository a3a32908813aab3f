//! Compares lock files by package, version and digest: how one is laid out is its tool's affair.

use super::packages::{Ecosystem, Role, role};
use super::plain::{parse_both, raw, whole};
use super::walk::{Findings, Weight, text_of};
use super::{Mutable, Pair, tree};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Digests by name and version; a place in a tree may be part of the name.
type Locked = BTreeMap<String, BTreeMap<String, String>>;

/// How a lock is read from its tree.
type Read = fn(&Value) -> Locked;

fn judge(
    pair: &Pair<'_>,
    ecosystem: Ecosystem,
    locks: Option<(Locked, Locked)>,
    findings: &mut Findings,
) {
    let Some((before, after)) = locks else { return };
    // The first lock is made by any command that needs one.
    if pair.before.is_none() {
        whole(pair, Weight::Allowed, findings);
        return;
    }
    if pair.after.is_none() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let name_of = |place: &str| {
        let last = place.rsplit("node_modules/").next().unwrap_or(place);
        last.to_owned()
    };
    let changed = |role: Role, mutable: Mutable| match (role, mutable) {
        (Role::Plain | Role::Assertions, Mutable::Yes) => Weight::Allowed,
        _ => Weight::Breach,
    };
    let versions =
        |all: &BTreeMap<String, String>| all.keys().cloned().collect::<Vec<_>>().join(", ");
    for (place, was) in &before {
        let role = role(ecosystem, &name_of(place));
        let Some(is) = after.get(place) else {
            findings.add(
                changed(role, findings.mutable),
                place.as_str(),
                Some(&versions(was)),
                None,
            );
            continue;
        };
        let lost: BTreeSet<&String> =
            was.keys().filter(|version| !is.contains_key(*version)).collect();
        if !lost.is_empty() {
            let weight = changed(role, findings.mutable);
            findings.add(weight, place.as_str(), Some(&versions(was)), Some(&versions(is)));
        } else if is.len() > was.len() {
            findings.add(
                Weight::Allowed,
                place.as_str(),
                Some(&versions(was)),
                Some(&versions(is)),
            );
        }
        for (version, digest) in was {
            let Some(new) = is.get(version) else { continue };
            if !digest.is_empty() && !new.is_empty() && digest != new {
                let key = format!("{place}@{version}");
                findings.add(Weight::Breach, key, Some(digest), Some(new));
            } else if !digest.is_empty() && new.is_empty() {
                let key = format!("{place}@{version}");
                findings.add(changed(role, findings.mutable), key, Some(digest), None);
            }
        }
    }
    for (place, is) in after.iter().filter(|(place, _)| !before.contains_key(*place)) {
        // What lies within another package is seen by that one only.
        let nested = place.matches("node_modules/").count() > 1;
        let weight = match (role(ecosystem, &name_of(place)), findings.mutable) {
            (Role::Runner, _) | (Role::Plugin, Mutable::No) if !nested => Weight::Breach,
            _ => Weight::Allowed,
        };
        findings.add(weight, place.as_str(), None, Some(&versions(is)));
    }
}

fn parsed(
    pair: &Pair<'_>,
    ecosystem: Ecosystem,
    parser: super::plain::Parser,
    read: Read,
    findings: &mut Findings,
) {
    let both =
        parse_both(pair, parser, findings).map(|(before, after)| (read(&before), read(&after)));
    judge(pair, ecosystem, both, findings);
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or("")
}

fn put(locked: &mut Locked, name: &str, version: &str, digest: String) {
    locked.entry(name.to_owned()).or_default().insert(version.to_owned(), digest);
}

/// Cargo's, Poetry's, uv's and PDM's locks: a list of `package`. Packages of the project itself
/// have no foreign source and take any version.
pub(super) fn toml_packages(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(lock: &Value) -> Locked {
        let mut locked = Locked::new();
        let cargo = lock.get("package").is_some_and(|all| {
            all.as_array().is_some_and(|all| all.iter().any(|one| one.get("checksum").is_some()))
        });
        let lists = ["package", "packages"].iter().filter_map(|key| lock.get(*key)?.as_array());
        for package in lists.flatten() {
            let source = package.get("source");
            let own = match source {
                None => cargo || package.get("files").is_none() && package.get("wheels").is_none(),
                Some(source) => ["editable", "virtual", "directory"]
                    .iter()
                    .any(|key| source.get(*key).is_some()),
            };
            if own {
                continue;
            }
            let digest = match package.get("checksum").or_else(|| package.get("sdist")) {
                Some(sum) => text_of(sum.get("hash").unwrap_or(sum)),
                None => String::new(),
            };
            let origin = source.filter(|s| !s.is_object() || s.get("registry").is_none());
            let origin = origin.map(text_of).unwrap_or_default();
            put(
                &mut locked,
                text(package, "name"),
                text(package, "version"),
                format!("{digest}{origin}"),
            );
        }
        locked
    }
    let ecosystem = if pair.name == "Cargo.lock" { Ecosystem::Rust } else { Ecosystem::Python };
    parsed(pair, ecosystem, tree::toml, read, findings);
}

/// npm's lock in each of its versions; the mirror a package was fetched from is no difference.
pub(super) fn npm(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(lock: &Value) -> Locked {
        let mut locked = Locked::new();
        if let Some(packages) = lock.get("packages").and_then(Value::as_object) {
            for (place, package) in packages {
                let linked = package.get("link") == Some(&Value::Bool(true));
                if place.contains("node_modules/") && !linked {
                    put(
                        &mut locked,
                        place,
                        text(package, "version"),
                        text(package, "integrity").to_owned(),
                    );
                }
            }
            return locked;
        }
        let mut queue: Vec<(String, &Value)> = vec![(String::new(), lock)];
        while let Some((place, holder)) = queue.pop() {
            for (name, package) in
                holder.get("dependencies").and_then(Value::as_object).into_iter().flatten()
            {
                if package.is_object() {
                    let inner = format!("{place}node_modules/{name}");
                    put(
                        &mut locked,
                        &inner,
                        text(package, "version"),
                        text(package, "integrity").to_owned(),
                    );
                    queue.push((format!("{inner}/"), package));
                }
            }
        }
        locked
    }
    parsed(pair, Ecosystem::Node, tree::json, read, findings);
}

/// pnpm's lock.
pub(super) fn pnpm(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(lock: &Value) -> Locked {
        let mut locked = Locked::new();
        for (key, package) in lock.get("packages").and_then(Value::as_object).into_iter().flatten()
        {
            let plain = key.trim_start_matches('/').split('(').next().unwrap_or(key);
            let at =
                plain.char_indices().skip(1).filter(|(_, c)| *c == '@').map(|(at, _)| at).last();
            // Old versions write `/name/1.0.0`.
            let (name, version) = match at.or_else(|| plain.rfind('/')) {
                Some(at) => (&plain[..at], &plain[at + 1..]),
                None => (plain, ""),
            };
            let digest = package.get("resolution").map(|one| text(one, "integrity")).unwrap_or("");
            put(&mut locked, name, version, digest.to_owned());
        }
        locked
    }
    parsed(pair, Ecosystem::Node, tree::yaml, read, findings);
}

/// Yarn's lock, old and new: headers without indentation, versions below.
pub(super) fn yarn(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(bytes: Option<&[u8]>) -> Locked {
        let mut locked = Locked::new();
        let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let (mut name, mut version) = (String::new(), String::new());
        for line in text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            if !line.starts_with(' ') {
                let first =
                    line.trim_end_matches(':').split(',').next().unwrap_or("").trim_matches('"');
                let at = first.char_indices().skip(1).find(|(_, c)| *c == '@').map(|(at, _)| at);
                name = first[..at.unwrap_or(first.len())].to_owned();
                // A project's own packages stand with the version of the workspace.
                let own = first.contains("@workspace:") || first.starts_with("__metadata");
                if own {
                    name.clear();
                }
                version.clear();
                continue;
            }
            if name.is_empty() || line.starts_with("    ") {
                continue;
            }
            let (key, value) = line.trim().split_once([' ', ':']).unwrap_or((line, ""));
            let value = value.trim().trim_matches('"');
            match key.trim_end_matches(':') {
                "version" => {
                    version = value.to_owned();
                    put(&mut locked, &name, &version, String::new());
                }
                "integrity" => put(&mut locked, &name, &version, value.to_owned()),
                _ => {}
            }
        }
        locked
    }
    judge(pair, Ecosystem::Node, Some((read(pair.before), read(pair.after))), findings);
}

/// Bundler's lock: four blanks before a package, six before what it needs.
pub(super) fn gems(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(bytes: Option<&[u8]>) -> Locked {
        let mut locked = Locked::new();
        let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let mut own = false;
        for line in text.lines() {
            if !line.starts_with(' ') {
                own = line.trim() == "PATH";
            } else if let Some(spec) =
                line.strip_prefix("    ").filter(|s| !s.starts_with(' ') && !own)
                && let Some((name, version)) = spec.split_once(" (")
            {
                put(&mut locked, name, version.trim_end_matches(')'), String::new());
            }
        }
        locked
    }
    judge(pair, Ecosystem::Ruby, Some((read(pair.before), read(pair.after))), findings);
}

/// Composer's lock.
pub(super) fn composer(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(lock: &Value) -> Locked {
        let mut locked = Locked::new();
        let lists =
            ["packages", "packages-dev"].iter().filter_map(|key| lock.get(*key)?.as_array());
        for package in lists.flatten() {
            let digest = package.get("dist").map(|dist| text(dist, "reference")).unwrap_or("");
            put(&mut locked, text(package, "name"), text(package, "version"), digest.to_owned());
        }
        locked
    }
    parsed(pair, Ecosystem::Php, tree::json, read, findings);
}

/// Pipenv's lock; what is no dependency is made from `Pipfile`.
pub(super) fn pipfile(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(lock: &Value) -> Locked {
        let mut locked = Locked::new();
        for table in ["default", "develop"] {
            for (name, package) in lock.get(table).and_then(Value::as_object).into_iter().flatten()
            {
                let hashes = package.get("hashes").map(text_of).unwrap_or_default();
                put(&mut locked, name, text(package, "version"), hashes);
            }
        }
        locked
    }
    parsed(pair, Ecosystem::Python, tree::json, read, findings);
}

/// NuGet's lock.
pub(super) fn nuget(pair: &Pair<'_>, findings: &mut Findings) {
    fn read(lock: &Value) -> Locked {
        let mut locked = Locked::new();
        for (_, framework) in
            lock.get("dependencies").and_then(Value::as_object).into_iter().flatten()
        {
            for (name, package) in framework.as_object().into_iter().flatten() {
                if text(package, "type") != "Project" {
                    put(
                        &mut locked,
                        name,
                        text(package, "resolved"),
                        text(package, "contentHash").to_owned(),
                    );
                }
            }
        }
        locked
    }
    if tree::json(pair.before.unwrap_or(b"{}")).is_none() {
        raw(pair, findings);
        return;
    }
    parsed(pair, Ecosystem::Dotnet, tree::json, read, findings);
}
