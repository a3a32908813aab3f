//! What decides tests in MSBuild's project and directory files.

use super::packages::{Age, Ecosystem, Entry, compare};
use super::plain::{parse_both, whole};
use super::walk::{Findings, Rule, Weight, turns_on, walk};
use super::{Pair, tree};
use serde_json::Value;

/// Compares `*.csproj` and `Directory.*.props`.
pub(super) fn project(pair: &Pair<'_>, findings: &mut Findings) {
    let directory = pair.name.starts_with("Directory.");
    if pair.before.is_none() && pair.age() == Age::New && !directory {
        whole(pair, Weight::Allowed, findings);
        return;
    }
    if pair.after.is_none() {
        whole(pair, Weight::Breach, findings);
        return;
    }
    let Some((before, after)) = parse_both(pair, tree::xml, findings) else { return };
    let (old, new) = (packages(&before), packages(&after));
    let age = if directory { Age::Old } else { pair.age() };
    compare(Ecosystem::Dotnet, age, &old, &new, findings);
    walk(&before, &after, &rule, findings);
}

fn packages(project: &Value) -> Vec<Entry> {
    let mut all = Vec::new();
    let groups = project.get("Project").and_then(Value::as_object);
    for (_, group) in groups.into_iter().flatten().filter(|(key, _)| key.starts_with("ItemGroup")) {
        for (key, spec) in group.as_object().into_iter().flatten() {
            let name = key
                .strip_prefix("PackageReference ")
                .or_else(|| key.strip_prefix("PackageVersion "));
            if let Some(name) = name {
                let table = key.split(' ').next().unwrap_or("").to_owned();
                all.push(Entry { table, name: name.to_owned(), spec: spec.clone() });
            }
        }
    }
    all
}

fn rule(path: &[&str]) -> Rule {
    match path {
        ["Project"] => Rule::Into,
        ["Project", group] if group.starts_with("PropertyGroup") => Rule::Into,
        ["Project", group, name] if group.starts_with("PropertyGroup") => property(name),
        ["Project", group] if group.starts_with("ItemGroup") => Rule::Into,
        ["Project", group, item, ..] if group.starts_with("ItemGroup") => {
            if item.starts_with("Package") {
                Rule::Skip
            } else if item.starts_with("ProjectReference") {
                Rule::Adds
            } else if item.contains(".cs")
                || item.starts_with("Compile")
                || item.starts_with("Using")
            {
                Rule::Steers
            } else {
                Rule::Notes
            }
        }
        // Imports, targets and tasks run code of their own.
        _ => Rule::Into,
    }
}

fn property(name: &str) -> Rule {
    match name {
        "TreatWarningsAsErrors" | "WarningsAsErrors" => Rule::Judge(turns_on),
        "NoWarn"
        | "Nullable"
        | "DefineConstants"
        | "EnableDefaultCompileItems"
        | "TargetFramework"
        | "TargetFrameworks"
        | "RunSettingsFilePath"
        | "Optimize" => Rule::Steers,
        _ if name.contains("Test") || name.starts_with('@') => Rule::Steers,
        _ => Rule::Notes,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Judged, Mutable, compare};

    #[test]
    fn packages_may_come_and_tests_may_not_go() {
        let before = b"<Project Sdk=\"a\"><PropertyGroup><Version>1</Version></PropertyGroup><ItemGroup><PackageReference Include=\"xunit\" Version=\"2\"/></ItemGroup></Project>";
        let judged =
            |after: &str| compare("a/a.csproj", Some(before), Some(after.as_bytes()), Mutable::No);
        let base = String::from_utf8_lossy(before).into_owned();
        let more = base.replace(
            "</ItemGroup>",
            "<PackageReference Include=\"Dapper\" Version=\"2\"/></ItemGroup>",
        );
        assert!(matches!(judged(&more), Judged::Allowed(_)));
        assert!(matches!(judged(&base.replace("<Version>1", "<Version>2")), Judged::Allowed(_)));
        let less = base.replace("</ItemGroup>", "<Compile Remove=\"Tests.cs\"/></ItemGroup>");
        assert!(matches!(judged(&less), Judged::Breach(_)));
        let off = base
            .replace("</PropertyGroup>", "<IsTestProject>false</IsTestProject></PropertyGroup>");
        assert!(matches!(judged(&off), Judged::Breach(_)));
        assert!(matches!(
            judged(&base.replace("Version=\"2\"", "Version=\"3\"")),
            Judged::Breach(_)
        ));
        let import = base.replace("</Project>", "<Import Project=\"x.targets\"/></Project>");
        assert!(matches!(judged(&import), Judged::Breach(_)));
    }
}
