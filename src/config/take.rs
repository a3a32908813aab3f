//! Values taken out of settings by dotted key, with the type their row of the table gives.
//!
//! What they mean together is the duty of `build`.

use super::diagnostic::{At, Sources};
use super::kind::Val;
use super::settings::{Setting, Settings};
use super::value::MicroDollars;
use crate::error::{Error, Kind, Result};
use std::time::Duration;

/// Takes values out of settings by dotted key.
pub(crate) struct Builder<'a> {
    /// The texts, for errors.
    pub(crate) sources: &'a Sources,
    /// The values.
    pub(crate) settings: &'a Settings,
    /// Place of the whole text, where one was read.
    pub(crate) root: Option<At>,
}

impl Builder<'_> {
    /// Returns the settings below a group that were written; defaults of the model do not count as written.
    pub(super) fn under(&self, group: &str) -> impl Iterator<Item = (&String, &Setting)> {
        let prefix = format!("{group}.");
        self.settings.iter().filter(move |(key, setting)| {
            key.starts_with(&prefix) && setting.at.source != super::layers::DEFAULT
        })
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.settings.contains_key(key)
    }

    pub(super) fn val(&self, key: &str) -> Option<&Val> {
        self.settings.get(key).map(|setting| &setting.val)
    }

    pub(super) fn at(&self, key: &str) -> Option<At> {
        self.settings.get(key).map(|setting| setting.at)
    }

    pub(super) fn opt_text(&self, key: &str) -> Option<String> {
        match self.val(key) {
            Some(Val::Text(text)) => Some(text.clone()),
            _ => None,
        }
    }

    pub(super) fn opt_texts(&self, key: &str) -> Option<Vec<String>> {
        match self.val(key) {
            Some(Val::Texts(texts)) => Some(texts.clone()),
            _ => None,
        }
    }

    pub(super) fn opt_int(&self, key: &str) -> Option<u64> {
        match self.val(key) {
            Some(Val::Int(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn opt_real(&self, key: &str) -> Option<f64> {
        match self.val(key) {
            Some(Val::Real(number)) => Some(*number),
            _ => None,
        }
    }

    pub(super) fn opt_money(&self, key: &str) -> Option<MicroDollars> {
        match self.val(key) {
            Some(Val::Money(amount)) => Some(*amount),
            _ => None,
        }
    }

    pub(super) fn int(&self, key: &str) -> Result<u64> {
        self.opt_int(key).ok_or_else(|| internal(key))
    }

    pub(super) fn count(&self, key: &str) -> Result<u32> {
        u32::try_from(self.int(key)?).map_err(|_| internal(key))
    }

    pub(super) fn time(&self, key: &str) -> Result<Duration> {
        match self.val(key) {
            Some(Val::Duration(time)) => Ok(*time),
            _ => Err(internal(key)),
        }
    }

    pub(super) fn size(&self, key: &str) -> Result<u64> {
        match self.val(key) {
            Some(Val::Size(bytes)) => Ok(*bytes),
            _ => Err(internal(key)),
        }
    }

    pub(super) fn choice<T>(&self, key: &str, read: impl Fn(&str) -> Option<T>) -> Result<T> {
        match self.val(key) {
            Some(Val::Word(word)) => read(word).ok_or_else(|| internal(key)),
            _ => Err(internal(key)),
        }
    }

    pub(super) fn choices<T>(&self, key: &str, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>> {
        let words = self.opt_texts(key).ok_or_else(|| internal(key))?;
        words.iter().map(|word| read(word).ok_or_else(|| internal(key))).collect()
    }
}

/// Makes the error of a table row that no reader matches; a test reads every row.
pub(super) fn internal(key: &str) -> Error {
    Error::new(Kind::Internal, format!("`{key}` has no value after defaults were filled"))
}
