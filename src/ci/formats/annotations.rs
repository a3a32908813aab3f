//! GitLab's annotations report: links on the page of a job.
//!
//! Format: GitLab's page on artifact reports, `artifacts:reports:annotations`.

use super::legal;
use crate::ci::subject::Subject;
use serde_json::{Value, json};

/// The most bytes of a URL.
const MAX_URL: usize = 1_024;

/// Returns the report; without links an empty object.
pub fn annotations(subject: &Subject) -> Value {
    let links = [("Receipt", &subject.links.artifact), ("Job", &subject.links.job)];
    let links: Vec<Value> = links
        .into_iter()
        .filter_map(|(label, url)| Some((label, web_url(url.as_deref()?)?)))
        .map(|(label, url)| {
            let name = legal::line(&subject.key.name, 100);
            let label =
                if name.is_empty() { label.to_owned() } else { format!("{label} ({name})") };
            json!({"external_link": {"label": label, "url": url}})
        })
        .collect();
    if links.is_empty() { json!({}) } else { json!({"loopexec": links}) }
}

/// Returns a URL that leads to a web page and is written in the characters of one.
pub fn web_url(url: &str) -> Option<&str> {
    let web = url.starts_with("https://") || url.starts_with("http://");
    let plain = url.bytes().all(|byte| byte.is_ascii_graphic());
    let harmless = !url.contains(['"', '<', '>', '\\', '^', '`', '{', '|', '}']);
    (web && plain && harmless && url.len() <= MAX_URL).then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_pages_are_linked() {
        assert!(web_url("https://gitlab.example/g/p/-/jobs/7").is_some());
        for url in ["javascript:alert(1)", "https://a b", "https://a\n", "https://\"", ""] {
            assert_eq!(web_url(url), None, "{url:?}");
        }
    }
}
