//! One sticky comment a key.
//!
//! Its first line is a marker that names the key, the run that wrote it and how far it was. Jobs
//! race, so nothing is taken for written until a fresh list shows it: list, do what is missing,
//! list again, until nothing is missing. The oldest comment stays, it carries the newest text, the
//! others go. What the text says is `markdown`'s duty.

use super::api::{Api, Cause, Need, Trouble};
use super::event::{Repository, is_sha};
use crate::ci::http::Effect;
use crate::ci::subject::{Key, Turn};
use crate::domain::hex;
use serde_json::{Value, json};
use std::cmp::Ordering;

/// The most bytes of a body; GitHub takes 65,536 characters.
pub const MAX_BODY: usize = 60_000;

/// How often the list is read again until nothing is missing.
const ROUNDS: u32 = 8;

/// The most pages of a hundred comments that are looked through.
const PAGES: u32 = 100;

const NEED: Need =
    Need { doing: "keep the comment on the pull request", permission: "pull-requests: write" };

/// How far the run is; a run's last word is never overwritten by an earlier one of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// It works.
    Running,
    /// It ended.
    Final,
}

impl State {
    const fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Final => "final",
        }
    }
}

/// What a comment shall say.
#[derive(Debug, Clone, Copy)]
pub struct Note<'a> {
    /// Which loop of which job it is about.
    pub key: &'a Key,
    /// Which run says it.
    pub turn: Turn,
    /// The commit it is about.
    pub head_sha: Option<&'a str>,
    /// How far the run is.
    pub state: State,
    /// The Markdown, [`MAX_BODY`] bytes at most, safe already.
    pub body: &'a str,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A comment was made.
    Created,
    /// The comment was changed.
    Updated,
    /// It says so already.
    Unchanged,
    /// A newer run has spoken; its text stands.
    Stale,
}

/// The comment that stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// What became of the note.
    pub outcome: Outcome,
    /// The comment's id.
    pub id: u64,
    /// Its page, where the server tells it.
    pub url: Option<String>,
}

/// Returns the part of the marker that names a key: sha256 over its four parts.
pub fn hash_of(key: &Key) -> String {
    let parts = json!([key.workflow, key.job, key.matrix, key.name]);
    hex::sha256(parts.to_string().as_bytes())
}

/// Returns the marker's part of what was refused before its loop had a name.
fn hash_of_refused(key: &Key) -> String {
    hash_of(&Key { name: String::new(), ..key.clone() })
}

/// What a marker says of the run that wrote a comment; the order is who may overwrite whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Mark {
    turn: Turn,
    state: State,
}

/// A comment with the key's marker by a writer that can be us.
#[derive(Debug, Clone)]
struct Standing {
    id: u64,
    mark: Mark,
    text: String,
    url: Option<String>,
}

/// One thing that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Act {
    Create,
    Write { id: u64, text: String },
    Delete { id: u64 },
}

/// Makes one comment on the pull request say what the note says, unless a newer run has spoken.
///
/// Called again with the same note it writes nothing. Comments by people are never taken for
/// ours, whatever marker they carry.
pub async fn publish(
    api: &Api,
    repository: &Repository,
    number: u64,
    note: &Note<'_>,
) -> Result<Published, Trouble> {
    if note.body.len() > MAX_BODY {
        return Err(NEED.failed(format!("its text is longer than {MAX_BODY} bytes")));
    }
    let hash = hash_of(note.key);
    let mark = Mark { turn: note.turn, state: note.state };
    let text = format!("{}\n{}", marker(&hash, mark, note.head_sha), note.body);
    let text = plain(&text);
    let refused = hash_of_refused(note.key);
    let place = Place { api, repository, number, hash: &hash, refused: &refused, mark };
    let (mut created, mut wrote, mut guarded) = (None, false, false);
    for _ in 0..ROUNDS {
        let Listed { standing, overtaken } = place.list(created).await?;
        // An older run still at work may have read before we write, and write after. Another look,
        // a little later, shows that.
        let other = |one: &Standing| one.mark.turn < mark.turn && one.mark.state == State::Running;
        let contested = !guarded && standing.iter().any(other);
        let mut acts = missing(&standing, mark, &text);
        acts.extend(overtaken.into_iter().map(|id| Act::Delete { id }));
        for act in &acts {
            match act {
                Act::Create => created = Some(place.create(&text).await?),
                Act::Write { id, text } => place.write(*id, text).await?,
                Act::Delete { id } => place.delete(*id).await?,
            }
            wrote = true;
        }
        if contested {
            guarded = true;
            api.pause(api.policy().first_wait * 2).await;
            continue;
        }
        if acts.is_empty()
            && let Some(first) = standing.first()
        {
            let outcome = match (first.mark.cmp(&mark), created, wrote) {
                (Ordering::Greater, ..) => Outcome::Stale,
                (_, Some(_), _) => Outcome::Created,
                (_, None, true) => Outcome::Updated,
                (_, None, false) => Outcome::Unchanged,
            };
            return Ok(Published { outcome, id: first.id, url: first.url.clone() });
        }
    }
    Err(NEED.failed("other jobs keep changing it"))
}

/// Says what is missing for one comment with the newest text; nothing where all is well.
///
/// Every racer that sees the same list says the same: the lowest id stays. Where two marks are
/// equal, the later writer's text stands.
fn missing(standing: &[Standing], mark: Mark, text: &str) -> Vec<Act> {
    let Some((keep, rest)) = standing.split_first() else { return vec![Act::Create] };
    let newest = standing.iter().max_by_key(|one| one.mark).filter(|newest| newest.mark > mark);
    let wanted = newest.map_or(text, |newest| &newest.text);
    let mut acts = Vec::new();
    if keep.text != wanted {
        acts.push(Act::Write { id: keep.id, text: wanted.to_owned() });
    }
    // Only after the one that stays has the newest text.
    acts.extend(rest.iter().map(|one| Act::Delete { id: one.id }));
    acts
}

/// Where the comment lives.
struct Place<'a> {
    api: &'a Api,
    repository: &'a Repository,
    number: u64,
    hash: &'a str,
    refused: &'a str,
    mark: Mark,
}

/// What stands on a pull request.
#[derive(Debug, Default)]
struct Listed {
    /// The comments of the key, the oldest first.
    standing: Vec<Standing>,
    /// What older runs of the job said when they were refused: their loop had no name yet.
    overtaken: Vec<u64>,
}

impl Place<'_> {
    /// Lists the comments that are ours, the oldest first; one just created is among them even
    /// where the list does not show it yet.
    async fn list(&self, created: Option<u64>) -> Result<Listed, Trouble> {
        let (mut found, mut overtaken) = (Vec::new(), Vec::new());
        for page in 1..=PAGES {
            let path = format!(
                "/repos/{}/issues/{}/comments?per_page=100&page={page}",
                self.repository, self.number
            );
            let answer = self.api.read(NEED, &path).await?;
            let comments = answer.as_array().map_or(&[][..], Vec::as_slice);
            for comment in comments {
                found.extend(self.ours(comment, self.hash, created).await?);
                let refusal = match self.refused == self.hash {
                    true => None,
                    false => self.ours(comment, self.refused, None).await?,
                };
                let older = refusal.filter(|one| one.mark.turn < self.mark.turn);
                overtaken.extend(older.map(|one| one.id));
            }
            if comments.len() < 100 {
                break;
            }
        }
        if let Some(id) = created
            && !found.iter().any(|one| one.id == id)
        {
            match self.api.read(NEED, &self.comment(id)).await {
                Ok(comment) => {
                    found.extend(self.ours(&comment, self.hash, created).await?);
                }
                // Another job removed it, because an older one stays.
                Err(Trouble { cause: Cause::Missing, .. }) => {}
                Err(trouble) => return Err(trouble),
            }
        }
        found.sort_by_key(|one| one.id);
        found.dedup_by_key(|one| one.id);
        Ok(Listed { standing: found, overtaken })
    }

    async fn ours(
        &self,
        comment: &Value,
        hash: &str,
        created: Option<u64>,
    ) -> Result<Option<Standing>, Trouble> {
        let (Some(id), Some(text)) = (comment["id"].as_u64(), comment["body"].as_str()) else {
            return Ok(None);
        };
        let text = plain(text);
        let Some(mark) = mark_of(&text, hash) else { return Ok(None) };
        // What was just made is ours whoever the server says wrote it.
        if created != Some(id) && !self.api.may_have_written(&comment["user"]).await? {
            return Ok(None);
        }
        let url = comment["html_url"].as_str().map(str::to_owned);
        Ok(Some(Standing { id, mark, text, url }))
    }

    fn comment(&self, id: u64) -> String {
        format!("/repos/{}/issues/comments/{id}", self.repository)
    }

    async fn create(&self, text: &str) -> Result<u64, Trouble> {
        let path = format!("/repos/{}/issues/{}/comments", self.repository, self.number);
        // A second one after a lost answer is found and removed in the next round.
        let made = self.api.post(NEED, Effect::Repeatable, &path, &json!({ "body": text })).await?;
        made["id"].as_u64().ok_or_else(|| NEED.failed("the answer names no comment"))
    }

    async fn write(&self, id: u64, text: &str) -> Result<(), Trouble> {
        let (path, body) = (self.comment(id), json!({ "body": text }));
        match self.api.patch(NEED, Effect::Repeatable, &path, &body).await {
            // It was removed meanwhile: the next round sees what stands.
            Ok(_) | Err(Trouble { cause: Cause::Missing, .. }) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    async fn delete(&self, id: u64) -> Result<(), Trouble> {
        self.api.delete(NEED, &self.comment(id)).await
    }
}

/// Returns a text as it is compared: line ends and the end are not always kept by the server.
fn plain(text: &str) -> String {
    text.replace("\r\n", "\n").trim_end().to_owned()
}

fn marker(hash: &str, mark: Mark, head: Option<&str>) -> String {
    let head = head.filter(|text| is_sha(text)).unwrap_or("none");
    let Mark { turn: Turn { run, attempt }, state } = mark;
    let state = state.name();
    format!("<!-- loopexec:{hash} run={run} attempt={attempt} head={head} state={state} -->")
}

/// Reads the marker of a text's first line, to the letter.
fn mark_of(text: &str, hash: &str) -> Option<Mark> {
    let line = text.lines().next()?;
    let rest = line.strip_prefix("<!-- loopexec:")?.strip_prefix(hash)?.strip_prefix(" run=")?;
    let (run, rest) = rest.split_once(" attempt=")?;
    let (attempt, rest) = rest.split_once(" head=")?;
    let (head, rest) = rest.split_once(" state=")?;
    let state = match rest.strip_suffix(" -->")? {
        "running" => State::Running,
        "final" => State::Final,
        _ => return None,
    };
    let mark =
        Mark { turn: Turn { run: run.parse().ok()?, attempt: attempt.parse().ok()? }, state };
    (marker(hash, mark, Some(head)) == line).then_some(mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mark(run: u64, attempt: u64, state: State) -> Mark {
        Mark { turn: Turn { run, attempt }, state }
    }

    fn standing(id: u64, mark: Mark, text: &str) -> Standing {
        Standing { id, mark, text: text.to_owned(), url: None }
    }

    #[test]
    fn the_marker_reads_back_and_nothing_else_does() {
        let hash = hash_of(&Key { job: "loop".to_owned(), ..Key::default() });
        let (sha, mark) = ("a".repeat(40), mark(7, 2, State::Final));
        let line = marker(&hash, mark, Some(&sha));
        assert_eq!(mark_of(&format!("{line}\nbody"), &hash), Some(mark));
        assert_eq!(mark_of(&marker(&hash, mark, None), &hash), Some(mark));
        for forged in [
            format!(" {line}"),
            format!("\n{line}"),
            format!("{line} "),
            line.replace("run=7", "run=+7"),
            line.replace("run=7", "run=07"),
            line.replace("final", "done"),
            line.replace(&hash, &"0".repeat(64)),
            line.replace(&sha, "--> <b>"),
        ] {
            assert_eq!(mark_of(&forged, &hash), None, "{forged}");
        }
    }

    #[test]
    fn keys_that_differ_in_any_part_have_their_own_comment() {
        let key = |parts: [&str; 4]| {
            let [workflow, job, matrix, name] = parts.map(str::to_owned);
            hash_of(&Key { workflow, job, matrix, name })
        };
        let all = [["a", "b", "", ""], ["ab", "", "", ""], ["a", "", "b", ""], ["a", "", "", "b"]];
        let hashes: std::collections::BTreeSet<_> = all.into_iter().map(key).collect();
        assert_eq!(hashes.len(), 4);
    }

    #[test]
    fn who_may_overwrite_whom() {
        let (old, new) = (mark(5, 1, State::Final), mark(6, 1, State::Running));
        assert_eq!(missing(&[], new, "n"), [Act::Create]);
        let acts = missing(&[standing(1, old, "o")], new, "n");
        assert_eq!(acts, [Act::Write { id: 1, text: "n".to_owned() }]);
        assert_eq!(missing(&[standing(1, new, "n")], old, "o"), []);
        let (running, done) = (mark(6, 1, State::Running), mark(6, 1, State::Final));
        assert_eq!(missing(&[standing(1, done, "d")], running, "r"), []);
        let attempt = mark(6, 2, State::Running);
        assert_eq!(missing(&[standing(1, done, "d")], attempt, "a").len(), 1);
        // The newest text moves into the oldest comment, even where it is not ours.
        let two = [standing(1, old, "o"), standing(2, done, "d")];
        let expected = [Act::Write { id: 1, text: "d".to_owned() }, Act::Delete { id: 2 }];
        assert_eq!(missing(&two, running, "r"), expected);
    }

    proptest! {
        /// Racers that take turns in any order leave one comment, as long as each looks again
        /// after it wrote.
        #[test]
        fn any_order_of_racers_ends_with_one_comment(order in prop::collection::vec(0..3_usize, 0..40)) {
            let marks = [mark(5, 1, State::Final), mark(6, 1, State::Running), mark(6, 1, State::Final)];
            let texts = ["five", "six", "six at its end"];
            let mut world: Vec<Standing> = Vec::new();
            let mut pending: [Option<Vec<Act>>; 3] = [None, None, None];
            let mut next = 1;
            let mut done = [false; 3];
            let all = order.into_iter().chain((0..600).map(|n| n % 3));
            for racer in all {
                if done[racer] {
                    continue;
                }
                let Some(acts) = pending[racer].as_mut() else {
                    let acts = missing(&world, marks[racer], texts[racer]);
                    done[racer] = acts.is_empty();
                    pending[racer] = Some(acts);
                    continue;
                };
                if acts.is_empty() {
                    pending[racer] = None;
                    continue;
                }
                match acts.remove(0) {
                    Act::Create => {
                        world.push(standing(next, marks[racer], texts[racer]));
                        next += 1;
                    }
                    Act::Write { id, text } => {
                        let at = texts.iter().position(|known| *known == text).unwrap();
                        if let Some(one) = world.iter_mut().find(|one| one.id == id) {
                            (one.mark, one.text) = (marks[at], text);
                        }
                    }
                    Act::Delete { id } => world.retain(|one| one.id != id),
                }
            }
            prop_assert_eq!(done, [true; 3]);
            prop_assert_eq!(world.len(), 1);
        }
    }
}
