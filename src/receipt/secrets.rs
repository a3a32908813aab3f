//! Which variables hold secrets, and every form in which their values may turn up.
//!
//! Finding and replacing the forms is left to `redact`.

use super::own_words::is_own_word;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The names whose values are secret unless the loop file says otherwise; `*` is anything.
pub const DEFAULT_NAMES: &[&str] = &[
    "*TOKEN*",
    "*SECRET*",
    "*PASSWORD*",
    "*PASSWD*",
    "*PASSPHRASE*",
    "*API_KEY*",
    "*APIKEY*",
    "*PRIVATE_KEY*",
    "*ACCESS_KEY*",
    "*SIGNING_KEY*",
    "*ENCRYPTION_KEY*",
    "*CREDENTIAL*",
    "*CONNECTION_STRING*",
    "*DATABASE_URL*",
    "*WEBHOOK*",
    "*BEARER*",
    "*COOKIE*",
    "AWS_*KEY*",
    "*_PAT",
    "*_PASS",
    "*_AUTH",
    "*_DSN",
    "*_KEY",
];

/// The shortest value that is looked for, in bytes: shorter ones turn up by chance.
pub const MIN_SECRET: usize = 6;

/// The longest value that counts as a plain number, in bytes without its sign.
const LONGEST_NUMBER: usize = 10;

/// A longer value is looked for in pieces of this length, which bounds what a stream holds back.
const PIECE: usize = 256;

/// Above this length only the commonest forms are looked for, which bounds the memory.
const MANY_FORMS: usize = 4096;

/// Tells whether a name fits a pattern, letters of either case alike.
pub fn name_matches(pattern: &str, name: &OsStr) -> bool {
    fn fits(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|skip| fits(rest, &name[skip..])),
            Some((first, rest)) => name
                .split_first()
                .is_some_and(|(b, tail)| b.eq_ignore_ascii_case(first) && fits(rest, tail)),
        }
    }
    let mut pattern = pattern.as_bytes().to_vec();
    // Two stars in a row match what one does, at a price that grows with each.
    pattern.dedup_by(|a, b| *a == b'*' && *b == b'*');
    fits(&pattern, name.as_bytes())
}

/// Returns every form of every secret value with the name of its variable.
pub(super) fn forms<S: AsRef<str>>(
    patterns: &[S],
    environment: impl IntoIterator<Item = (OsString, OsString)>,
) -> BTreeMap<Vec<u8>, String> {
    let mut variables: Vec<_> = environment.into_iter().collect();
    variables.sort();
    let mut found = BTreeMap::new();
    for (name, value) in variables {
        let secret = patterns.iter().any(|pattern| name_matches(pattern.as_ref(), &name));
        let secret = match secret {
            true => Some(value.as_bytes()),
            false => password_in(value.as_bytes()),
        };
        let Some(secret) = secret else { continue };
        let label = label(&name);
        let rare = secret.len() <= MANY_FORMS;
        for part in parts(secret) {
            for form in encodings(part, rare) {
                if form.len() >= MIN_SECRET && !is_own_word(&form) {
                    found.entry(form).or_insert_with(|| label.clone());
                }
            }
        }
    }
    // What was redacted is redacted again on its way to disk, and must stay what it is.
    let labels: BTreeSet<&String> = found.values().collect();
    let markers: Vec<String> = labels.iter().map(|label| format!("[redacted:{label}]")).collect();
    let in_marker = |form: &[u8]| {
        markers.iter().any(|m| m.as_bytes().windows(form.len()).any(|part| part == form))
    };
    found.retain(|form, _| !in_marker(form));
    found
}

/// Returns the password of an address such as `redis://user:password@host`, whatever the variable is called.
///
/// A plain word is none: that of a throw-away service (`postgres:postgres`) would take the word out of
/// every test's name.
fn password_in(value: &[u8]) -> Option<&[u8]> {
    let text = std::str::from_utf8(value).ok()?;
    let (_, rest) = text.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    let (_, password) = user.split_once(':')?;
    let is_word = password.bytes().all(|b| b.is_ascii_lowercase());
    (!is_word).then_some(password.as_bytes())
}

/// Tells whether a value is a plain number: a limit or a count, such as `MAX_TOKENS` has.
///
/// A longer run of digits may well be a password.
fn is_number(value: &[u8]) -> bool {
    let digits = value.strip_prefix(b"-").unwrap_or(value);
    digits.len() <= LONGEST_NUMBER && digits.iter().all(|b| b.is_ascii_digit() || *b == b'.')
}

/// Makes a name fit to stand in a marker.
fn label(name: &OsStr) -> String {
    let fit = |b: &u8| if b.is_ascii_alphanumeric() { char::from(*b) } else { '_' };
    name.as_bytes().iter().take(64).map(fit).collect()
}

/// Cuts a value into the whole, its lines, and pieces where those are long.
fn parts(value: &[u8]) -> Vec<&[u8]> {
    let mut parts = vec![value];
    let trimmed = value.trim_ascii();
    parts.push(trimmed);
    let lines = trimmed.split(|b| matches!(b, b'\n' | b'\r'));
    parts.extend(lines.map(<[u8]>::trim_ascii));
    parts.retain(|part| part.len() >= MIN_SECRET && !is_number(part.trim_ascii()));
    let cut = parts.into_iter().flat_map(|part| {
        let mut pieces: Vec<_> = part.chunks(PIECE).collect();
        // A short rest would be looked for nowhere: the last piece reaches back instead.
        if let [.., last] = &mut pieces[..]
            && part.len() > PIECE
        {
            *last = &part[part.len() - PIECE..];
        }
        pieces
    });
    let mut cut: Vec<_> = cut.collect();
    cut.sort_unstable();
    cut.dedup();
    cut
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    Standard,
    Url,
}

fn encodings(part: &[u8], rare: bool) -> Vec<Vec<u8>> {
    let mut forms = vec![part.to_vec()];
    base64_forms(part, Alphabet::Standard, &mut forms);
    json_forms(part, &mut forms);
    if rare {
        base64_forms(part, Alphabet::Url, &mut forms);
        url_forms(part, &mut forms);
        let digits = crate::domain::hex::encode(part);
        forms.push(digits.to_ascii_uppercase().into_bytes());
        forms.push(digits.into_bytes());
    }
    forms
}

/// Base64 as RFC 4648 has it, for each of the three places a value can have in what is encoded.
fn base64_forms(part: &[u8], alphabet: Alphabet, forms: &mut Vec<Vec<u8>>) {
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(part);
        let whole = base64(&bytes, alphabet);
        // Only the digits all of whose bits are the value's are the same wherever it stands.
        let first = (8 * before).div_ceil(6);
        let last = 8 * bytes.len() / 6;
        let unpadded = (8 * bytes.len()).div_ceil(6);
        forms.push(whole[first..last].to_vec());
        forms.push(whole[first..unpadded].to_vec());
        forms.push(whole[first..].to_vec());
        if before == 0 {
            // What base64(1), PEM and MIME break into lines.
            for width in [64, 76] {
                forms.extend(whole[..unpadded].chunks(width).map(<[u8]>::to_vec));
            }
        }
    }
}

fn base64(bytes: &[u8], alphabet: Alphabet) -> Vec<u8> {
    let digit = |n: u32| match n & 63 {
        n @ 0..26 => b'A' + n as u8,
        n @ 26..52 => b'a' + (n - 26) as u8,
        n @ 52..62 => b'0' + (n - 52) as u8,
        62 if alphabet == Alphabet::Standard => b'+',
        62 => b'-',
        _ if alphabet == Alphabet::Standard => b'/',
        _ => b'_',
    };
    let mut text = Vec::new();
    for chunk in bytes.chunks(3) {
        let byte = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let used = place <= chunk.len();
            text.push(if used { digit(bits >> (18 - 6 * place)) } else { b'=' });
        }
    }
    text
}

/// Percent-encoding as RFC 3986, `encodeURIComponent` and HTML forms have it, digits of either
/// case.
fn url_forms(part: &[u8], forms: &mut Vec<Vec<u8>>) {
    for kept in [&b"-._~"[..], b"-._~!'()*", b"-._*", b"-._~/", b"-._~!'()*;/?:@&=+$,#"] {
        for digits in [b"0123456789ABCDEF", b"0123456789abcdef"] {
            for space in [&b"%20"[..], b"+"] {
                let mut form = Vec::new();
                for &byte in part {
                    if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
                        form.push(byte);
                    } else if byte == b' ' {
                        form.extend_from_slice(space);
                    } else {
                        let digit = |n: u8| digits[usize::from(n)];
                        form.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
                    }
                }
                forms.push(form);
            }
        }
    }
}

/// The inside of a JSON string as the common writers escape it.
fn json_forms(part: &[u8], forms: &mut Vec<Vec<u8>>) {
    let text = String::from_utf8_lossy(part);
    let quoted = serde_json::Value::String(text.into_owned()).to_string();
    let plain = &quoted[1..quoted.len() - 1];
    let escape = |must: fn(char) -> bool| {
        let mut out = String::new();
        for c in plain.chars() {
            if must(c) {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                out.push(c);
            }
        }
        out
    };
    forms.push(plain.as_bytes().to_vec());
    forms.push(plain.replace('/', "\\/").into_bytes());
    forms.push(escape(|c| !c.is_ascii()).into_bytes());
    forms.push(escape(|c| matches!(c, '<' | '>' | '&')).into_bytes());
    // A string inside a string, as a log of a log has it.
    forms.push(plain.replace('\\', "\\\\").replace('"', "\\\"").into_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_password_of_an_address_is_one_whatever_it_is_called() {
        let variables = [
            ("REDIS", "redis://user:hunter22@host:6379/0"),
            ("DEPLOY_KEY", "-----key-----"),
            ("SLACK_WEBHOOK", "https://hooks.example/T0/B0/x1"),
            ("HOME_PAGE", "https://example.org/a:b@c"),
            ("NOTE", "a:plain@value"),
            ("TEST_DB", "postgres://postgres:postgres@localhost/test"),
        ];
        let found =
            forms(DEFAULT_NAMES, variables.map(|(name, value)| (name.into(), value.into())));
        let has = |text: &str| found.contains_key(text.as_bytes());
        assert!(has("hunter22") && has("-----key-----") && has("https://hooks.example/T0/B0/x1"));
        assert!(!has("redis://user:hunter22@host:6379/0") && !has("a:plain@value"));
        assert!(!found.values().any(|label| label == "HOME_PAGE" || label == "TEST_DB"));
    }

    #[test]
    fn names_are_matched_as_patterns_of_either_case() {
        let is = |name: &str| DEFAULT_NAMES.iter().any(|p| name_matches(p, OsStr::new(name)));
        for name in ["GITHUB_TOKEN", "my_secret", "DB_PASSWORD", "AWS_ACCESS_KEY_ID", "CI_PAT"] {
            assert!(is(name), "{name}");
        }
        for name in ["PATH", "HOME", "PWD", "SHELL", "KEYBOARD", "PATTERN", "USER"] {
            assert!(!is(name), "{name}");
        }
        assert!(name_matches("**", OsStr::new("")));
        assert!(!name_matches(&"*a".repeat(20), OsStr::new(&"b".repeat(200))));
    }

    #[test]
    fn plain_numbers_and_our_own_words_are_no_secrets() {
        let environment = [
            ("MAX_THINKING_TOKENS", "128000"),
            ("RATE_TOKEN", "-0.25000"),
            ("USE_TOKEN", "false"),
            ("DB_PASSWORD", "workspace"),
            ("OTHER_PASSWORD", "passed"),
            ("A_TOKEN", "redacted"),
            ("MY_TOKEN", "MY_TOKEN"),
            ("LONG_PASSWORD", "938471029384"),
            ("REAL_TOKEN", "128000x"),
        ];
        let environment = environment.map(|(name, value)| (name.into(), value.into()));
        let found = forms(DEFAULT_NAMES, environment);
        let labels: BTreeSet<&str> = found.values().map(String::as_str).collect();
        for label in ["LONG_PASSWORD", "REAL_TOKEN"] {
            assert!(labels.contains(label), "{label}: {labels:?}");
        }
        for value in ["128000", "-0.25000", "workspace", "passed", "redacted", "MY_TOKEN"] {
            assert!(!found.contains_key(value.as_bytes()), "{value}");
        }
        for label in ["MAX_THINKING_TOKENS", "RATE_TOKEN", "USE_TOKEN"] {
            assert!(!labels.contains(label), "{label}");
        }
    }

    #[test]
    fn base64_is_the_one_of_rfc_4648() {
        for (plain, coded) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(plain.as_bytes(), Alphabet::Standard), coded.as_bytes());
        }
        assert_eq!(base64(&[0xfb, 0xff], Alphabet::Standard), b"+/8=");
        assert_eq!(base64(&[0xfb, 0xff], Alphabet::Url), b"-_8=");
    }

    #[test]
    fn a_value_inside_encoded_text_is_found_at_each_of_the_three_places() {
        let secret = b"hunter2-hunter2";
        let forms = encodings(secret, true);
        for before in 0..7 {
            for after in 0..7 {
                let text = [&vec![b'x'; before][..], secret, &vec![b'y'; after]].concat();
                for alphabet in [Alphabet::Standard, Alphabet::Url] {
                    let coded = base64(&text, alphabet);
                    let found = forms.iter().any(|f| {
                        f.len() >= 17 && coded.windows(f.len()).any(|window| window == &f[..])
                    });
                    assert!(found, "{before} {after}");
                }
            }
        }
    }
}
