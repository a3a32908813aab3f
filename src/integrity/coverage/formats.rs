//! The reports that are lines of text or JSON: lcov, Go's profile, coverage.py.
//!
//! Sources: geninfo(1) for lcov, `cmd/cover` for Go, coverage.py's `jsonreport.py`.

use super::{Gather, MAX_LINE, Seen};
use serde_json::Value;

/// Reads lcov's records: `SF` names a file, `DA:line,count` a line.
pub(super) fn lcov(text: &str, gather: &mut Gather<'_>) -> Result<(), String> {
    let mut file: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if let Some(path) = line.strip_prefix("SF:") {
            file = gather.path(path);
            if let Some(path) = &file {
                gather.file(path);
            }
        } else if line == "end_of_record" {
            file = None;
        } else if let (Some(data), Some(path)) = (line.strip_prefix("DA:"), &file) {
            let broken = || format!("The lcov report has a line that cannot be read: {line:.80}");
            let mut parts = data.split(',');
            let number =
                parts.next().and_then(|part| part.trim().parse().ok()).ok_or_else(broken)?;
            let count: f64 =
                parts.next().and_then(|part| part.trim().parse().ok()).ok_or_else(broken)?;
            gather.line(path, number, if count > 0.0 { Seen::Covered } else { Seen::Missed })?;
        }
    }
    Ok(())
}

/// Reads Go's profile: `file:line.column,line.column statements count`.
pub(super) fn go(text: &str, gather: &mut Gather<'_>) -> Result<(), String> {
    let mut last: (String, Option<String>) = (String::new(), None);
    for line in text.lines().map(str::trim) {
        // Concatenated profiles repeat their first line.
        if line.is_empty() || line.starts_with("mode:") {
            continue;
        }
        let broken = || format!("The Go profile has a line that cannot be read: {line:.80}");
        let (name, block) = line.rsplit_once(':').ok_or_else(broken)?;
        let words: Vec<&str> = block.split(' ').collect();
        let [range, statements, count] = words.as_slice() else { return Err(broken()) };
        let (start, end) = range.split_once(',').ok_or_else(broken)?;
        let row = |place: &str| -> Option<u32> { place.split('.').next()?.parse().ok() };
        let (start, end) = (row(start).ok_or_else(broken)?, row(end).ok_or_else(broken)?);
        let statements: u64 = statements.parse().map_err(|_| broken())?;
        let count: u64 = count.parse().map_err(|_| broken())?;
        if start > end || end > MAX_LINE {
            return Err(broken());
        }
        if last.0 != name {
            last = (name.to_owned(), gather.named(name));
        }
        let Some(path) = &last.1 else { continue };
        gather.file(path);
        if statements == 0 {
            continue;
        }
        for row in start..=end {
            gather.line(path, row, if count > 0 { Seen::Covered } else { Seen::Missed })?;
        }
    }
    Ok(())
}

/// Reads coverage.py's JSON.
pub(super) fn coverage_py(text: &str, gather: &mut Gather<'_>) -> Result<(), String> {
    let report: Value = serde_json::from_str(text)
        .map_err(|error| format!("The coverage report is not valid JSON: {error}."))?;
    let Some(files) = report.get("files").and_then(Value::as_object) else {
        return Err("The coverage report has no \"files\", as coverage.py writes them.".to_owned());
    };
    for (name, file) in files {
        let Some(path) = gather.path(name) else { continue };
        gather.file(&path);
        for (key, seen) in [
            ("executed_lines", Seen::Covered),
            ("missing_lines", Seen::Missed),
            ("excluded_lines", Seen::Excluded),
        ] {
            for line in file.get(key).and_then(Value::as_array).into_iter().flatten() {
                // Negative numbers are arcs that leave a function.
                if let Some(line) = line.as_u64().and_then(|line| u32::try_from(line).ok())
                    && line > 0
                {
                    gather.line(&path, line, seen)?;
                }
            }
        }
    }
    Ok(())
}
