//! One sticky note a key, on the merge request.
//!
//! The API has no write under a condition, so that every write is followed by a look: two jobs that
//! raced both see both notes, keep the oldest, and the newer turn's text is what stays in it.

use super::api::{Api, Given, Refused, Stood, Token};
use super::job::{Job, Origin, TOKEN};
use super::marker::Marker;
use crate::ci::http::Policy;
use crate::ci::subject::{Key, Turn};

/// The most bytes of a note; GitLab takes a million characters.
pub const MAX_BODY: usize = 900_000;
/// How often the list is looked at, the last time to see that all is well.
const MAX_ROUNDS: usize = 4;

/// What is to stand in the note.
#[derive(Debug, Clone, Copy)]
pub struct Note<'a> {
    /// Whose note it is.
    pub key: &'a Key,
    /// Which turn writes it.
    pub turn: Turn,
    /// The commit it is about.
    pub head: &'a str,
    /// Its text, as Markdown that hostile text cannot leave.
    pub markdown: &'a str,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Told {
    /// There is a new note.
    Created,
    /// The note has the new text.
    Updated,
    /// The note already had this text; nothing was sent.
    Unchanged,
    /// A newer turn wrote it already; it was left alone.
    Superseded,
    /// There is nothing to write to, or nothing to write with; one sentence.
    Notice(String),
    /// It could not be written; one sentence that says what is missing.
    Warning(String),
}

/// Makes the one note of a key say this, unless a newer turn already said something else.
///
/// Never fails: the note is for people, and what it says stands in the log and in the reports too.
pub async fn keep_note(job: &Job, token: Option<Token>, policy: Policy, note: &Note<'_>) -> Told {
    if job.request.is_none() {
        return Told::Notice(
            "This pipeline has no merge request, so no note is written.".to_owned(),
        );
    }
    let Some(token) = token else {
        let why = match job.origin {
            Origin::Fork => " (a pipeline of a fork does not get the variables of this project)",
            Origin::Same | Origin::Unknown => "",
        };
        return Told::Notice(format!(
            "No note is written on the merge request: {TOKEN} is not set{why}. It takes a project access token with the scope `api` and the role Reporter; CI_JOB_TOKEN can only read notes."
        ));
    };
    let api = match Api::new(job, token, policy) {
        Ok(Some(api)) => api,
        Ok(None) => {
            return Told::Notice("CI_API_V4_URL is not set, so no note is written.".to_owned());
        }
        Err(error) => {
            return Told::Warning(format!("No note was written on the merge request: {error}."));
        }
    };
    converge(&api, note).await.unwrap_or_else(|refused| Told::Warning(warning(&refused)))
}

async fn converge(api: &Api, note: &Note<'_>) -> Result<Told, Refused> {
    let marker = Marker::new(note.key, note.turn, note.head);
    let body = body(&marker, note.markdown);
    let unnamed = Key { name: String::new(), ..note.key.clone() };
    let refused = Marker::new(&unnamed, note.turn, note.head).key;
    let me = api.fetch_user().await?;
    let mut told = Told::Unchanged;
    let mut created = None;
    for _ in 0..MAX_ROUNDS {
        let mut notes = api.fetch_notes().await?;
        if let Some(id) = created.filter(|id| notes.iter().all(|note| note.id != *id)) {
            // A list may come from a copy of the data base that is a little behind.
            notes.extend(api.fetch_note(id).await?);
        }
        // What older pipelines of the job said when they were refused: their loop had no name yet.
        let overtaken: Vec<u64> = match refused == marker.key {
            true => Vec::new(),
            false => own(&notes, me, &refused)
                .iter()
                .filter(|(_, other)| other.turn < note.turn)
                .map(|(given, _)| given.id)
                .collect(),
        };
        let own = own(&notes, me, &marker.key);
        let Some((oldest, _)) = own.first() else {
            if created.is_some() {
                // It was there and is gone: someone deleted it, and means it.
                return Ok(told);
            }
            created = Some(api.post_note(&body).await?);
            told = Told::Created;
            continue;
        };
        if own.iter().any(|(_, other)| other.turn > note.turn) {
            if let Some(id) = created.filter(|id| *id != oldest.id) {
                api.delete_note(id).await?;
            }
            return Ok(Told::Superseded);
        }
        if !same(&oldest.body, &body) {
            if api.put_note(oldest.id, &body).await? == Stood::There {
                told = if created == Some(oldest.id) { Told::Created } else { Told::Updated };
            }
            continue;
        }
        // Only after the one that stays has the newest text.
        for extra in own[1..].iter().map(|(extra, _)| extra.id).chain(overtaken) {
            api.delete_note(extra).await?;
        }
        return Ok(told);
    }
    Ok(told)
}

/// Returns the notes of this user that bear the key, oldest first.
fn own<'a>(notes: &'a [Given], me: u64, key: &str) -> Vec<(&'a Given, Marker)> {
    let mut own: Vec<(&Given, Marker)> = notes
        .iter()
        .filter(|note| !note.system && note.author.id == me)
        .filter_map(|note| Marker::read(&note.body).map(|marker| (note, marker)))
        .filter(|(_, marker)| marker.key == key)
        .collect();
    own.sort_by_key(|(note, _)| note.id);
    own
}

/// GitLab may give back other line ends and no space at the end.
fn same(given: &str, body: &str) -> bool {
    given.replace("\r\n", "\n").trim_end() == body.trim_end()
}

/// Returns the whole text of a note.
fn body(marker: &Marker, markdown: &str) -> String {
    let mut text = format!("{}\n{}", marker.line(), without_quick_actions(markdown));
    if text.len() > MAX_BODY {
        text.truncate(text.floor_char_boundary(MAX_BODY));
        text.push('…');
    }
    text
}

/// Returns the text with no line that GitLab takes for a quick action: `/close`, `/merge` and the
/// like are carried out when a note is written, with the token's rights.
///
/// They stand at the start of a line; a backslash before the slash is not seen in Markdown.
fn without_quick_actions(markdown: &str) -> String {
    let markdown = markdown.replace("\r\n", "\n").replace('\r', "\n");
    let mut safe = String::with_capacity(markdown.len());
    for (number, line) in markdown.split('\n').enumerate() {
        if number > 0 {
            safe.push('\n');
        }
        let start = line.trim_start();
        if is_quick_action(start) {
            safe.push_str(&line[..line.len() - start.len()]);
            safe.push('\\');
            safe.push_str(start);
        } else {
            safe.push_str(line);
        }
    }
    safe
}

/// Tells whether a line starts with a slash and a word, and not with a path.
fn is_quick_action(line: &str) -> bool {
    let Some(rest) = line.strip_prefix('/') else { return false };
    let word = rest.split(|c: char| c.is_whitespace()).next().unwrap_or("");
    word.starts_with(|c: char| c.is_alphabetic()) && !word.contains('/')
}

fn warning(refused: &Refused) -> String {
    let Refused { what, status } = refused;
    let need = match status {
        Some(401) => format!(
            "; {TOKEN} is not a valid token: it takes a project access token with the scope `api`"
        ),
        Some(403) => format!(
            "; {TOKEN} needs the scope `api` and the role Reporter in the project of the merge request"
        ),
        Some(404) => format!(
            "; {TOKEN} does not see this merge request: it needs the scope `api` and the role Reporter in its project"
        ),
        _ => String::new(),
    };
    format!("The note on the merge request was not written: {what}{need}.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_a_quick_action() {
        let text = "/close\nx /close\n  /merge now\n/usr/bin/env\n/\r/approve\r\n/label ~\"a\"";
        assert_eq!(
            without_quick_actions(text),
            "\\/close\nx /close\n  \\/merge now\n/usr/bin/env\n/\n\\/approve\n\\/label ~\"a\""
        );
    }

    #[test]
    fn a_body_that_is_too_long_is_cut_between_characters() {
        let marker = Marker::new(&Key::default(), Turn::default(), "");
        let body = body(&marker, &"ä".repeat(MAX_BODY));
        assert!(body.len() <= MAX_BODY + 3);
        assert!(Marker::read(&body).is_some());
    }

    #[test]
    fn a_refusal_names_what_is_missing() {
        for (status, word) in [(401, "valid token"), (403, "scope `api`"), (404, "does not see")] {
            let refused = Refused { what: "w".into(), status: Some(status) };
            let text = warning(&refused);
            assert!(text.contains(word) && text.contains(TOKEN), "{text}");
            assert_eq!(text.matches(". ").count(), 0, "one sentence: {text}");
        }
    }
}
