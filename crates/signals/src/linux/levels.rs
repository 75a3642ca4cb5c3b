//! Converts raw values to levels, with hysteresis against noise. Pure.

use std::time::Duration;

use crate::signal::{MemoryPressure, ThermalState};

/// How long a level of pressure is held after its last notification. The kernel sends at most one
/// per window of 2 s while pressure lasts, so three windows without one mean that the pressure has
/// ended.
pub(in crate::linux) const HOLD_TIME: Duration = Duration::from_secs(6);

/// Computes memory pressure from notifications that come only while it lasts.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::linux) struct PressureLevel {
    last_warning: Option<Duration>,
    last_critical: Option<Duration>,
}

impl PressureLevel {
    pub(in crate::linux) fn notify(&mut self, level: MemoryPressure, now: Duration) {
        match level {
            MemoryPressure::Normal => {}
            MemoryPressure::Warning => self.last_warning = Some(now),
            MemoryPressure::Critical => self.last_critical = Some(now),
        }
    }

    pub(in crate::linux) fn at(&self, now: Duration) -> MemoryPressure {
        let holds = |since: Option<Duration>| since.is_some_and(|since| now < since + HOLD_TIME);
        if holds(self.last_critical) {
            MemoryPressure::Critical
        } else if holds(self.last_warning) {
            MemoryPressure::Warning
        } else {
            MemoryPressure::Normal
        }
    }
}

/// Converts averages over ten seconds to a level, for files without triggers: the percentages of
/// time in which some task, and all tasks, waited for memory.
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
    /// The system starts to slow itself down.
    pub(in crate::linux) passive: Option<i64>,
    /// The hardware is notified that it is hot.
    pub(in crate::linux) hot: Option<i64>,
    /// The system shuts down.
    pub(in crate::linux) critical: Option<i64>,
}

/// How far below a trip point the previous level begins.
const MARGIN: i64 = 10_000;
/// How far the temperature must fall below the threshold of a level to leave the level.
const HYSTERESIS: i64 = 3_000;

/// Converts a temperature to a thermal state by the trip points of the sensor. The state `before`
/// stays until the temperature is clearly below its threshold.
pub(in crate::linux) fn heat(
    temperature: i64,
    trips: TripPoints,
    before: ThermalState,
) -> ThermalState {
    let raised = level(temperature, trips);
    if raised >= before {
        return raised;
    }
    // Uses a slightly higher temperature, but never a state above the previous one.
    level(temperature.saturating_add(HYSTERESIS), trips).min(before)
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
    fn pressure_holds_until_notifications_stop() {
        let mut level = PressureLevel::default();
        assert_eq!(level.at(seconds(0)), MemoryPressure::Normal);
        level.notify(MemoryPressure::Warning, seconds(10));
        level.notify(MemoryPressure::Critical, seconds(12));
        assert_eq!(level.at(seconds(12)), MemoryPressure::Critical);
        level.notify(MemoryPressure::Warning, seconds(15));
        assert_eq!(level.at(seconds(17)), MemoryPressure::Critical);
        assert_eq!(level.at(seconds(18)), MemoryPressure::Warning);
        assert_eq!(level.at(seconds(21)), MemoryPressure::Normal);
    }

    #[test]
    fn averages_are_converted_to_levels() {
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
    fn the_thermal_state_rises_at_once_and_falls_with_hysteresis() {
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
    fn a_sensor_with_only_a_critical_point_has_lower_levels_too() {
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
