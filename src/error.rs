//! The one error type: what went wrong, where, and what to do about it.
//!
//! An error is not a halt: the engine turns the kinds that concern a running loop into a halt
//! reason of the same name (`domain::reason`), so that every halt leaves a receipt.

use crate::exit::ExitClass;
use std::fmt;

/// What sort of failure it is; the names are those of the halt reasons where one exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bad flags or arguments.
    Usage,
    /// The loop file, a flag's value or an environment override.
    ConfigInvalid,
    /// The caller's tree, the workspace, a lock, a run that does not exist.
    WorkspaceInvalid,
    /// The launcher could not give a command the place it needs.
    IsolationUnsatisfiable,
    /// Exec is given more than its zone may hold.
    CredentialScopeInvalid,
    /// A disk is full, or a file cannot be made durable.
    StorageExhausted,
    /// Evidence that does not fit together.
    ObjectiveUnverified,
    /// A signal asked the run to stop.
    Interrupted,
    /// A defect of loopexec itself.
    Internal,
}

impl Kind {
    /// Returns the stable name, as it stands in `errors[].kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::ConfigInvalid => "config_invalid",
            Self::WorkspaceInvalid => "workspace_invalid",
            Self::IsolationUnsatisfiable => "isolation_unsatisfiable",
            Self::CredentialScopeInvalid => "credential_scope_invalid",
            Self::StorageExhausted => "storage_exhausted",
            Self::ObjectiveUnverified => "objective_unverified",
            Self::Interrupted => "interrupted",
            Self::Internal => "internal_error",
        }
    }

    /// Returns the exit class of a command that ends with this error.
    pub const fn class(self) -> ExitClass {
        match self {
            Self::Usage => ExitClass::Usage,
            Self::ConfigInvalid
            | Self::WorkspaceInvalid
            | Self::IsolationUnsatisfiable
            | Self::StorageExhausted => ExitClass::Workspace,
            Self::ObjectiveUnverified | Self::CredentialScopeInvalid => ExitClass::Integrity,
            Self::Interrupted => ExitClass::Interrupted,
            Self::Internal => ExitClass::Internal,
        }
    }
}

/// A place in a file of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as messages name it.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

/// A failure in one clear sentence.
#[derive(Debug)]
pub struct Error {
    /// What sort of failure it is.
    pub kind: Kind,
    /// The code of the closed list of details (`locked`, `disk_full`, …), where one applies.
    pub detail: Option<&'static str>,
    /// One sentence: what is wrong and where.
    pub what: String,
    /// What to do about it, one line each.
    pub hints: Vec<String>,
    /// Where it stands, where it is about one place of a file.
    pub place: Option<Box<Place>>,
    /// The cause underneath, where there is one.
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The result of everything that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Makes an error of a kind from one sentence.
    pub fn new(kind: Kind, what: impl Into<String>) -> Self {
        Self { kind, detail: None, what: what.into(), hints: Vec::new(), place: None, source: None }
    }

    /// Adds the code of the closed list of details.
    pub fn detail(mut self, detail: &'static str) -> Self {
        self.detail = Some(detail);
        self
    }

    /// Adds a line that says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }

    /// Adds the place it is about.
    pub fn at(mut self, file: impl Into<String>, line: usize, column: usize) -> Self {
        self.place = Some(Box::new(Place { file: file.into(), line, column }));
        self
    }

    /// Adds the cause underneath.
    pub fn because(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Makes an error of an I/O failure: a full disk is `storage_exhausted`, all else `kind`.
    pub fn io(kind: Kind, what: impl Into<String>, source: std::io::Error) -> Self {
        use std::io::ErrorKind as E;
        let full = matches!(source.kind(), E::StorageFull | E::QuotaExceeded | E::FileTooLarge);
        let kind = if full { Kind::StorageExhausted } else { kind };
        let error = Self::new(kind, what).because(source);
        if full { error.detail("disk_full") } else { error }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        if let Some(source) = &self.source {
            write!(f, ": {source}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|s| s as &(dyn std::error::Error + 'static))
    }
}
