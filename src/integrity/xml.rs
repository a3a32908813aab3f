//! What keeps a text of XML from growing without bound inside its parser: depth, attributes of one element,
//! and namespaces, each of which costs more than its length.
//!
//! Document types are refused where the parser is called.

/// The most attributes of one element: a parser holds each against all others.
const MAX_ATTRIBUTES: usize = 1_000;
/// The most mentions of namespaces in tags: every element that names one copies those around it.
const MAX_NAMESPACES: usize = 1_000;

/// Returns what a text has too much of, as the end of a sentence; nothing where it may be parsed.
pub(in crate::integrity) fn excess(text: &str, max_depth: usize) -> Option<String> {
    let (mut depth, mut namespaces) = (0_usize, 0_usize);
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let skipped = [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>")]
            .iter()
            .find_map(|(open, close)| Some((rest.strip_prefix(open)?, close)));
        if let Some((inside, close)) = skipped {
            rest = inside.split_once(close).map_or("", |(_, after)| after);
        } else if rest.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !rest.starts_with('!') {
            let (end, attributes) = tag(rest);
            let own = &rest[..end];
            if attributes > MAX_ATTRIBUTES {
                return Some(format!("has an element with more than {MAX_ATTRIBUTES} attributes"));
            }
            namespaces += own.matches("xmlns").count();
            if namespaces > MAX_NAMESPACES {
                return Some(format!("names more than {MAX_NAMESPACES} namespaces"));
            }
            if !own.ends_with('/') {
                depth += 1;
                if depth > max_depth {
                    return Some(format!("is nested deeper than {max_depth} elements"));
                }
            }
            rest = &rest[end..];
        }
    }
    None
}

/// Returns where a tag ends, and how many attributes it has at most; what stands in quotes ends nothing.
fn tag(text: &str) -> (usize, usize) {
    let (mut quote, mut attributes) = (None, 0);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return (at, attributes),
            (None, b'=') => attributes += 1,
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
    }
    (text.len(), attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_found_and_what_only_looks_like_it_is_not() {
        let many = |one: &str, count: usize| one.repeat(count);
        for (text, found) in [
            ("<a><b/><b>x</b></a>".to_owned(), false),
            (many("<a>", 65), true),
            (many("<a/>", 100_000), false),
            (many("<a></a>", 100_000), false),
            (format!("<a><![CDATA[{}]]><!--{0}--></a>", many("<b>", 1_000)), false),
            (format!("<a {}/>", many("b='1' ", 1_001)), true),
            (format!("<a b='{}>'/>", many("=", 5_000)), false),
            (many("<a xmlns:b='c'/>", 1_001), true),
            (format!("<a>{}</a>", many("xmlns ", 5_000)), false),
            ("<a b='".to_owned(), false),
            ("<".to_owned(), false),
        ] {
            assert_eq!(excess(&text, 64).is_some(), found, "{text:.60}");
        }
    }
}
