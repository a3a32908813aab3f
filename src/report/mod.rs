//! How a result leaves: terminal and JSON.
