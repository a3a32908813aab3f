//! What an artifact is called, and for how long it is kept.

use crate::ci::subject::Key;
use crate::domain::hex;
use crate::error::{Error, Kind, Result};
use serde_json::Value;

/// What GitHub takes in no name of an artifact.
const FORBIDDEN: &[char] = &['"', ':', '<', '>', '|', '*', '?', '\r', '\n', '\\', '/'];

/// The most characters of the loop's name and of the job's in an artifact's name.
const PART: usize = 80;

/// The most bytes of a name.
const LONGEST: usize = 240;

/// The days for which GitHub keeps an artifact at the most, in any plan.
const MOST_DAYS: u32 = 400;

/// Returns what the artifacts of all attempts of a loop are called, without the attempt.
pub fn base_name(key: &Key) -> String {
    let mut name = format!("loopexec-{}-{}", part(&key.name), part(&key.job));
    if let Some(hash) = matrix_hash(&key.matrix) {
        name.push('-');
        name.push_str(&hash);
    }
    name
}

/// Returns what the artifact of one attempt is called where the loop file gives no name.
pub fn default_name(key: &Key, attempt: u64) -> String {
    format!("{}-{}", base_name(key), attempt.max(1))
}

/// Checks a name that a loop file or an input gave.
///
/// # Errors
/// `config_invalid` with what it must not hold.
pub fn check_name(name: &str) -> Result<()> {
    let why = if name.trim().is_empty() {
        "it is empty".to_owned()
    } else if name.len() > LONGEST {
        format!("it has more than {LONGEST} bytes")
    } else if let Some(bad) = name.chars().find(|c| FORBIDDEN.contains(c) || c.is_control()) {
        format!("it holds {bad:?}")
    } else {
        return Ok(());
    };
    let shown: String = name.chars().take(60).collect();
    Err(Error::new(Kind::ConfigInvalid, format!("{shown:?} is no name of an artifact: {why}"))
        .hint("a name has none of \" : < > | * ? \\ / and no line end"))
}

/// Returns the days that may be asked for, and a sentence where they are fewer than wanted.
///
/// `limit` is `GITHUB_RETENTION_DAYS`, the most that the repository allows.
pub fn retention(wanted: Option<u32>, limit: Option<&str>) -> (Option<u32>, Option<String>) {
    let Some(wanted) = wanted else { return (None, None) };
    let limit = limit.and_then(|limit| limit.trim().parse::<u32>().ok()).filter(|days| *days > 0);
    let most = limit.unwrap_or(MOST_DAYS).min(MOST_DAYS);
    let days = wanted.clamp(1, most);
    let told = (days < wanted).then(|| {
        format!("the artifact is kept {days} days, not {wanted}: the repository allows no more")
    });
    (Some(days), told)
}

/// Makes a text fit to stand in a name.
fn part(text: &str) -> String {
    let fit = |c: char| match c {
        '.' | '_' | '-' => c,
        c if c.is_ascii_alphanumeric() => c,
        _ => '_',
    };
    let part: String = text.chars().take(PART).map(fit).collect();
    if part.is_empty() { "_".to_owned() } else { part }
}

/// Returns a short digest of a matrix whose keys may stand in any order; none without a matrix.
fn matrix_hash(matrix: &str) -> Option<String> {
    let matrix = matrix.trim();
    let canonical = match serde_json::from_str::<Value>(matrix) {
        Ok(Value::Null) => return None,
        Ok(Value::Object(map)) if map.is_empty() => return None,
        Ok(mut value) => {
            value.sort_all_objects();
            value.to_string()
        }
        Err(_) if matrix.is_empty() => return None,
        Err(_) => matrix.to_owned(),
    };
    Some(hex::sha256(canonical.as_bytes())[..8].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, job: &str, matrix: &str) -> Key {
        Key { workflow: "w".into(), job: job.into(), matrix: matrix.into(), name: name.into() }
    }

    #[test]
    fn name_job_matrix_and_attempt_make_the_name() {
        assert_eq!(default_name(&key("fix", "test", ""), 2), "loopexec-fix-test-2");
        for none in ["null", "{}", " ", ""] {
            assert_eq!(base_name(&key("fix", "test", none)), "loopexec-fix-test");
        }
        let one = base_name(&key("fix", "test", r#"{"os":"linux","n":1}"#));
        assert_eq!(one.len(), "loopexec-fix-test-".len() + 8);
        assert_eq!(one, base_name(&key("fix", "test", r#"{ "n": 1, "os": "linux" }"#)));
        assert_ne!(one, base_name(&key("fix", "test", r#"{"os":"linux","n":2}"#)));
    }

    #[test]
    fn any_job_and_name_give_a_name_that_is_taken() {
        for hostile in ["a/b\\c:d", "\n::error::", "", "é\"<>|*?\r", &"x".repeat(500), "$(id)"] {
            let name = default_name(&key(hostile, hostile, hostile), u64::MAX);
            check_name(&name).unwrap();
            assert!(name.is_ascii() && !name.contains(['$', '(', ' ']), "{name}");
        }
        for bad in ["", " ", "a/b", "a:b", "a\nb", "a\u{1b}b", "a*", &"x".repeat(241)] {
            assert_eq!(check_name(bad).unwrap_err().kind, Kind::ConfigInvalid, "{bad:?}");
        }
        check_name("my receipts (linux) é").unwrap();
    }

    #[test]
    fn days_are_held_to_what_the_repository_allows() {
        assert_eq!(retention(None, Some("30")), (None, None));
        assert_eq!(retention(Some(7), Some("30")), (Some(7), None));
        assert_eq!(retention(Some(7), None), (Some(7), None));
        let (days, told) = retention(Some(90), Some("30"));
        assert_eq!(days, Some(30));
        assert!(told.unwrap().contains("30 days, not 90"));
        assert_eq!(retention(Some(0), Some("x")).0, Some(1));
        assert_eq!(retention(Some(9000), Some("0")).0, Some(400));
    }
}
