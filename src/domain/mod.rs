//! The pure nouns and rules of a bounded loop.
