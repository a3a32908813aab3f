//! The binary from outside: every command, every halt reason, what it leaves behind.

mod bench;
mod build_context;
mod check;
mod deliver;
mod descendants;
mod diagnosis;
mod doctor;
mod explain_halt;
mod extremes;
mod hostile;
mod init;
mod json;
mod measured;
mod outputs;
mod promises;
mod ratchet;
mod reasons;
mod refusals;
mod replay;
mod report;
mod status;
mod texts;
mod untouched;
mod verify;
