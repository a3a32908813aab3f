//! The binary from outside: every command, every halt reason, what it leaves behind.

mod bench;
mod descendants;
mod diagnosis;
mod outputs;
mod reasons;
mod untouched;
