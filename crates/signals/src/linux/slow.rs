//! What must be read again and again, because Linux gives no notice of it: heat and power supplies.
//! A machine that has neither gets no thread.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::power::{Supply, is_on_battery};
use super::thermal::{Zone, hottest};
use crate::board::Board;
use crate::urgency::{Urgency, set_thread_urgency};

/// Heat and batteries change slowly.
const PERIOD: Duration = Duration::from_secs(10);

/// The running watch. Dropping it ends its thread.
pub(super) struct SlowWatch {
    has_zones: bool,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl SlowWatch {
    /// Watches what there is; `None` if that is nothing.
    pub(super) fn start(
        zones: Vec<Zone>,
        supplies: Vec<Supply>,
        board: &Arc<Board>,
    ) -> Option<Self> {
        if zones.is_empty() && supplies.is_empty() {
            return None;
        }
        let has_zones = !zones.is_empty();
        let board = board.clone();
        let (stop, stopped) = channel();
        // Read once before anybody asks.
        read(&zones, &supplies, &board);
        let thread = std::thread::Builder::new()
            .name("heat-and-power".to_owned())
            .spawn(move || run(&zones, &supplies, &board, &stopped))
            .map_err(|error| tracing::warn!(%error, "heat and power are not watched"))
            .ok()?;
        Some(Self {
            has_zones,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Whether heat is among what is watched.
    pub(super) fn has_zones(&self) -> bool {
        self.has_zones
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

fn run(zones: &[Zone], supplies: &[Supply], board: &Board, stopped: &Receiver<()>) {
    set_thread_urgency(Urgency::Utility);
    while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
        read(zones, supplies, board);
    }
}

fn read(zones: &[Zone], supplies: &[Supply], board: &Board) {
    let heat = hottest(zones, board.current().thermal);
    let battery = (!supplies.is_empty()).then(|| is_on_battery(supplies));
    board.update(|signals| {
        signals.thermal = heat;
        // Without supplies in /sys the bus may know.
        signals.is_on_battery = battery.unwrap_or(signals.is_on_battery);
    });
}
