//! JSON with one reading only: no duplicate keys, no fractions, no integer that a double rounds.
//!
//! Two programs that read the same accepted bytes agree on every value. The shape of an event is
//! left to `format`.

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// The largest distance of an integer from zero: 2^53, up to which a double is exact.
pub const MAX_INTEGER: u64 = 1 << 53;

/// How many arrays and objects may stand inside each other.
pub const MAX_DEPTH: usize = 64;

/// Parses one JSON value and refuses what `check` refuses, and duplicate keys at any depth.
///
/// # Errors
/// Gives one clause that says what is wrong and at which column.
pub fn parse(bytes: &[u8]) -> Result<Value, String> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { depth: 0 }.deserialize(&mut deserializer).map_err(|e| e.to_string())?;
    deserializer.end().map_err(|e| e.to_string())?;
    Ok(value)
}

/// Checks that a value can be written so that `parse` takes it back.
///
/// # Errors
/// Gives one clause that names the number or the depth.
pub fn check(value: &Value) -> Result<(), String> {
    check_at(value, 0)
}

fn check_at(value: &Value, depth: usize) -> Result<(), String> {
    match value {
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(n), _) if n <= MAX_INTEGER => Ok(()),
            (_, Some(n)) if n.unsigned_abs() <= MAX_INTEGER => Ok(()),
            _ if number.is_f64() => Err(format!("{number} is a fraction; write it as a string")),
            _ => Err(format!("{number} is beyond 2^53; write it as a string")),
        },
        Value::Array(_) | Value::Object(_) if depth >= MAX_DEPTH => Err(too_deep()),
        Value::Array(items) => items.iter().try_for_each(|item| check_at(item, depth + 1)),
        Value::Object(map) => map.values().try_for_each(|item| check_at(item, depth + 1)),
    }
}

fn too_deep() -> String {
    format!("nested deeper than {MAX_DEPTH}")
}

/// Reads a value at a depth.
struct Strict {
    depth: usize,
}

impl Strict {
    fn inner<E: de::Error>(&self) -> Result<Self, E> {
        if self.depth >= MAX_DEPTH {
            return Err(E::custom(too_deep()));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        if value.unsigned_abs() > MAX_INTEGER {
            return Err(E::custom(format_args!("{value} is beyond 2^53")));
        }
        Ok(Value::from(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        if value > MAX_INTEGER {
            return Err(E::custom(format_args!("{value} is beyond 2^53")));
        }
        Ok(Value::from(value))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Err(E::custom(format_args!("{value} is no integer within 2^53")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(self.inner()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(self.inner()?)?;
            if map.contains_key(&key) {
                let shown: String = key.chars().take(40).collect();
                return Err(de::Error::custom(format_args!("the key {shown:?} stands twice")));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_duplicate_key_is_refused_at_any_depth_and_through_escapes() {
        assert!(parse(br#"{"a":1,"a":1}"#).is_err());
        assert!(parse(br#"[{"b":{"a":1,"\u0061":2}}]"#).unwrap_err().contains("stands twice"));
        assert!(parse(br#"{"a":{"a":1},"b":{"a":1}}"#).is_ok());
    }

    #[test]
    fn only_integers_that_a_double_holds_are_numbers() {
        for good in ["9007199254740992", "-9007199254740992", "0", "-1"] {
            assert!(parse(good.as_bytes()).is_ok(), "{good}");
        }
        for bad in ["9007199254740993", "-9007199254740993", "1.0", "1e3", "-0", "1e400"] {
            assert!(parse(bad.as_bytes()).is_err(), "{bad}");
            assert!(parse(format!("{{\"a\":[{bad}]}}").as_bytes()).is_err(), "{bad}");
        }
        assert!(check(&json!({"a": [1.5]})).is_err());
        assert!(check(&json!(9_007_199_254_740_993_u64)).is_err());
        assert!(check(&json!(i64::MIN)).is_err());
        assert!(check(&json!(-9_007_199_254_740_992_i64)).is_ok());
    }

    #[test]
    fn depth_is_bounded_alike_for_writing_and_reading() {
        let mut value = json!(1);
        for _ in 0..MAX_DEPTH {
            value = json!([value]);
        }
        assert!(check(&value).is_ok());
        assert!(parse(value.to_string().as_bytes()).is_ok());
        value = json!([value]);
        assert!(check(&value).is_err());
        assert!(parse(value.to_string().as_bytes()).is_err());
        assert!(parse(&b"[".repeat(100_000)).is_err());
    }

    #[test]
    fn bytes_after_the_value_are_refused() {
        assert!(parse(b"{} x").is_err());
        assert!(parse(b"\"\xff\"").is_err());
    }
}
