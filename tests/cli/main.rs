//! The binary from outside: every command, every halt reason, what it leaves behind.

mod bench;
mod diagnosis;
mod promises;
mod reasons;
mod smoke;
mod untouched;
