//! The reports in XML: Cobertura's, which many tools write, and JaCoCo's.
//!
//! Sources: Cobertura's `coverage-04.dtd`, JaCoCo's `report.dtd`.

use super::{Gather, Seen};
use crate::integrity::manifest::document;
use roxmltree::Node;

/// The most sources of a Cobertura report: each is tried for every class.
const MAX_SOURCES: usize = 100;

/// Reads either of them by its root element.
pub(super) fn read(text: &str, gather: &mut Gather<'_>) -> Result<(), String> {
    let text = without_doctype(text);
    let document = document(&text)
        .ok_or("The coverage report is not well-formed XML, or made to be large.")?;
    let root = document.root_element();
    match root.tag_name().name() {
        "coverage" => cobertura(root, gather),
        "report" => jacoco(root, gather),
        other => Err(format!("The coverage report begins with <{other:.40}>, which none does.")),
    }
}

/// Both formats name a document type. One that only points elsewhere is dropped; one that defines
/// something stays, and is refused by the parser.
fn without_doctype(text: &str) -> String {
    let Some(start) = text.find("<!DOCTYPE") else { return text.to_owned() };
    let Some(end) = text[start..].find('>').map(|at| start + at) else { return text.to_owned() };
    if text[start..end].contains('[') {
        return text.to_owned();
    }
    format!("{}{}", &text[..start], &text[end + 1..])
}

fn elements<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    node.descendants().filter(move |node| node.is_element() && node.tag_name().name() == name)
}

fn number(node: Node<'_, '_>, name: &str) -> Option<u64> {
    node.attribute(name)?.trim().parse().ok()
}

fn cobertura(root: Node<'_, '_>, gather: &mut Gather<'_>) -> Result<(), String> {
    // A file name is relative to one of the sources, often the only one.
    let sources: Vec<String> = elements(root, "source")
        .filter_map(|source| source.text())
        .map(|source| source.trim().to_owned())
        .take(MAX_SOURCES)
        .collect();
    for class in elements(root, "class") {
        let Some(name) = class.attribute("filename") else { continue };
        let within = sources
            .iter()
            .filter(|source| !source.is_empty() && !name.starts_with('/'))
            .find_map(|source| gather.path(&format!("{source}/{name}")));
        let Some(path) = within.or_else(|| gather.path(name)) else { continue };
        gather.file(&path);
        for line in elements(class, "line") {
            let Some(row) = number(line, "number").and_then(|row| u32::try_from(row).ok()) else {
                return Err(format!("The Cobertura report has a line without a number in {name}."));
            };
            let hit = number(line, "hits").is_some_and(|hits| hits > 0);
            gather.line(&path, row, if hit { Seen::Covered } else { Seen::Missed })?;
        }
    }
    Ok(())
}

fn jacoco(root: Node<'_, '_>, gather: &mut Gather<'_>) -> Result<(), String> {
    for package in elements(root, "package") {
        let folder = package.attribute("name").unwrap_or("");
        for source in package.children().filter(|node| node.tag_name().name() == "sourcefile") {
            let name = source.attribute("name").unwrap_or("");
            let name = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            let Some(path) = gather.named(&name) else { continue };
            gather.file(&path);
            for line in elements(source, "line") {
                let Some(row) = number(line, "nr").and_then(|row| u32::try_from(row).ok()) else {
                    return Err(format!(
                        "The JaCoCo report has a line without a number in {name}."
                    ));
                };
                let hit = number(line, "ci").is_some_and(|instructions| instructions > 0);
                gather.line(&path, row, if hit { Seen::Covered } else { Seen::Missed })?;
            }
        }
    }
    Ok(())
}
