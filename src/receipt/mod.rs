//! The evidence on disk: format, writer, reader, lock, state file.
