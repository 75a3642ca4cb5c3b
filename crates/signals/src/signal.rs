//! The one value that all sources make up together.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The machine's state now. The default is a machine on mains power with nothing to complain of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct SystemSignals {
    /// The system asks programs to give memory back.
    pub memory: MemoryPressure,
    /// Swap in use has been growing at more than [`SystemSignals::THRASHING_BYTES_PER_SECOND`]:
    /// the machine is moving memory to disk faster than anybody can work.
    pub is_thrashing: bool,
    /// How hot the machine is.
    pub thermal: ThermalState,
    /// The user, or the system for them, chose to save energy.
    pub is_low_power: bool,
    /// No mains power.
    pub is_on_battery: bool,
}

impl SystemSignals {
    /// Growth of swap that counts as thrashing, in bytes a second over some seconds. An SSD takes
    /// several times as much, but a machine that pages this fast no longer follows the pointer.
    pub const THRASHING_BYTES_PER_SECOND: u64 = 100 << 20;
}

/// Memory pressure, in the levels of Apple's `DISPATCH_SOURCE_TYPE_MEMORYPRESSURE`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum MemoryPressure {
    /// Nothing to do.
    #[default]
    Normal,
    /// Give back what can be rebuilt cheaply.
    Warning,
    /// Give back all that can be spared.
    Critical,
}

impl fmt::Display for MemoryPressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Normal => "normal",
            Self::Warning => "warning",
            Self::Critical => "critical",
        })
    }
}

/// Heat, in the levels of Apple's `NSProcessInfoThermalState`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum ThermalState {
    /// Nothing to do.
    #[default]
    Nominal,
    /// Warmer than is comfortable; put off what can wait.
    Fair,
    /// The system slows itself down; use less of everything.
    Serious,
    /// Too hot; stop what can be stopped.
    Critical,
}

impl fmt::Display for ThermalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Nominal => "nominal",
            Self::Fair => "fair",
            Self::Serious => "serious",
            Self::Critical => "critical",
        })
    }
}

/// Where signals come from.
pub trait SignalSource: Send + Sync + 'static {
    /// The state now.
    fn current(&self) -> SystemSignals;

    /// Calls `on_change` with every later state, from a thread of the source's own, until the
    /// source is dropped. `on_change` must return at once and not ask the source anything. A later
    /// call replaces the earlier one's callback.
    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>);

    /// Says whether a model is in memory. Where notices of memory pressure can come late, the level
    /// is read every few seconds as long as one is.
    fn set_watchful(&self, _is_watchful: bool) {}

    /// Reads memory pressure anew, because another process was told of a change
    /// ([`crate::MemoryNotices`]).
    fn look_again(&self) {}

    /// What it listens to, for people: one line a source, in a fixed order. It may take half a
    /// second, for which what answers late is waited for; [`SignalSource::current`] knows it then.
    fn report(&self) -> Vec<SourceReport>;
}

/// One source, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// What it tells: `memory pressure`, `heat`, `power mode`, `battery`, `swap`.
    pub signal: String,
    /// Where it comes from, such as `/proc/pressure/memory (trigger)`, or why there is none.
    pub source: String,
    /// Its value in words, such as `normal (some 0.3 % over 10 s)`.
    pub value: String,
    /// Whether it is there.
    pub is_available: bool,
}
