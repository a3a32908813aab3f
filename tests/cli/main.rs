//! The binary from outside: every command, every halt reason, what it leaves behind.

mod bench;
mod smoke;
mod diagnosis;
mod reasons;
mod untouched;
