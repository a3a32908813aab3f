//! Zones: what a command of the loop may see, reach and use up, and the proof that it holds.
//!
//! There are two: the agent zone, from which a command reaches what the loop file lists and nothing else,
//! and the exec zone, which has a loopback of its own and no more. `kind` tells them apart, `system` and
//! `homes` say what of the host is shown, `filter` which system calls are refused, `place` puts all that
//! together; `egress` is the one way out of the agent zone, `doors` lead from the exec zone to declared services. `proof` looks around from inside, `canary` has it
//! do so and reads what it found, `image` is where a container's tools come from, and `ladder` takes the first backend whose zones pass. Entering one is the
//! duty of `process`.

pub mod canary;
pub mod doors;
pub mod egress;
pub mod environment;
mod filter;
pub mod homes;
pub mod image;
pub mod kind;
pub mod ladder;
pub mod place;
pub mod proof;
pub mod system;
