//! Layer, copies, patches and delivery on real folders and a real snapshot store.

#![expect(clippy::unwrap_used, reason = "what a test sets up must work")]

mod delivery;
mod snap;
mod views;
