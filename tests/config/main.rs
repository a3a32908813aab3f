//! The loop file as its users meet it, by what each file is about.

mod bad;
mod diagnostics;
mod digest;
mod good;
mod layers;
mod schema;
#[cfg(test)]
mod support;
mod text;
mod together;
