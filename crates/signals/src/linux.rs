//! Linux's own signals: pressure stall information, thermal zones, power supplies, and the desktop's
//! power services over D-Bus.
//!
//! The pressure thread sleeps in `poll` until the kernel speaks, and ticks only while there is
//! pressure. Heat and power supplies have no notices, so a second thread reads them, if they exist
//! at all, every ten seconds.

mod dbus;
mod decide;
mod paths;
mod power;
mod pressure;
mod slow;
mod thermal;

use std::sync::Arc;
use std::time::Instant;

pub use paths::Paths;

use crate::board::Board;
use crate::scripted::{growth, power_mode, power_source};
use crate::signal::{SignalSource, SourceReport, SystemSignals};

use pressure::PressureWatch;
use slow::SlowWatch;

/// Linux's sources. Dropping it ends their threads.
pub struct LinuxSignals {
    board: Arc<Board>,
    pressure: Result<PressureWatch, String>,
    slow: Option<SlowWatch>,
    bus: dbus::BusWatch,
    has_power_supplies: bool,
    heat_source: String,
}

impl LinuxSignals {
    /// Listens to this machine.
    pub fn start() -> Self {
        Self::with_paths(Paths::default())
    }

    /// Listens to files elsewhere.
    pub fn with_paths(paths: Paths) -> Self {
        let board = Arc::new(Board::default());
        let files = paths.pressure_files();
        let pressure = PressureWatch::start(&files, &paths, &board);
        let zones = thermal::zones(&paths.thermal);
        let supplies = power::supplies(&paths.power_supply);
        let heat_source = match zones.len() {
            0 => "no thermal zone with trip points".to_owned(),
            n => format!(
                "{} ({n} thermal zones with trip points)",
                paths.thermal.display()
            ),
        };
        let has_power_supplies = !supplies.is_empty();
        if zones.is_empty() {
            tracing::info!("no thermal zone with trip points; heat counts as nominal");
        }
        let slow = SlowWatch::start(zones, supplies, &board);
        Self {
            bus: dbus::BusWatch::start(&paths, &board),
            pressure,
            slow,
            has_power_supplies,
            heat_source,
            board,
        }
    }
}

impl SignalSource for LinuxSignals {
    fn current(&self) -> SystemSignals {
        self.board.current()
    }

    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>) {
        self.board.watch(on_change);
    }

    fn report(&self) -> Vec<SourceReport> {
        let signals = self.current();
        let report = |signal: &str, source: String, value: String, is_available| SourceReport {
            signal: signal.to_owned(),
            source,
            value,
            is_available,
        };
        let bus = self.bus.found();
        let has_pressure = self.pressure.is_ok();
        let pressure_source = match &self.pressure {
            Ok(watch) => watch.describe().to_owned(),
            Err(why) => why.clone(),
        };
        let averages = self
            .pressure
            .as_ref()
            .ok()
            .and_then(PressureWatch::averages);
        let averages = averages.map_or(String::new(), |(some, full)| {
            format!(" (some {some:.1} %, full {full:.1} % over 10 s)")
        });
        let power = if bus.has_battery_state {
            "UPower over D-Bus".to_owned()
        } else if self.has_power_supplies {
            "power supplies in /sys".to_owned()
        } else {
            "neither UPower nor a power supply; counts as mains".to_owned()
        };
        let mode = match &bus.profiles_name {
            Some(name) => format!("{name} over D-Bus"),
            None => "no power profiles service; counts as normal".to_owned(),
        };
        vec![
            report(
                "memory pressure",
                pressure_source,
                format!("{}{averages}", signals.memory),
                has_pressure,
            ),
            report(
                "swap",
                "pages swapped out, read while there is pressure".to_owned(),
                growth(signals.is_thrashing).to_owned(),
                has_pressure,
            ),
            report(
                "heat",
                self.heat_source.clone(),
                signals.thermal.to_string(),
                self.slow.as_ref().is_some_and(SlowWatch::has_zones),
            ),
            report(
                "power mode",
                mode,
                power_mode(signals.is_low_power).to_owned(),
                bus.profiles_name.is_some(),
            ),
            report(
                "power source",
                power,
                power_source(signals.is_on_battery).to_owned(),
                bus.has_battery_state || self.has_power_supplies,
            ),
        ]
    }
}

/// Time since some moment of this process, for the deciders.
#[derive(Debug, Clone, Copy)]
struct Clock(Instant);

impl Clock {
    fn start() -> Self {
        Self(Instant::now())
    }

    fn now(self) -> std::time::Duration {
        self.0.elapsed()
    }
}
