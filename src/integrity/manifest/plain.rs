//! Settings without a family of their own: whole files, parsed or raw.

use super::walk::{Findings, Rule, Weight, missing, walk};
use super::{Pair, tree};
use serde_json::Value;

/// The text of a file with its line ends as `\n`, no blanks before them and none at the end.
pub(super) fn normal(bytes: &[u8]) -> Vec<u8> {
    let mut lines: Vec<&[u8]> = bytes.split(|b| *b == b'\n').map(<[u8]>::trim_ascii_end).collect();
    while lines.last().is_some_and(|line| line.is_empty()) {
        lines.pop();
    }
    lines.join(&b'\n')
}

/// Records that the file as a whole differs.
pub(super) fn whole(pair: &Pair<'_>, weight: Weight, findings: &mut Findings) {
    let said = |bytes: Option<&[u8]>| bytes.map(|bytes| format!("{} bytes", bytes.len()));
    let (before, after) = (said(pair.before), said(pair.after));
    findings.add(weight, "content", before.as_deref(), after.as_deref());
}

/// Compares bytes, line ends and trailing blanks apart.
pub(super) fn raw(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.map(normal) != pair.after.map(normal)
        || pair.before.is_some() != pair.after.is_some()
    {
        whole(pair, Weight::Breach, findings);
    }
}

/// How a parser reads one format.
pub(super) type Parser = fn(&[u8]) -> Option<Value>;

/// Parses both states, absence as emptiness; nothing where that cannot be, which is then recorded.
pub(super) fn parse_both(
    pair: &Pair<'_>,
    parser: Parser,
    findings: &mut Findings,
) -> Option<(Value, Value)> {
    let read = |bytes: Option<&[u8]>| bytes.map_or_else(|| Some(tree::empty()), parser);
    match (read(pair.before), read(pair.after)) {
        (Some(before), Some(after)) => Some((before, after)),
        (Some(_), None) => {
            let said = pair.before.map(|_| "parseable");
            findings.add(Weight::Breach, "content", said, Some("not parseable"));
            None
        }
        (None, _) => {
            raw(pair, findings);
            None
        }
    }
}

/// The parser a file's name asks for.
pub(super) fn parser_of(name: &str) -> Parser {
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "toml" => tree::toml,
        "yml" | "yaml" => tree::yaml,
        "xml" | "runsettings" => tree::xml,
        _ => tree::json,
    }
}

/// A parsed file every key of which steers.
pub(super) fn parsed(pair: &Pair<'_>, findings: &mut Findings) {
    presence(pair, findings);
    if let Some((before, after)) = parse_both(pair, parser_of(pair.name), findings) {
        walk(&before, &after, &|_| Rule::Into, findings);
    }
}

/// That a file comes or goes steers by itself.
pub(super) fn presence(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_some() != pair.after.is_some() {
        whole(pair, Weight::Breach, findings);
    }
}

/// A short file whose text is the setting.
pub(super) fn trimmed(pair: &Pair<'_>, findings: &mut Findings) {
    let words = |bytes: Option<&[u8]>| {
        bytes.map(|bytes| {
            let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]).into_owned();
            let kept = text.lines().map(|line| line.split('#').next().unwrap_or("").trim());
            kept.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
        })
    };
    let (before, after) = (words(pair.before), words(pair.after));
    if before != after {
        findings.add(Weight::Breach, "content", before.as_deref(), after.as_deref());
    }
}

/// Attributes that run a program or change what is checked out; line ends are nobody's business.
pub(super) fn gitattributes(pair: &Pair<'_>, findings: &mut Findings) {
    let lines = |bytes: Option<&[u8]>| -> Vec<String> {
        let text = String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
        let kept = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        kept.filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
    };
    let (before, after) = (lines(pair.before), lines(pair.after));
    for line in missing(&after, &before) {
        let steers = line.split(' ').skip(1).any(|attribute| {
            let attribute = attribute.trim_start_matches(['-', '!']);
            ["filter", "diff=", "merge=", "export-", "ident", "working-tree-encoding"]
                .iter()
                .any(|word| attribute.starts_with(word))
        });
        let weight = if steers { Weight::Breach } else { Weight::Allowed };
        findings.add(weight, "attributes", None, Some(line));
    }
    for line in missing(&before, &after) {
        findings.add(Weight::Allowed, "attributes", Some(line), None);
    }
}

/// Images and compositions: one that came is used by no t0 check, unless a tool lays it over
/// another by itself.
pub(super) fn container(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_none() && !pair.name.contains("override") {
        whole(pair, Weight::Allowed, findings);
        return;
    }
    let text = |bytes: Option<&[u8]>| {
        bytes.map(|bytes| {
            let normal = normal(bytes);
            let lines = normal.split(|b| *b == b'\n').map(<[u8]>::to_vec);
            lines
                .filter(|line| !line.is_empty() && !line.trim_ascii_start().starts_with(b"#"))
                .collect::<Vec<_>>()
        })
    };
    if text(pair.before) != text(pair.after) {
        whole(pair, Weight::Breach, findings);
    }
}

/// Hooks of the repository: no verdict rests on them, so a new one is nobody's loss.
pub(super) fn hook(pair: &Pair<'_>, findings: &mut Findings) {
    if pair.before.is_none() {
        whole(pair, Weight::Allowed, findings);
    } else {
        raw(pair, findings);
    }
}
