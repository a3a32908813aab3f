//! The binary from outside: every command, every halt reason, what it leaves behind.

mod bench;
mod build_context;
mod check;
mod deliver;
mod descendants;
mod diagnosis;
mod outputs;
mod promises;
mod ratchet;
mod reasons;
mod refusals;
mod replay;
mod smoke;
mod untouched;
mod verify;
