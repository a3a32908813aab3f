//! A check run with its annotations, opt-in.
