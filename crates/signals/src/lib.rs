//! Reads the memory pressure, thermal state and power state of the machine, and describes its
//! hardware.
//!
//! Sources run in the background and report one value, [`SystemSignals`]; the latest value counts.
//! This crate makes no decisions, uses no other crate of the workspace, and contains no async code.
//!
//! Rule: a source that does not exist on this machine logs that once and reports the normal level.
//! It is never an error.

#[cfg_attr(
    not(any(target_os = "macos", test)),
    expect(dead_code, reason = "read on a Mac and in tests")
)]
mod apple;
mod available;
mod bandwidth;
mod disk;
mod energy;
mod footprint;
mod hardware;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "macos")]
mod mac;
mod memory_pressure_listener;
#[cfg(any(target_os = "macos", test))]
mod pressure_poll;
mod report;
mod shared_signals;
mod signal;
mod simulation;
mod swap_growth;
#[cfg(any(test, feature = "test-support"))]
pub mod test_support;
mod thread_qos;

pub use available::available_bytes;
pub use bandwidth::measure_bandwidth;
pub use disk::free_disk_bytes;
pub use energy::EnergyMeter;
pub use footprint::{footprint_bytes, own_footprint_bytes};
pub use hardware::Hardware;
#[cfg(target_os = "linux")]
pub use linux::{LinuxSignals, Paths, keep_awake::KeepAwake};
#[cfg(target_os = "macos")]
pub use mac::keep_awake::KeepAwake;
pub use memory_pressure_listener::MemoryPressureListener;
pub use signal::{MemoryPressure, SignalSource, SourceReport, SystemSignals, ThermalState};
pub use simulation::{SimulationError, parse_simulation};
#[cfg(any(test, feature = "test-support"))]
pub use test_support::ScriptedSignals;
pub use thread_qos::{ThreadQos, set_thread_qos};

/// Starts the signal sources of this machine.
pub fn system_signals() -> Box<dyn SignalSource> {
    #[cfg(target_os = "macos")]
    return Box::new(mac::MacSignals::start());
    #[cfg(target_os = "linux")]
    return Box::new(LinuxSignals::with_paths(Paths::default()));
}
