//! The client of GitHub's API, with its limits.
