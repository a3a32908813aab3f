//! Replaces secret values in any bytes by `[redacted:NAME]`, in one pass or as a stream.
//!
//! Which forms of which values are looked for is `secrets`'.

use super::secrets;
use crate::error::{Error, Kind, Result};
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::ffi::OsString;

/// Knows the secrets of one environment.
#[derive(Clone)]
pub struct Redactor {
    /// None when there is no secret.
    finder: Option<AhoCorasick>,
    /// The name for each form.
    names: Vec<String>,
    /// The length of the longest form in bytes.
    longest: usize,
}

impl Redactor {
    /// Collects the values of all variables whose names fit one of the patterns.
    ///
    /// Values of fewer than six bytes are left out, since they turn up by chance.
    ///
    /// # Errors
    /// `config_invalid` when the values are too many to look for.
    pub fn new<S: AsRef<str>>(
        patterns: &[S],
        environment: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<Self> {
        let forms = secrets::forms(patterns, environment);
        let longest = forms.keys().map(Vec::len).max().unwrap_or(0);
        if forms.is_empty() {
            return Ok(Self { finder: None, names: Vec::new(), longest });
        }
        let built = AhoCorasick::builder()
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .match_kind(MatchKind::Standard)
            .build(forms.keys());
        let finder = built.map_err(|e| {
            Error::new(Kind::ConfigInvalid, "the secrets of this environment are too large")
                .hint("name fewer variables in receipt.redact, or unset what is not needed")
                .because(e)
        })?;
        Ok(Self { finder: Some(finder), names: forms.into_values().collect(), longest })
    }

    /// Returns a fact with every secret in its texts and ids replaced, so that what is judged is
    /// what is recorded.
    ///
    /// # Errors
    /// `internal_error` when nothing of its form is left.
    pub fn redact_fact<T: Serialize + DeserializeOwned>(&self, fact: T) -> Result<T> {
        if self.finder.is_none() {
            return Ok(fact);
        }
        let failed = |e: serde_json::Error| {
            Error::new(Kind::Internal, "a fact cannot be rid of a secret").because(e)
        };
        let mut value = serde_json::to_value(&fact).map_err(failed)?;
        self.redact_value(&mut value);
        serde_json::from_value(value).map_err(failed)
    }

    /// Returns the bytes with every secret replaced.
    pub fn redact(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.stream();
        let mut out = stream.push(bytes);
        out.extend(stream.finish());
        out
    }

    /// Returns the text with every secret replaced.
    pub fn redact_str(&self, text: &str) -> String {
        match &self.finder {
            Some(finder) if finder.is_match(text) => {
                String::from_utf8_lossy(&self.redact(text.as_bytes())).into_owned()
            }
            _ => text.to_owned(),
        }
    }

    /// Replaces every secret in the strings and keys of a value.
    pub fn redact_value(&self, value: &mut Value) {
        if self.finder.is_none() {
            return;
        }
        match value {
            Value::String(text) => *text = self.redact_str(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(map) => {
                let mut clean = Map::new();
                for (key, mut value) in std::mem::take(map) {
                    self.redact_value(&mut value);
                    let mut key = self.redact_str(&key);
                    while clean.contains_key(&key) {
                        key.push('+');
                    }
                    clean.insert(key, value);
                }
                *map = clean;
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Starts to look for secrets in bytes that come in chunks; nothing is replaced.
    pub fn search(&self) -> Search<'_> {
        Search { redactor: self, held: Vec::new(), found: BTreeSet::new() }
    }

    /// Returns the variable that a form was made of, fit for a message.
    pub fn variable(&self, form: Form) -> &str {
        self.names.get(form.0).map_or("a secret", String::as_str)
    }

    /// Starts on bytes that come in chunks.
    pub fn stream(&self) -> Stream<'_> {
        Stream { redactor: self, held: Vec::new(), covered: None }
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The forms are the secrets themselves.
        f.debug_struct("Redactor").field("forms", &self.names.len()).finish_non_exhaustive()
    }
}

/// One form of one secret, such as one line of a key in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Form(usize);

/// Finds which forms of secrets stand in chunks.
#[derive(Debug)]
pub struct Search<'a> {
    redactor: &'a Redactor,
    /// The end of what was seen, where a secret may have begun.
    held: Vec<u8>,
    found: BTreeSet<Form>,
}

impl Search<'_> {
    /// Takes a chunk.
    pub fn push(&mut self, chunk: &[u8]) {
        let Some(finder) = &self.redactor.finder else { return };
        // What reaches over the border of two chunks is at most this long on either side.
        let reach = self.redactor.longest.saturating_sub(1);
        self.held.extend_from_slice(&chunk[..reach.min(chunk.len())]);
        let here = |bytes: &[u8], found: &mut BTreeSet<Form>| {
            found.extend(finder.find_overlapping_iter(bytes).map(|m| Form(m.pattern().as_usize())));
        };
        here(&self.held, &mut self.found);
        here(chunk, &mut self.found);
        if chunk.len() >= reach {
            self.held.clear();
            self.held.extend_from_slice(&chunk[chunk.len() - reach..]);
        } else {
            let over = self.held.len().saturating_sub(reach);
            self.held.drain(..over);
        }
    }

    /// Returns every form that was found.
    pub fn finish(self) -> BTreeSet<Form> {
        self.found
    }
}

/// Redacts chunks, and gives what it would give for all of them at once.
///
/// It holds back fewer bytes than the longest form of a secret.
#[derive(Debug)]
pub struct Stream<'a> {
    redactor: &'a Redactor,
    /// What may still be the start of a secret.
    held: Vec<u8>,
    /// How many of the held bytes a secret covers whose marker is out already, and its name.
    covered: Option<(usize, usize)>,
}

impl Stream<'_> {
    /// Takes a chunk and returns what is certain by now.
    pub fn push(&mut self, chunk: &[u8]) -> Vec<u8> {
        if self.redactor.finder.is_none() {
            return chunk.to_vec();
        }
        self.held.extend_from_slice(chunk);
        // Any secret that starts before this place is in `held` to its end.
        let decided = (self.held.len() + 1).saturating_sub(self.redactor.longest);
        self.release(decided)
    }

    /// Returns the rest.
    pub fn finish(mut self) -> Vec<u8> {
        self.release(self.held.len())
    }

    fn release(&mut self, decided: usize) -> Vec<u8> {
        let Some(finder) = &self.redactor.finder else { return Vec::new() };
        let mut found: Vec<(usize, usize, usize)> = finder
            .find_overlapping_iter(&self.held)
            .map(|m| (m.start(), m.end(), m.pattern().as_usize()))
            .filter(|(start, ..)| *start < decided)
            .collect();
        // Of those that start together the longest is the one to name.
        found.sort_unstable_by(|a, b| (a.0, b.1).cmp(&(b.0, a.1)));
        let name = |pattern: usize| &self.redactor.names[pattern];
        let mut out = Vec::new();
        let mut covered = self.covered.take();
        for (start, end, pattern) in found {
            match &mut covered {
                Some((until, first))
                    if start < *until || (start == *until && name(*first) == name(pattern)) =>
                {
                    *until = end.max(*until);
                }
                _ => {
                    let from = covered.map_or(0, |(until, _)| until);
                    out.extend_from_slice(&self.held[from..start]);
                    out.extend_from_slice(format!("[redacted:{}]", name(pattern)).as_bytes());
                    covered = Some((end, pattern));
                }
            }
        }
        let from = covered.map_or(0, |(until, _)| until);
        if from < decided {
            out.extend_from_slice(&self.held[from..decided]);
        }
        self.held.drain(..decided);
        self.covered = covered
            .and_then(|(until, pattern)| until.checked_sub(decided).map(|rest| (rest, pattern)));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn redactor(values: &[(&str, &str)]) -> Redactor {
        let environment = values.iter().map(|(name, value)| (name.into(), value.into()));
        Redactor::new(secrets::DEFAULT_NAMES, environment).unwrap()
    }

    #[test]
    fn a_secret_is_replaced_in_all_its_forms_and_only_it() {
        let redactor = redactor(&[
            ("API_TOKEN", "s3cr3t/välue +x"),
            ("PATH", "/usr/bin:/bin"),
            ("SHORT_TOKEN", "12345"),
        ]);
        let clean = "/usr/bin:/bin 12345 nothing here";
        assert_eq!(redactor.redact_str(clean), clean);
        for form in [
            "s3cr3t/välue +x",
            "s3cr3t%2Fv%C3%A4lue%20%2Bx",
            "s3cr3t%2fv%c3%a4lue+%2bx",
            "s3cr3t\\/välue +x",
            "s3cr3t/v\\u00e4lue +x",
            "czNjcjN0L3bDpGx1ZSAreA==",
            "czNjcjN0L3bDpGx1ZSAreA",
            "7333637233742f76c3a46c7565202b78",
        ] {
            let text = format!("<{form}>");
            assert_eq!(redactor.redact_str(&text), "<[redacted:API_TOKEN]>", "{form}");
        }
    }

    #[test]
    fn each_line_of_a_key_and_its_base64_in_lines_are_secrets() {
        let lines = ["-----BEGIN KEY-----", &"QUJD".repeat(16), &"REVG".repeat(16), "short"];
        let key = lines.join("\n");
        let redactor = redactor(&[("DEPLOY_PRIVATE_KEY", &key)]);
        for line in &lines[..3] {
            assert_eq!(redactor.redact_str(line), "[redacted:DEPLOY_PRIVATE_KEY]");
        }
        assert_eq!(redactor.redact_str("short"), "short");
        assert!(!redactor.redact_str(&key).contains("QUJD"));
        let escaped = key.replace('\n', "\\n");
        assert_eq!(redactor.redact_str(&escaped), "[redacted:DEPLOY_PRIVATE_KEY]");
    }

    #[test]
    fn a_value_of_the_largest_size_is_found_whole_and_holds_back_little() {
        let value: String = (0..20_000_u32).map(|i| format!("{:05x};", i * 7919)).collect();
        let redactor = redactor(&[("BIG_SECRET", &value)]);
        assert!(redactor.longest < 2048);
        assert_eq!(redactor.redact_str(&value), "[redacted:BIG_SECRET]");
    }

    #[test]
    fn secrets_that_overlap_or_touch_leave_nothing_between_them() {
        let redactor = redactor(&[("A_TOKEN", "abcdefgh"), ("B_TOKEN", "efghijkl")]);
        assert_eq!(redactor.redact_str("abcdefghijkl."), "[redacted:A_TOKEN].");
        let both = "[redacted:A_TOKEN][redacted:B_TOKEN]";
        assert_eq!(redactor.redact_str("abcdefghefghijkl"), both);
        assert_eq!(redactor.redact_str("abcdefghabcdefgh"), "[redacted:A_TOKEN]");
    }

    #[test]
    fn strings_and_keys_of_a_value_are_redacted_and_no_entry_is_lost() {
        let redactor = redactor(&[("A_TOKEN", "abcdefgh")]);
        let mut value = serde_json::json!({"abcdefgh": 1, "[redacted:A_TOKEN]": ["xabcdefgh"]});
        redactor.redact_value(&mut value);
        let expected = serde_json::json!({"[redacted:A_TOKEN]": 1, "[redacted:A_TOKEN]+": ["x[redacted:A_TOKEN]"]});
        assert_eq!(value, expected);
    }

    #[test]
    fn neither_the_debug_form_nor_a_hostile_name_shows_anything() {
        let redactor = redactor(&[("A_TOKEN\u{1b}[31m", "abcdefgh")]);
        assert!(!format!("{redactor:?}").contains("abcdefgh"));
        assert_eq!(redactor.redact_str("abcdefgh"), "[redacted:A_TOKEN__31m]");
    }

    proptest! {
        #[test]
        fn a_search_in_chunks_finds_what_one_in_the_whole_finds(
            parts in prop::collection::vec("abcdefgh|aaaaaaa|efghijkl|YWJjZGVmZ2g=|[a-l]{1,4}", 0..20),
            sizes in prop::collection::vec(1_usize..40, 1..20),
        ) {
            let redactor = redactor(&[("A_TOKEN", "abcdefgh"), ("C_TOKEN", "aaaaaa")]);
            let text = parts.concat().into_bytes();
            let (mut whole, mut search) = (redactor.search(), redactor.search());
            whole.push(&text);
            let (mut rest, mut sizes) = (&text[..], sizes.iter().cycle());
            while !rest.is_empty() {
                let size = (*sizes.next().unwrap()).min(rest.len());
                search.push(&rest[..size]);
                rest = &rest[size..];
            }
            let found = search.finish();
            prop_assert_eq!(&found, &whole.finish());
            let replaced = redactor.redact(&text) != text;
            prop_assert_eq!(!found.is_empty(), replaced);
        }

        #[test]
        fn chunks_give_what_the_whole_gives(
            parts in prop::collection::vec("abcdefgh|aaaaaaa|efghijkl|a|b|h|YWJjZGVmZ2g=|[a-l]{1,4}", 0..30),
            sizes in prop::collection::vec(1_usize..9, 1..40),
        ) {
            let redactor = redactor(&[
                ("A_TOKEN", "abcdefgh"), ("B_TOKEN", "efghijkl"), ("C_TOKEN", "aaaaaa"),
            ]);
            let text = parts.concat().into_bytes();
            let mut stream = redactor.stream();
            let (mut out, mut rest, mut sizes) = (Vec::new(), &text[..], sizes.iter().cycle());
            while !rest.is_empty() {
                let size = (*sizes.next().unwrap()).min(rest.len());
                out.extend(stream.push(&rest[..size]));
                prop_assert!(stream.held.len() < redactor.longest);
                rest = &rest[size..];
            }
            out.extend(stream.finish());
            prop_assert_eq!(&out, &redactor.redact(&text));
            let out = String::from_utf8(out).unwrap();
            for secret in ["abcdefgh", "efghijkl", "aaaaaa"] {
                prop_assert!(!out.contains(secret));
            }
        }
    }
}
