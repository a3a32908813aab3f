//! The parts of one line of TAP; what lines mean together is the duty of `tap`.

/// Tells whether a line is the version line.
pub(super) fn is_version(text: &str) -> bool {
    text.strip_prefix("TAP version ").is_some_and(|v| v.trim().parse::<u32>().is_ok())
}

/// Finds `file:` and `line:`, node's `location: 'file:3:4'`, bats' words or perl's, in a message.
pub(super) fn place(yaml: &str) -> (Option<String>, Option<u32>) {
    let value = |key: &str| {
        yaml.lines().find_map(|line| {
            let value = line.trim().strip_prefix(key)?.trim();
            Some(value.trim_matches(['\'', '"']).to_owned())
        })
    };
    if let Some(location) = value("location:") {
        let mut parts = location.rsplitn(3, ':');
        if let (Some(_), Some(line), Some(file)) = (parts.next(), parts.next(), parts.next()) {
            return (Some(file.to_owned()), line.parse().ok());
        }
    }
    if let Some((_, rest)) = yaml.split_once("(in test file ")
        && let Some((file, rest)) = rest.split_once(", line ")
    {
        let digits = rest.split(')').next().unwrap_or_default();
        return (Some(file.to_owned()), digits.parse().ok());
    }
    if let Some(file) = value("file:") {
        return (Some(file), value("line:").and_then(|line| line.parse().ok()));
    }
    perl_place(yaml)
}

/// Finds Test::More's `at t/x.t line 4.` in the comments on a failed test.
pub(super) fn perl_place(comments: &str) -> (Option<String>, Option<u32>) {
    let found = comments.lines().find_map(|line| {
        let line = line.trim();
        let line = line.strip_prefix("Failed test ").unwrap_or(line);
        let (file, digits) = line.strip_prefix("at ")?.rsplit_once(" line ")?;
        Some((file.to_owned(), digits.trim_end_matches('.').parse::<u32>().ok()?))
    });
    found.map_or((None, None), |(file, line)| (Some(file), Some(line)))
}

/// Tells whether a line is a test point.
pub(super) fn is_point(text: &str) -> bool {
    let rest = text.strip_prefix("not ").unwrap_or(text);
    rest.strip_prefix("ok").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

/// Returns the number of a test point and what follows it.
pub(super) fn number(text: &str) -> (Option<u64>, &str) {
    let rest = text.strip_prefix("not ").unwrap_or(text);
    let rest = rest.strip_prefix("ok").unwrap_or(rest).trim_start();
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let (number, after) = rest.split_at(digits);
    match number.parse() {
        Ok(number) if after.is_empty() || after.starts_with([' ', '\t']) => {
            (Some(number), after.trim_start())
        }
        _ => (None, rest),
    }
}

/// Splits a description from its directive; `\#` and `\\` are escapes.
pub(super) fn directive(text: &str) -> (String, String) {
    let text = text.strip_prefix('-').map_or(text, str::trim_start);
    let mut description = String::with_capacity(text.len());
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => {
                let next = chars.next().map(|(_, next)| next);
                match next {
                    Some(next @ ('#' | '\\')) => description.push(next),
                    Some(next) => description.extend(['\\', next]),
                    None => description.push('\\'),
                }
            }
            '#' => {
                let rest = text[at + 1..].trim_start();
                let word = rest.get(..4).unwrap_or_default().to_ascii_lowercase();
                if word == "skip" || word == "todo" {
                    return (description.trim().to_owned(), rest.to_owned());
                }
                description.push('#');
            }
            other => description.push(other),
        }
    }
    // A duration that some producers append is no part of the name.
    let name = description.trim();
    let name = match name.rsplit_once(" # time=") {
        Some((name, _)) => name,
        None => name,
    };
    (name.to_owned(), String::new())
}

/// Returns the number of planned points.
pub(super) fn plan(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("1..")?;
    let (digits, after) = rest.split_at(rest.bytes().take_while(u8::is_ascii_digit).count());
    let after = after.trim_start();
    if after.is_empty() || after.starts_with('#') { digits.parse().ok() } else { None }
}
