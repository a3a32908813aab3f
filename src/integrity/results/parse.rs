//! The readers as pure functions of bytes, one a format: for reports kept elsewhere and for fuzzing.
//!
//! `roots` are absolute folders that ids and files lose. None of them fails: what cannot be read
//! is a sentence in `problems`.

use crate::domain::results::Results;

/// Reads JUnit XML.
pub fn junit(bytes: &[u8], roots: &[String]) -> Results {
    super::junit::parse(bytes, roots)
}

/// Reads a TAP stream.
pub fn tap(bytes: &[u8], roots: &[String]) -> Results {
    super::tap::parse(bytes, roots)
}

/// Reads `cargo test`, both streams in one text.
pub fn cargo(bytes: &[u8], roots: &[String]) -> Results {
    super::libtest::parse(bytes, roots)
}

/// Reads the text of nextest.
pub fn nextest(bytes: &[u8], roots: &[String]) -> Results {
    super::nextest::parse(bytes, roots)
}

/// Reads `go test`, as JSON or as text.
pub fn go(bytes: &[u8], roots: &[String]) -> Results {
    super::golang::parse(bytes, roots)
}

/// Reads the text of CTest.
pub fn ctest(bytes: &[u8], roots: &[String]) -> Results {
    super::ctest::parse(bytes, roots)
}

/// Reads the TeamCity log of PHPUnit.
pub fn teamcity(bytes: &[u8], roots: &[String]) -> Results {
    super::teamcity::parse(bytes, roots)
}

/// Reads the XML of a program of GoogleTest.
pub fn gtest(bytes: &[u8], roots: &[String]) -> Results {
    super::gtest::parse(bytes, roots)
}

/// Reads the text of Maven or Gradle: only why a build failed stands there.
pub fn jvm(bytes: &[u8], roots: &[String]) -> Results {
    super::jvm::parse(bytes, roots)
}

/// Reads the JSON lines of our own plugins; `None` where the first line names no runner.
pub fn jsonl(bytes: &[u8], roots: &[String]) -> Option<Results> {
    super::jsonl::parse(bytes, roots)
}
