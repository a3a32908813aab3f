//! The zip of a run: what may leave, always the same bytes.
