//! The value that all sources report together, and the trait of a source.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The state of the machine. The default is a machine on mains power without any pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
pub struct SystemSignals {
    /// Memory pressure: the system asks programs to free memory.
    pub memory: MemoryPressure,
    /// The system swaps out more than [`SystemSignals::THRASHING_BYTES_PER_SECOND`], so the machine
    /// is too slow to work with. Swap in use can stay the same meanwhile.
    pub is_thrashing: bool,
    /// The thermal state.
    pub thermal: ThermalState,
    /// Low Power Mode, or a power saver profile, is on.
    pub is_low_power: bool,
    /// The machine runs on battery.
    pub is_on_battery: bool,
}

impl SystemSignals {
    /// Swapping out that counts as thrashing, in bytes per second over some seconds. An SSD can
    /// write several times as much, but a machine that swaps this fast no longer responds well.
    pub const THRASHING_BYTES_PER_SECOND: u64 = 100 << 20;
}

/// Memory pressure, in the levels of Apple's `DISPATCH_SOURCE_TYPE_MEMORYPRESSURE`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum MemoryPressure {
    /// No pressure.
    #[default]
    Normal,
    /// Programs should free memory that is cheap to rebuild.
    Warning,
    /// Programs should free all memory that they can spare.
    Critical,
}

impl fmt::Display for MemoryPressure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// Thermal state, in the levels of Apple's `NSProcessInfoThermalState`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
pub enum ThermalState {
    /// Normal temperature.
    #[default]
    Nominal,
    /// Slightly warm; programs should defer background work.
    Fair,
    /// Hot: the system slows itself down, and programs should do less.
    Serious,
    /// Too hot: programs should stop work.
    Critical,
}

impl fmt::Display for ThermalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A source of [`SystemSignals`].
pub trait SignalSource: Send + Sync + 'static {
    /// Returns the current state.
    fn current(&self) -> SystemSignals;

    /// Calls `on_change` with every new state, on a thread of the source, until the source is
    /// dropped. `on_change` must return at once and must not call the source. A later call replaces
    /// the callback.
    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>);

    /// Starts or stops polling of memory pressure. Turn it on while a model is loaded. Where
    /// notifications of memory pressure can be late, the source then reads the level every few
    /// seconds.
    fn set_polling(&self, _is_polling: bool) {}

    /// Reads memory pressure again, because another process was notified of a change
    /// ([`crate::MemoryPressureListener`]).
    fn refresh(&self) {}

    /// Describes the sources for people, in a fixed order. May wait up to half a second for sources
    /// that start slowly; after that, [`SignalSource::current`] includes them.
    fn report(&self) -> Vec<SourceReport>;
}

/// The description of one source, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceReport {
    /// The signal: `memory pressure`, `heat`, `power mode`, `battery`, `swap`.
    pub signal: String,
    /// The source, such as `/proc/pressure/memory (triggers)`, or why there is none.
    pub source: String,
    /// The value, such as `normal (some 0.3 % over 10 s)`.
    pub value: String,
    /// True if the source exists.
    pub is_available: bool,
}
