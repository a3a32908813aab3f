//! The binary from outside: every command, every halt reason, what it leaves behind.

mod bench;
mod deliver;
mod diagnosis;
mod reasons;
mod refusals;
mod smoke;
mod untouched;
