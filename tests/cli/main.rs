//! The binary from outside: every command, every halt reason, what it leaves behind.

mod bench;
mod build_context;
mod check;
mod diagnosis;
mod promises;
mod ratchet;
mod descendants;
mod outputs;
mod reasons;
mod replay;
mod smoke;
mod untouched;
mod verify;
