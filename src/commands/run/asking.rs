//! Puts the question of a closed gate to a person, and says what it is about.
//!
//! Whether a gate is closed is `domain::gate`'s, the files are `receipt::question`'s, and the answer
//! is taken up in `resume`.

use super::closing::write_final_patch;
use super::opening::relative;
use super::site::Site;
use crate::config::spec::Escalate;
use crate::domain::gate::{Asked, Gate, Question};
use crate::domain::hex::sha256;
use crate::domain::observation::PathChange;
use crate::error::{Error, Kind, Result};
use crate::receipt::question::{
    MOST_CHANGES, PatchFile, QUESTION_MD, QuestionFile, write_question,
};
use crate::receipt::rundir::RunDir;
use crate::workspace::changes;

impl Site {
    /// Puts a question where the loop says; that this fails is a fact.
    pub(super) fn put(&mut self, question: &Question) -> Result<Asked> {
        self.stop_if_interrupted()?;
        self.live.enter("question", question.iteration);
        let run = self.run.clone().ok_or_else(|| {
            Error::new(Kind::Internal, "a question was put by a site that belongs to no run")
        })?;
        let file = self.describe(&run, question)?;
        let written = write_question(run.path(), &file);
        let channel = self.spec.human.escalate;
        let place = relative(&self.caller.root, &run.path().join(QUESTION_MD));
        let (delivered, place) = match (channel, written) {
            // The result of the run carries it, whatever becomes of the file.
            (Escalate::Stdout, _) => (true, "the output of the run".to_owned()),
            (Escalate::File, Ok(())) => (true, place.to_string_lossy().into_owned()),
            (Escalate::File, Err(why)) => (false, format!("{}: {why}", place.display())),
        };
        self.live.say(&format!("a person is asked: {} ({place})", question.gate.word()));
        self.question = Some(file);
        self.redactor.redact_fact(Asked {
            gate: question.gate,
            subject: question.subject.clone(),
            channel: channel.word().to_owned(),
            delivered,
            place,
        })
    }

    fn describe(&self, run: &RunDir, question: &Question) -> Result<QuestionFile> {
        let protected = self.protected.as_ref();
        let mut file =
            QuestionFile::of(run.id(), &self.spec.name, question, protected, &self.caller_facts);
        if question.gate != Gate::ProtectedChange {
            self.describe_result(run, question, &mut file)?;
        }
        self.redactor.redact_fact(file)
    }

    /// Writes the patch that a person has to look at, and says what is in it.
    fn describe_result(
        &self,
        run: &RunDir,
        question: &Question,
        file: &mut QuestionFile,
    ) -> Result<()> {
        let (facts, wanted) =
            write_final_patch(self, run, &question.carried, &question.t0, &question.tree)?;
        let bytes = std::fs::read(run.patch())
            .map_err(|e| Error::io(Kind::WorkspaceInvalid, "cannot read the patch back", e))?;
        file.patch = Some(PatchFile {
            path: relative(&self.caller.root, &run.patch()).to_string_lossy().into_owned(),
            sha256: sha256(&bytes),
            files: facts.files,
            added: facts.added,
            removed: facts.removed,
        });
        let found = changes::changes(&self.store, &question.carried, &wanted)?;
        file.more_changes = found.len().saturating_sub(MOST_CHANGES);
        file.changes = found
            .into_iter()
            .take(MOST_CHANGES)
            .map(|change| PathChange { path: change.path, kind: change.kind.word().to_owned() })
            .collect();
        Ok(())
    }
}
