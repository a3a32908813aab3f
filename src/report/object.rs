//! The one JSON object that every command prints under `--json`.
//!
//! Fields are only ever added; `exit_code` is the frozen number of the class, `process_exit` what
//! the process returned.

use crate::error::Error;
use crate::exit::ExitClass;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// The version of the object's format.
pub const FORMAT: u64 = 1;

/// The object of one command, growing until it is printed.
#[derive(Debug, Clone)]
pub struct ResultObject {
    fields: Map<String, Value>,
    errors: Vec<Value>,
}

impl ResultObject {
    /// Starts the object of a command.
    pub fn new(command: &str) -> Self {
        let mut fields = Map::new();
        fields.insert("tool".into(), json!("loopexec"));
        fields.insert("version".into(), json!(env!("CARGO_PKG_VERSION")));
        fields.insert("format".into(), json!(FORMAT));
        fields.insert("command".into(), json!(command));
        fields.insert("status".into(), json!("ok"));
        Self { fields, errors: Vec::new() }
    }

    /// Sets a field.
    pub fn set(&mut self, key: &str, value: impl Serialize) -> &mut Self {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        self.fields.insert(key.to_owned(), value);
        self
    }

    /// Returns a field.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key)
    }

    /// Adds an error; the status becomes `error`.
    pub fn error(&mut self, error: &Error) -> &mut Self {
        self.set("status", "error");
        if let Some(detail) = error.detail {
            self.set("detail", detail);
        }
        self.errors.push(json!({
            "kind": error.kind.name(),
            "detail": error.detail,
            "what": error.to_string(),
            "hints": error.hints,
        }));
        self
    }

    /// Returns the whole object.
    pub fn finish(mut self, class: ExitClass, process_exit: u8) -> Value {
        self.set("exit_class", class.name());
        self.set("exit_code", class.code());
        self.set("process_exit", process_exit);
        self.fields.insert("errors".into(), Value::Array(self.errors));
        Value::Object(self.fields)
    }
}
