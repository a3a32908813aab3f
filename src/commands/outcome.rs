//! What a command gives back, and the one place that prints it and turns it into an exit code.

use crate::engine::iterate::fault_of;
use crate::error::{Error, Kind};
use crate::exit::ExitClass;
use crate::report::object::ResultObject;
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;

/// How the result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For people.
    Text,
    /// One JSON object.
    Json,
}

/// What a command gives back.
#[derive(Debug)]
pub struct Outcome {
    /// The JSON object.
    pub object: ResultObject,
    /// The text for people.
    pub text: String,
    /// The class that becomes the exit code.
    pub class: ExitClass,
    /// The exit code of the process, where it is not the class's number.
    pub process_exit: Option<u8>,
}

impl Outcome {
    /// Makes the outcome of a command that did its job.
    pub fn text(command: &str, text: String) -> Self {
        Self {
            object: ResultObject::new(command),
            text,
            class: ExitClass::Nominal,
            process_exit: None,
        }
    }

    /// Sets a field of the JSON object.
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.object.set(key, value);
        self
    }

    /// Sets the class that becomes the exit code.
    pub fn class(mut self, class: ExitClass) -> Self {
        self.class = class;
        self
    }
}

/// Prints the outcome and returns the exit code.
pub fn print(command: &str, result: crate::error::Result<Outcome>, style: Style) -> ExitCode {
    let outcome = result.unwrap_or_else(|error| failed(command, &error, style));
    let process_exit = outcome.process_exit.unwrap_or(outcome.class.code());
    let text = match style {
        Style::Text => super::voice::harmless(&outcome.text).into_owned(),
        Style::Json => {
            let object = outcome.object.finish(outcome.class, process_exit).to_string();
            format!("{}\n", super::voice::harmless_json(&object))
        }
    };
    // A reader that went away is no reason to change the verdict.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    let _ = std::io::stdout().flush();
    ExitCode::from(process_exit)
}

/// Returns the outcome of a command that failed.
pub fn failed(command: &str, error: &Error, style: Style) -> Outcome {
    if style == Style::Text {
        talk(&format!("error: {}", describe(error)));
    }
    let mut outcome = Outcome::text(command, String::new()).class(error.kind.class());
    outcome.object.error(error);
    // Bad arguments are no halt: nothing was there to halt yet.
    if error.kind != Kind::Usage {
        let fault = fault_of(error);
        outcome
            .object
            .set("halt_reason", fault.reason)
            .set("why", &fault.what)
            .set("next", fault.hints.first());
    }
    outcome
}

/// Returns an error as people read it: the sentence, then what to do.
pub fn describe(error: &Error) -> String {
    let mut text = crate::report::text::clean(&error.to_string());
    for hint in &error.hints {
        text.push_str("\n  ");
        text.push_str(&crate::report::text::clean(hint));
    }
    text
}

/// Writes a line of talk to stderr, harmless to the platform that reads it; one that cannot be
/// written is dropped.
pub fn talk(line: &str) {
    talk_raw(&super::voice::harmless(line));
}

/// Writes a line that may be a command to the platform.
pub fn talk_raw(line: &str) {
    // One write a line, so that no other process's output stands inside it.
    let _ = std::io::stderr().lock().write_all(format!("{line}\n").as_bytes());
}

/// Hands on what another program wrote, as it is.
pub fn hand_on(to: &mut dyn Write, bytes: &[u8]) {
    let _ = to.write_all(bytes).and_then(|()| to.flush());
}

/// Writes part of a result that grows while it is watched; one that cannot be written is dropped.
pub fn say(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    let _ = stdout.flush();
}
