//! Text to `LoopSpec`: the loop file, flags, environment, JSON schema.
