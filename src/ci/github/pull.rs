//! Which pull request a run is about.
