//! The current [`SystemSignals`], which all sources update and one watcher follows.

use parking_lot::Mutex;

use crate::signal::SystemSignals;

type OnChange = Box<dyn Fn(SystemSignals) + Send + Sync>;

/// The current signals of all sources, and the watcher.
#[derive(Default)]
pub(crate) struct SharedSignals {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    signals: SystemSignals,
    on_change: Option<OnChange>,
}

impl SharedSignals {
    pub(crate) fn current(&self) -> SystemSignals {
        self.state.lock().signals
    }

    pub(crate) fn watch(&self, on_change: OnChange) {
        self.state.lock().on_change = Some(on_change);
    }

    /// Removes the watcher. Sources that end slowly may still update the signals.
    pub(crate) fn remove_watcher(&self) {
        // Dropped without the lock, because the drop of the callback may need it.
        let on_change = self.state.lock().on_change.take();
        drop(on_change);
    }

    /// Changes the signals and calls the watcher if they differ. The watcher is called under the
    /// lock, so its last value is the current one. A source that reads its value inside `change`
    /// cannot overwrite a newer value with an older one.
    pub(crate) fn update(&self, change: impl FnOnce(&mut SystemSignals)) {
        let mut state = self.state.lock();
        let before = state.signals;
        change(&mut state.signals);
        if state.signals != before {
            tracing::info!(signals = ?state.signals, "the system signals changed");
            if let Some(on_change) = &state.on_change {
                on_change(state.signals);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_watcher_gets_all_signals_after_each_change_until_it_is_removed() {
        let shared = Arc::new(SharedSignals::default());
        let (send, received) = channel();
        shared.watch(Box::new(move |signals| send.send(signals).unwrap()));
        shared.update(|signals| signals.is_on_battery = true);
        shared.update(|signals| signals.is_on_battery = true);
        shared.update(|signals| signals.is_low_power = true);
        shared.remove_watcher();
        shared.update(|signals| signals.is_on_battery = false);
        let battery = SystemSignals {
            is_on_battery: true,
            ..SystemSignals::default()
        };
        let both = SystemSignals {
            is_low_power: true,
            ..battery
        };
        assert_eq!(received.iter().collect::<Vec<_>>(), [battery, both]);
        assert!(!shared.current().is_on_battery);
    }
}
