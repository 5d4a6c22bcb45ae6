//! The `guideway` command.
fn main() {}
