//! What the machine says: memory pressure, heat, power; and what hardware it is.
//!
//! Sources run in the background and call back with one value, [`SystemSignals`]; the latest wins.
//! Nothing is decided here. It imports no other room, and knows nothing of async.
//!
//! Rule: a source that this machine lacks says so once and reports normal; it never fails the
//! product.

#[cfg_attr(
    not(any(target_os = "macos", test)),
    expect(dead_code, reason = "read on a Mac and in tests")
)]
mod apple;
mod available;
mod bandwidth;
mod board;
mod disk;
mod footprint;
mod growth;
mod hardware;
mod keep_awake;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod mac;
mod memory_notices;
#[cfg(any(target_os = "macos", test))]
mod pressure_poll;
mod report;
mod scripted;
mod signal;
#[cfg(all(target_os = "linux", feature = "test-support"))]
pub mod test_support;
mod urgency;

pub use available::available_bytes;
pub use bandwidth::measure_bandwidth;
pub use disk::free_disk_bytes;
pub use footprint::{footprint_bytes, own_footprint_bytes};
pub use hardware::Hardware;
pub use keep_awake::KeepAwake;
#[cfg(target_os = "linux")]
pub use linux::{LinuxSignals, Paths};
pub use memory_notices::MemoryNotices;
pub use scripted::{ScriptedSignals, SimulationError, parse_simulation};
pub use signal::{MemoryPressure, SignalSource, SourceReport, SystemSignals, ThermalState};
pub use urgency::{Urgency, set_thread_urgency};

/// The sources of this machine.
pub fn system_signals() -> Box<dyn SignalSource> {
    #[cfg(target_os = "macos")]
    return Box::new(mac::MacSignals::start());
    #[cfg(target_os = "linux")]
    return Box::new(LinuxSignals::start());
    #[cfg(not(any(target_os = "macos", target_os = "linux")))]
    return Box::new(ScriptedSignals::default());
}
