//! What the store costs: `cargo bench -p transom-store`.

fn main() {}
