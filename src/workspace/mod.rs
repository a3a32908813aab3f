//! The detached workspace, the frozen layer, copies, snapshots, delivery.

pub mod beneath;
pub mod branch;
pub mod context;
pub mod copies;
pub mod copying;
pub mod deliver;
pub mod delta;
pub mod hostile;
pub mod journal;
pub mod layer;
pub mod neighbours;
pub mod patch;
pub mod slice;
mod standing;
