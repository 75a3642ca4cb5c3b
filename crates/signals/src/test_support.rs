//! Signals that tests set, and real memory pressure.

#[cfg(target_os = "linux")]
mod cgroup;
mod scripted;

#[cfg(target_os = "linux")]
pub use cgroup::{LimitedCgroup, MemoryPressureProcess, skipped};
pub use scripted::ScriptedSignals;
