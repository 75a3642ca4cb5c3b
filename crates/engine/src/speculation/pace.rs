//! How many guesses a step shall check.

/// Learns what steps cost and how often guesses are right.
#[derive(Debug, Clone, Default)]
pub struct Pace {}
