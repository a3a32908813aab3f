//! The files of a step: outputs, state, summary.
