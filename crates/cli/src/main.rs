//! The `transom` command line.
fn main() {}
