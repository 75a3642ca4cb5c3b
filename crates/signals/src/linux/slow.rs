//! What must be read again and again, because Linux gives no notice of it: heat and power supplies.
//! A machine that has neither gets no thread.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::dbus::Bus;
use super::power::{Supply, is_on_battery};
use super::thermal::{Zone, hottest};
use crate::board::Board;
use crate::urgency::{Urgency, set_thread_urgency};

/// Heat and batteries change slowly.
const PERIOD: Duration = Duration::from_secs(10);

/// The running watch. Dropping it ends its thread.
pub(super) struct SlowWatch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SlowWatch {
    /// Watches what there is; `None` if that is nothing.
    pub(super) fn start(
        zones: Vec<Zone>,
        supplies: Vec<Supply>,
        bus: &Bus,
        board: &Arc<Board>,
    ) -> Option<Self> {
        if zones.is_empty() && supplies.is_empty() {
            return None;
        }
        let mut readings = Readings {
            zones,
            supplies,
            bus: bus.clone(),
            board: board.clone(),
        };
        // Once before anybody asks.
        readings.take();
        let (stop, stopped) = channel::<()>();
        let thread = std::thread::Builder::new()
            .name("heat-and-power".to_owned())
            .spawn(move || {
                set_thread_urgency(Urgency::Utility);
                while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                    readings.take();
                }
            })
            .map_err(|error| tracing::warn!(%error, "heat and power are not watched"))
            .ok()?;
        Some(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for SlowWatch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Readings {
    zones: Vec<Zone>,
    supplies: Vec<Supply>,
    bus: Bus,
    board: Arc<Board>,
}

impl Readings {
    fn take(&mut self) {
        let heat = hottest(&mut self.zones);
        let battery = (!self.supplies.is_empty()).then(|| is_on_battery(&self.supplies));
        self.board.update(|signals| {
            signals.thermal = heat;
            // One of the two must have the say. UPower knows more, and notes that it is there
            // before it first writes: asked under the board's lock, this cannot undo its word.
            if let Some(is_on_battery) = battery
                && !self.bus.found().has_battery_state
            {
                signals.is_on_battery = is_on_battery;
            }
        });
    }
}
