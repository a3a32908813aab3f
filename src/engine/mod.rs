//! The one loop, and the seams it drives.
//!
//! `drive` is the loop; `baseline`, `iterate` and `confirm` gather facts through the traits of `ports`. What
//! the facts mean is decided in `domain`, what carries them out stands behind the traits.

pub mod baseline;
pub mod confirm;
pub mod drive;
pub mod iterate;
pub mod ports;
