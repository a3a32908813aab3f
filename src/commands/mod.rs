//! One file per subcommand; the only place where real parts are plugged together.
