//! Layer, copies, patches and delivery on real folders and a real snapshot store.

mod delivery;
mod snap;
mod views;
