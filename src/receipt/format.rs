//! One event as one line: the header, the event's own keys, the sum; and back, strictly.
//!
//! `docs/receipt.md` gives the bytes. How lines follow each other is judged in `reader`, how they
//! get to disk in `writer`.

use super::strict;
use crate::domain::hex;
use serde_json::{Map, Value};
use std::time::{Duration, SystemTime};

/// The version every line opens with.
pub const VERSION: u64 = 1;

/// What is hashed before the run id to start a chain.
pub const MAGIC: &str = "loopexec.receipt.v1\n";

/// The length a line is brought under by moving its largest values into blobs, in bytes.
pub const TARGET_LINE: usize = 16 * 1024;

/// The length over which no line is written or read, in bytes with the newline.
pub const MAX_LINE: usize = 1024 * 1024;

/// The length of what ends a line: `,"sum":"`, 64 digits, `"}` and the newline.
pub const SUM_TAIL: usize = 75;

/// The type of the event that ends a run.
pub const RUN_END: &str = "run_end";

/// The keys that the format owns, in the order they stand; `sum` is the last.
pub const HEADER: [&str; 6] = ["v", "seq", "prev", "run", "time", "type"];

/// The last event of a chain.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Head {
    /// Its place, from 0.
    pub seq: u64,
    /// The sha256 of its raw line with the newline, in hexadecimal.
    pub sha256: String,
}

/// One event as read from a receipt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Its place in the receipt, from 0.
    pub seq: u64,
    /// The sha256 of the line before it.
    pub prev: String,
    /// The run it belongs to.
    pub run: String,
    /// When it was written: RFC 3339, UTC, milliseconds.
    pub time: String,
    /// What sort of event it is.
    pub kind: String,
    /// Its own keys, in the order they were written.
    pub body: Map<String, Value>,
    /// The sha256 of its raw line with the newline.
    pub sha256: String,
}

impl Event {
    /// Returns the event as the head of a chain that ends with it.
    pub fn head(&self) -> Head {
        Head { seq: self.seq, sha256: self.sha256.clone() }
    }
}

/// What is wrong with one line taken by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// The sum is not there or does not fit: a torn write looks like this.
    Damaged(String),
    /// The sum fits, but no writer of this format wrote the line.
    Foreign(String),
}

/// What a line says before its own keys.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// The place of the event, from 0.
    pub seq: u64,
    /// The sha256 of the line before it.
    pub prev: &'a str,
    /// The run id.
    pub run: &'a str,
    /// When it happens.
    pub time: SystemTime,
    /// The type of the event.
    pub kind: &'a str,
}

/// Returns the `prev` of the first line of a run.
pub fn genesis(run: &str) -> String {
    hex::sha256(format!("{MAGIC}{run}").as_bytes())
}

/// Checks a run id: a letter or digit, then up to 63 of letters, digits, `.`, `_` and `-`.
pub fn is_run_id(id: &str) -> bool {
    let mut bytes = id.bytes();
    id.len() <= 64
        && bytes.next().is_some_and(|b| b.is_ascii_alphanumeric())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}

/// Writes one line with its newline.
///
/// # Errors
/// Gives one clause: a type that is no name, a key the format owns, a number JSON readers round,
/// a line over [`MAX_LINE`].
pub fn encode(header: Header<'_>, body: &Map<String, Value>) -> Result<Vec<u8>, String> {
    if !is_kind(header.kind) {
        return Err(format!("{:?} is no event type", header.kind));
    }
    let mut line = format!(
        r#"{{"v":{VERSION},"seq":{},"prev":"{}","run":"{}","time":"{}","type":"{}""#,
        header.seq,
        header.prev,
        header.run,
        timestamp(header.time),
        header.kind
    );
    for (key, value) in body {
        if HEADER.contains(&key.as_str()) || key == "sum" {
            return Err(format!("the key {key:?} belongs to the format"));
        }
        strict::check(value).map_err(|why| format!("in {key:?}: {why}"))?;
        line.push(',');
        line.push_str(&Value::String(key.clone()).to_string());
        line.push(':');
        line.push_str(&value.to_string());
    }
    let sum = hex::sha256(line.as_bytes());
    line.push_str(&format!(",\"sum\":\"{sum}\"}}\n"));
    if line.len() > MAX_LINE {
        return Err(format!("the event has {} bytes, over {MAX_LINE}", line.len()));
    }
    Ok(line.into_bytes())
}

/// Reads one line with its newline, and checks all that can be checked without its neighbours.
///
/// # Errors
/// See [`Flaw`].
pub fn decode(line: &[u8]) -> Result<Event, Flaw> {
    check_sum(line).map_err(Flaw::Damaged)?;
    decode_content(line).map_err(Flaw::Foreign)
}

fn check_sum(line: &[u8]) -> Result<(), String> {
    let Some(covered) = line.len().checked_sub(SUM_TAIL) else {
        return Err("the line is too short to be an event".into());
    };
    let (covered, tail) = line.split_at(covered);
    let expected = format!(",\"sum\":\"{}\"}}\n", hex::sha256(covered));
    if tail == expected.as_bytes() {
        return Ok(());
    }
    if !tail.starts_with(b",\"sum\":\"") || !tail.ends_with(b"\"}\n") {
        return Err("the line does not end with its sum".into());
    }
    Err("the sum does not fit the line".into())
}

fn decode_content(line: &[u8]) -> Result<Event, String> {
    let Value::Object(mut map) = strict::parse(line)? else {
        return Err("the line is no object".into());
    };
    let in_place = HEADER.iter().copied().eq(map.keys().take(HEADER.len()).map(String::as_str));
    if !in_place || map.keys().next_back().map(String::as_str) != Some("sum") {
        return Err(format!("the keys do not open with {} and end with sum", HEADER.join(", ")));
    }
    let mut take = |key: &str| map.shift_remove(key).unwrap_or_default();
    let (version, seq) = (take("v"), take("seq"));
    let mut text = |key: &str| match take(key) {
        Value::String(text) => Ok(text),
        _ => Err(format!("{key} is no string")),
    };
    let (prev, run, time) = (text("prev")?, text("run")?, text("time")?);
    let (kind, _) = (text("type")?, text("sum")?);
    if version.as_u64() != Some(VERSION) {
        return Err(format!("version {version} is not {VERSION}; a newer loopexec may read it"));
    }
    let seq = seq.as_u64().ok_or("seq is no whole number")?;
    if !is_run_id(&run) {
        return Err("run is no run id".into());
    }
    if !is_kind(&kind) {
        return Err("type is no event type".into());
    }
    if !is_timestamp(&time) {
        return Err("time is not RFC 3339 in UTC with milliseconds".into());
    }
    Ok(Event { seq, prev, run, time, kind, body: map, sha256: hex::sha256(line) })
}

fn is_kind(kind: &str) -> bool {
    kind.len() <= 64
        && kind.starts_with(|c: char| c.is_ascii_lowercase())
        && kind.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
}

/// Writes a time as RFC 3339 in UTC with milliseconds; a clock outside 1970 to 9999 is clamped.
pub fn timestamp(time: SystemTime) -> String {
    const LAST: Duration = Duration::from_millis(253_402_300_799_999);
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().min(LAST);
    humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + since).to_string()
}

fn is_timestamp(text: &str) -> bool {
    humantime::parse_rfc3339(text).is_ok_and(|time| timestamp(time) == text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn body(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    fn header(kind: &str) -> Header<'_> {
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123);
        Header { seq: 0, prev: "", run: "R1", time, kind }
    }

    #[test]
    fn the_example_of_the_documentation_is_what_the_code_writes() {
        let prev = genesis("demo");
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_767_225_600);
        let header = Header { seq: 0, prev: &prev, run: "demo", time, kind: "run_start" };
        let line = encode(header, &body(json!({"tool": "loopexec"}))).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(include_str!("../../docs/receipt.md").contains(&line), "{line}");
    }

    #[test]
    fn an_event_comes_back_as_it_was_written() {
        let own = body(json!({"b": ["é\n\u{0}", 1, null], "a": {"z": true}}));
        let line = encode(header("observed"), &own).unwrap();
        let event = decode(&line).unwrap();
        assert_eq!((event.kind.as_str(), event.run.as_str()), ("observed", "R1"));
        assert_eq!(event.time, "2023-11-14T22:13:20.123Z");
        assert_eq!(event.body, own);
        assert_eq!(event.body.keys().collect::<Vec<_>>(), ["b", "a"]);
    }

    #[test]
    fn what_the_format_owns_cannot_be_set_by_an_event() {
        for key in ["v", "seq", "prev", "run", "time", "type", "sum"] {
            assert!(encode(header("x"), &body(json!({key: 1}))).is_err(), "{key}");
        }
        for kind in ["", "X", "a b", "a\"", "1a"] {
            assert!(encode(header(kind), &Map::new()).is_err(), "{kind}");
        }
        assert!(encode(header("x"), &body(json!({"a": "x".repeat(MAX_LINE)}))).is_err());
    }

    #[test]
    fn a_line_with_a_right_sum_and_wrong_content_is_foreign() {
        let good = String::from_utf8(encode(header("x"), &Map::new()).unwrap()).unwrap();
        for (from, to) in [
            ("\"v\":1,", "\"v\":2,"),
            ("\"v\":1,", ""),
            ("\"seq\":0", "\"seq\":-1"),
            ("\"seq\":0", "\"seq\":0,\"seq\":0"),
            ("\"run\":\"R1\"", "\"run\":\"../R1\""),
            (".123Z", ".12Z"),
            ("\"type\":\"x\"", "\"type\":\"X\""),
            ("\"type\":\"x\"", "\"type\":\"x\",\"n\":1.5"),
        ] {
            let covered = good[..good.len() - SUM_TAIL].replace(from, to);
            let sum = hex::sha256(covered.as_bytes());
            let line = format!("{covered},\"sum\":\"{sum}\"}}\n");
            assert!(matches!(decode(line.as_bytes()), Err(Flaw::Foreign(_))), "{line}");
        }
    }

    #[test]
    fn a_clock_outside_the_format_is_clamped() {
        let early = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(timestamp(early), "1970-01-01T00:00:00.000Z");
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(timestamp(late), "9999-12-31T23:59:59.999Z");
    }
}
