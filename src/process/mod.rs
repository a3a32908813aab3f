//! Child processes: spawn, deadlines, capture, killing a tree.
