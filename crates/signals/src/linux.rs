//! The signal sources on Linux: pressure stall information, thermal zones, power supplies, and the
//! power services of the desktop over D-Bus.
//!
//! The pressure thread sleeps in `poll` until the kernel wakes it, and polls only under pressure.
//! Thermal zones and power supplies have no notifications, so a second thread reads them every ten
//! seconds, if they exist.

mod dbus;
mod heat_and_power;
pub(crate) mod keep_awake;
mod levels;
mod paths;
mod power;
mod pressure;
mod thermal;

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::{self, JoinHandle};

pub use paths::Paths;

use crate::report::rows;
use crate::shared_signals::SharedSignals;
use crate::signal::{SignalSource, SourceReport, SystemSignals};

use pressure::PressureWatch;

/// The signal sources on Linux. Dropping it ends their threads.
pub struct LinuxSignals {
    shared: Arc<SharedSignals>,
    pressure: Result<PressureWatch, String>,
    bus: dbus::Bus,
    #[expect(dead_code, reason = "its drop ends the thread")]
    heat_and_power: Option<StoppableThread<Sender<()>>>,
    has_power_supplies: bool,
    /// The source of the thermal state, or why there is none.
    heat: Result<String, String>,
}

impl LinuxSignals {
    /// Starts the sources, which read these paths.
    pub fn with_paths(paths: Paths) -> Self {
        let shared = Arc::new(SharedSignals::default());
        let files = paths.pressure_files();
        let pressure = PressureWatch::start(&files, &paths, &shared);
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
            tracing::info!(why, "the thermal state is unknown and counts as nominal");
        }
        let has_power_supplies = !supplies.is_empty();
        let bus = dbus::Bus::watch(&paths, &shared);
        Self {
            heat_and_power: heat_and_power::start(zones, supplies, &bus, &shared),
            bus,
            pressure,
            has_power_supplies,
            heat,
            shared,
        }
    }
}

impl Drop for LinuxSignals {
    fn drop(&mut self) {
        // The sources may still report while they end.
        self.shared.remove_watcher();
        self.bus.close();
    }
}

impl SignalSource for LinuxSignals {
    fn current(&self) -> SystemSignals {
        self.shared.current()
    }

    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>) {
        self.shared.watch(on_change);
    }

    /// Waits for the services on the bus, at most half a second.
    fn report(&self) -> Vec<SourceReport> {
        let bus = self.bus.wait_for_sources();
        let described = self.pressure.as_ref().map(PressureWatch::describe);
        let memory = described.map(str::to_owned).map_err(String::clone);
        let swap = memory
            .clone()
            .map(|_| "pages swapped out, read while there is pressure".to_owned());
        let power_mode = match &bus.profiles_name {
            Some(name) => Ok(format!("{name} over D-Bus")),
            None => Err("no power profiles service".to_owned()),
        };
        let power_source = if bus.has_battery_state {
            Ok("UPower over D-Bus".to_owned())
        } else if self.has_power_supplies {
            Ok("power supplies in /sys".to_owned())
        } else {
            Err("neither UPower nor a power supply".to_owned())
        };
        let sources = [memory, swap, self.heat.clone(), power_mode, power_source];
        rows(&self.current(), sources, &self.averages())
    }
}

impl LinuxSignals {
    /// Returns the averages as text, or nothing if they cannot be read.
    fn averages(&self) -> String {
        let watch = self.pressure.as_ref().ok();
        let averages = watch.and_then(PressureWatch::averages);
        averages.map_or(String::new(), |(some, full)| {
            format!(" (some {some:.1} %, full {full:.1} % over 10 s)")
        })
    }
}

/// A thread that ends when `stop` is dropped, and that this joins when it is dropped.
struct StoppableThread<S> {
    stop: Option<S>,
    thread: Option<JoinHandle<()>>,
}

impl<S> StoppableThread<S> {
    fn spawn(name: &str, stop: S, work: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl<S> Drop for StoppableThread<S> {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
