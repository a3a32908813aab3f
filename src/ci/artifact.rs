//! The receipt bundle as an artifact of a GitHub run.
