//! From raw readings to levels, with hysteresis against noise. Pure.

use std::time::Duration;

use crate::signal::{MemoryPressure, ThermalState};

/// How long a level of pressure is held after the last notice of it. The kernel speaks up at most
/// once a window of 2 s while pressure lasts, so three windows of silence mean that it is over.
pub(in crate::linux) const HOLD: Duration = Duration::from_secs(6);

/// Memory pressure from notices that come only while it lasts.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::linux) struct PressureLevel {
    warned: Option<Duration>,
    alarmed: Option<Duration>,
}

impl PressureLevel {
    /// A notice of `level` came at `now`.
    pub(in crate::linux) fn notice(&mut self, level: MemoryPressure, now: Duration) {
        match level {
            MemoryPressure::Normal => {}
            MemoryPressure::Warning => self.warned = Some(now),
            MemoryPressure::Critical => self.alarmed = Some(now),
        }
    }

    /// The level at `now`.
    pub(in crate::linux) fn at(&self, now: Duration) -> MemoryPressure {
        let holds = |since: Option<Duration>| since.is_some_and(|since| now < since + HOLD);
        if holds(self.alarmed) {
            MemoryPressure::Critical
        } else if holds(self.warned) {
            MemoryPressure::Warning
        } else {
            MemoryPressure::Normal
        }
    }
}

/// The share of time, in percent over ten seconds, in which some task waited for memory, and in
/// which all did; to a level, where notices are not to be had.
pub(in crate::linux) fn pressure_of_averages(some: f64, full: f64) -> MemoryPressure {
    if full >= 10.0 {
        MemoryPressure::Critical
    } else if some >= 7.5 {
        MemoryPressure::Warning
    } else {
        MemoryPressure::Normal
    }
}

/// A sensor's trip points, in thousandths of a degree Celsius.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::linux) struct TripPoints {
    /// Where the system begins to slow itself down.
    pub(in crate::linux) passive: Option<i64>,
    /// Where the hardware is told that it is hot.
    pub(in crate::linux) hot: Option<i64>,
    /// Where the system shuts down.
    pub(in crate::linux) critical: Option<i64>,
}

/// How far below a trip point the level before it begins.
const MARGIN: i64 = 10_000;
/// How far a temperature must fall below a level's threshold before the level is left.
const FALL: i64 = 3_000;

/// Heat from a temperature and the sensor's trip points; `before` is the level so far, which is
/// kept until the temperature is clearly below it.
pub(in crate::linux) fn heat(
    temperature: i64,
    trips: TripPoints,
    before: ThermalState,
) -> ThermalState {
    let raised = level(temperature, trips);
    if raised >= before {
        return raised;
    }
    // As if it were still a little warmer; never above what it was.
    level(temperature.saturating_add(FALL), trips).min(before)
}

fn level(temperature: i64, trips: TripPoints) -> ThermalState {
    let reaches =
        |trip: Option<i64>, margin: i64| trip.is_some_and(|trip| temperature >= trip - margin);
    let slows_down = trips.passive.or(trips.hot);
    if reaches(trips.critical, MARGIN) {
        ThermalState::Critical
    } else if reaches(slows_down, 0) {
        ThermalState::Serious
    } else if reaches(slows_down, MARGIN) || reaches(trips.critical, 2 * MARGIN) {
        ThermalState::Fair
    } else {
        ThermalState::Nominal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn pressure_holds_while_notices_come_and_goes_in_silence() {
        let mut level = PressureLevel::default();
        assert_eq!(level.at(seconds(0)), MemoryPressure::Normal);
        level.notice(MemoryPressure::Warning, seconds(10));
        level.notice(MemoryPressure::Critical, seconds(12));
        assert_eq!(level.at(seconds(12)), MemoryPressure::Critical);
        level.notice(MemoryPressure::Warning, seconds(15));
        assert_eq!(level.at(seconds(17)), MemoryPressure::Critical);
        assert_eq!(level.at(seconds(18)), MemoryPressure::Warning);
        assert_eq!(level.at(seconds(21)), MemoryPressure::Normal);
    }

    #[test]
    fn averages_become_levels() {
        assert_eq!(pressure_of_averages(0.0, 0.0), MemoryPressure::Normal);
        assert_eq!(pressure_of_averages(8.0, 2.0), MemoryPressure::Warning);
        assert_eq!(pressure_of_averages(40.0, 12.0), MemoryPressure::Critical);
    }

    const TRIPS: TripPoints = TripPoints {
        passive: Some(85_000),
        hot: None,
        critical: Some(105_000),
    };

    #[test]
    fn heat_rises_at_once_and_falls_with_a_margin() {
        use ThermalState::*;
        let mut state = Nominal;
        for (temperature, expected) in [
            (60_000, Nominal),
            (75_000, Fair),
            (73_000, Fair),
            (71_000, Nominal),
            (86_000, Serious),
            (83_000, Serious),
            (81_000, Fair),
            (96_000, Critical),
            (50_000, Nominal),
        ] {
            state = heat(temperature, TRIPS, state);
            assert_eq!(state, expected, "at {temperature}");
        }
    }

    #[test]
    fn a_sensor_with_only_a_critical_point_still_warns() {
        let trips = TripPoints {
            critical: Some(100_000),
            ..TripPoints::default()
        };
        assert_eq!(
            heat(79_000, trips, ThermalState::Nominal),
            ThermalState::Nominal
        );
        assert_eq!(
            heat(80_000, trips, ThermalState::Nominal),
            ThermalState::Fair
        );
        assert_eq!(
            heat(91_000, trips, ThermalState::Nominal),
            ThermalState::Critical
        );
        let none = TripPoints::default();
        assert_eq!(
            heat(200_000, none, ThermalState::Nominal),
            ThermalState::Nominal
        );
    }
}
