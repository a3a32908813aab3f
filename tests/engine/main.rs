//! The loop on a scripted world: every reason that rests on history, and what must hold always.
//!
//! Effects are faked here and only here; `tests/cli` runs the same reasons end to end.

mod always;
mod beyond;
mod gates;
mod reasons;
mod script;
mod surface;
