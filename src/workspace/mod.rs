//! The detached workspace, the frozen layer, copies, snapshots, delivery.
