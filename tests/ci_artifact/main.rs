//! The bundle of a run as a zip and as an artifact: written, uploaded, found, unpacked, taken up.

#[path = "../cli/bench.rs"]
#[expect(dead_code, reason = "the end-to-end tests use the rest of it")]
mod bench;
mod bundle;
mod hostile;
mod latest;
mod project;
#[path = "../support/results.rs"]
#[expect(dead_code, reason = "the test with the official client uses the rest of it")]
mod results;
mod secrets;
mod upload;
