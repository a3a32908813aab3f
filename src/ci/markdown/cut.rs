//! Markdown cut to a size: between two blocks, with everything closed that is open.
//!
//! It knows the blocks that this layer writes: fences of backticks and `<details>`.

/// Returns Markdown of at most so many bytes: the whole, or its beginning up to the end of a block
/// and then the closing sentence; nothing where not even that fits.
///
/// Where the last whole block is less than half of what fits, as before one large block of code,
/// it is cut between two lines.
pub fn cut(markdown: &str, most: usize, closing: &str) -> String {
    if markdown.len() <= most {
        return markdown.to_owned();
    }
    let mut open = Open::default();
    let (mut at, mut by_block, mut by_line) = (0, None, None);
    for line in markdown.split_inclusive('\n') {
        let end = open.end(closing);
        if at + end.len() > most {
            break;
        }
        if open.fence.is_none() && line.trim().is_empty() {
            by_block = Some((at, end));
        } else {
            by_line = Some((at, end));
        }
        open.take(line);
        at += line.len();
    }
    let far = |found: &Option<(usize, String)>| found.as_ref().map_or(0, |(at, _)| *at);
    let best = match far(&by_block) >= far(&by_line) / 2 {
        true => by_block.or(by_line),
        false => by_line,
    };
    match best {
        Some((at, end)) => format!("{}{end}", markdown[..at].trim_end_matches('\n')),
        None => String::new(),
    }
}

/// What is open at one point.
#[derive(Debug, Default)]
struct Open {
    /// The backticks of the fence.
    fence: Option<usize>,
    /// How many `<details>`.
    details: usize,
}

impl Open {
    fn take(&mut self, line: &str) {
        let line = line.trim_end();
        let ticks = line.len() - line.trim_start_matches('`').len();
        let rest = &line[ticks..];
        match self.fence {
            Some(opened) if ticks >= opened && rest.is_empty() => self.fence = None,
            Some(_) => {}
            // The word behind an opening fence has no backtick: else it is a code span.
            None if ticks >= 3 && !rest.contains('`') => self.fence = Some(ticks),
            None if line.starts_with("<details") => self.details += 1,
            None if line.starts_with("</details>") => {
                self.details = self.details.saturating_sub(1);
            }
            None => {}
        }
    }

    /// Returns what closes all that is open and says that it was cut.
    fn end(&self, closing: &str) -> String {
        let mut end = "\n".to_owned();
        if let Some(ticks) = self.fence {
            end.push_str(&"`".repeat(ticks));
            end.push('\n');
        }
        end.push('\n');
        end.push_str(&"</details>\n\n".repeat(self.details));
        end.push_str(closing);
        end.push('\n');
        end
    }
}
