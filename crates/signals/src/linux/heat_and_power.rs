//! Polls thermal zones and power supplies, because Linux has no notifications for them. On a
//! machine with neither there is no thread.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use super::StoppableThread;
use super::dbus::Bus;
use super::power::{Supply, is_on_battery};
use super::thermal::{Zone, hottest};
use crate::shared_signals::SharedSignals;
use crate::thread_qos::{ThreadQos, set_thread_qos};

/// Heat and batteries change slowly.
const POLL_INTERVAL: Duration = Duration::from_secs(10);

/// Starts a thread, which ends when the result is dropped; `None` if there is nothing to poll.
pub(super) fn start(
    mut zones: Vec<Zone>,
    supplies: Vec<Supply>,
    bus: &Bus,
    shared: &Arc<SharedSignals>,
) -> Option<StoppableThread<Sender<()>>> {
    if zones.is_empty() && supplies.is_empty() {
        return None;
    }
    let (bus, shared) = (bus.clone(), shared.clone());
    let mut read = move || {
        let heat = hottest(&mut zones);
        let battery = (!supplies.is_empty()).then(|| is_on_battery(&supplies));
        shared.update(|signals| {
            signals.thermal = heat;
            // UPower takes precedence. It is recorded as a service before it first sets the signal,
            // and this check is made under the lock of the signals, so it cannot overwrite UPower's
            // value.
            if let Some(is_on_battery) = battery
                && !bus.sources().has_battery_state
            {
                signals.is_on_battery = is_on_battery;
            }
        });
    };
    // Once at the start, so the first value is correct.
    read();
    let (stop, stopped) = channel::<()>();
    let thread = StoppableThread::spawn("heat-and-power", stop, move || {
        set_thread_qos(ThreadQos::Utility);
        while stopped.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            read();
        }
    });
    thread
        .inspect_err(|error| tracing::warn!(%error, "heat and power are not watched"))
        .ok()
}
