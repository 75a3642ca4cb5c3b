//! Linux's own signals: pressure stall information, thermal zones, power supplies, and the desktop's
//! power services over D-Bus. They go to one board.
//!
//! The pressure thread sleeps in `poll` until the kernel speaks, and ticks only while there is
//! pressure. Heat and power supplies have no notices, so a second thread reads them, if they exist
//! at all, every ten seconds.

mod dbus;
mod decide;
pub(crate) mod keep_awake;
mod paths;
mod power;
mod pressure;
mod slow;
mod thermal;

use std::sync::Arc;
use std::time::Instant;

pub use paths::Paths;

use crate::board::Board;
use crate::report::{Sources, rows};
use crate::signal::{SignalSource, SourceReport, SystemSignals};

use pressure::PressureWatch;
use slow::SlowWatch;

/// Linux's sources. Dropping it ends their threads.
pub struct LinuxSignals {
    board: Arc<Board>,
    pressure: Result<PressureWatch, String>,
    bus: dbus::BusWatch,
    #[expect(dead_code, reason = "held for what its drop does")]
    slow: Option<SlowWatch>,
    has_power_supplies: bool,
    /// Where heat is read, or why it is not.
    heat: Result<String, String>,
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
        let heat = match zones.len() {
            0 => Err("no thermal zone with trip points".to_owned()),
            n => Ok(format!(
                "{} ({n} thermal zones with trip points)",
                paths.thermal.display()
            )),
        };
        if let Err(why) = &heat {
            tracing::info!(why, "heat counts as nominal");
        }
        let has_power_supplies = !supplies.is_empty();
        let bus = dbus::BusWatch::start(&paths, &board);
        Self {
            slow: SlowWatch::start(zones, supplies, bus.bus(), &board),
            bus,
            pressure,
            has_power_supplies,
            heat,
            board,
        }
    }
}

impl Drop for LinuxSignals {
    fn drop(&mut self) {
        // Nobody hears of what the sources still say while they end.
        self.board.end();
    }
}

impl SignalSource for LinuxSignals {
    fn current(&self) -> SystemSignals {
        self.board.current()
    }

    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>) {
        self.board.watch(on_change);
    }

    /// Waits for the services on the bus, for half a second at most.
    fn report(&self) -> Vec<SourceReport> {
        let bus = self.bus.bus().found_in_time();
        let sources = Sources {
            memory: self.pressure_source(),
            swap: self
                .pressure_source()
                .map(|_| "pages swapped out, read while there is pressure".to_owned()),
            heat: self.heat.clone(),
            power_mode: match &bus.profiles_name {
                Some(name) => Ok(format!("{name} over D-Bus")),
                None => Err("no power profiles service".to_owned()),
            },
            power_source: if bus.has_battery_state {
                Ok("UPower over D-Bus".to_owned())
            } else if self.has_power_supplies {
                Ok("power supplies in /sys".to_owned())
            } else {
                Err("neither UPower nor a power supply".to_owned())
            },
        };
        rows(&self.current(), sources, &self.averages())
    }
}

impl LinuxSignals {
    fn pressure_source(&self) -> Result<String, String> {
        let described = self.pressure.as_ref().map(PressureWatch::describe);
        described.map(str::to_owned).map_err(String::clone)
    }

    /// The averages in words, if they can be read.
    fn averages(&self) -> String {
        let watch = self.pressure.as_ref().ok();
        let averages = watch.and_then(PressureWatch::averages);
        averages.map_or(String::new(), |(some, full)| {
            format!(" (some {some:.1} %, full {full:.1} % over 10 s)")
        })
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

#[cfg(test)]
mod tests;
