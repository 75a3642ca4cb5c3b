//! What the machine says: memory pressure, heat, power; and what hardware it is.
//!
//! Sources run in the background and call back with one value, [`SystemSignals`]; the latest wins.
//! Nothing is decided here. It imports no other room, and knows nothing of async.
//!
//! Rule: a source that this machine lacks says so once and reports normal; it never fails the
//! product.

mod signal;

pub use signal::{MemoryPressure, SignalSource, SourceReport, SystemSignals, ThermalState};
