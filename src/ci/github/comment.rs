//! One sticky comment a key.
