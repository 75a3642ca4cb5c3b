//! Cases of estimate: machines and models by their numbers.
//!
//! Rule: every expected number is worked out by hand.
