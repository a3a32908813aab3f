//! GitLab's surfaces: the reports are files, the note goes to the merge request.

use super::{Published, remotely, time_for};
use crate::ci::gitlab::api::Token;
use crate::ci::gitlab::job::Job as Merge;
use crate::ci::gitlab::note::{Note, Told, keep_note};
use crate::ci::http::Policy;
use crate::ci::markdown;
use crate::commands::ci::job::Job;
use crate::commands::ci::telling::Telling;
use crate::commands::outcome::talk;
use crate::config::spec::Comment;
use std::time::Duration;

/// Tells what the reports do not.
pub fn publish(telling: &mut Telling, job: &Job, published: &mut Published) {
    if telling.settings.comment == Comment::Off || telling.ledger.comment {
        return;
    }
    let read = |name: &str| std::env::var(name).ok();
    let merge = Merge::read(read);
    let total = Duration::from_secs(if telling.hurried { 5 } else { 60 });
    let policy = Policy { total, ..Policy::default() };
    let body = markdown::comment_body(&telling.subject);
    let text =
        Note { key: &telling.subject.key, turn: job.turn(), head: &merge.head, markdown: &body };
    let told =
        remotely(time_for(telling), keep_note(&merge, Token::read(read), policy, &text), |why| {
            Told::Warning(format!("no note was written on the merge request: {why}"))
        });
    match told {
        Told::Created | Told::Updated | Told::Unchanged | Told::Superseded => {
            telling.ledger.comment = true;
        }
        Told::Notice(sentence) => talk(&format!("note: {sentence}")),
        Told::Warning(sentence) => published.warn(sentence),
    }
}
