//! Where all sources write their part, and one watcher hears of the whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::signal::SystemSignals;

type OnChange = Box<dyn Fn(SystemSignals) + Send + Sync>;

/// The latest of every part.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    signals: SystemSignals,
    on_change: Option<OnChange>,
}

impl Board {
    /// The whole as it is now.
    pub(crate) fn current(&self) -> SystemSignals {
        self.state().signals
    }

    /// Replaces the watcher.
    pub(crate) fn watch(&self, on_change: OnChange) {
        self.state().on_change = Some(on_change);
    }

    /// Forgets the watcher. Sources that are slow to end may still write; nobody hears of it.
    pub(crate) fn end(&self) {
        // Dropped without the lock: what the watcher holds may ask for it.
        let on_change = self.state().on_change.take();
        drop(on_change);
    }

    /// Writes a part, and tells the watcher if that made a difference. The watcher is called under
    /// the lock, so that what it hears last is what holds; a source that reads inside `change`
    /// cannot be overtaken by an older reading of its own.
    pub(crate) fn update(&self, change: impl FnOnce(&mut SystemSignals)) {
        let mut state = self.state();
        let before = state.signals;
        change(&mut state.signals);
        if state.signals != before {
            tracing::info!(signals = ?state.signals, "the machine's state changed");
            if let Some(on_change) = &state.on_change {
                on_change(state.signals);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn the_watcher_hears_the_whole_after_each_change_and_nothing_after_the_end() {
        let board = Arc::new(Board::default());
        let (send, heard) = channel();
        board.watch(Box::new(move |signals| send.send(signals).unwrap()));
        board.update(|signals| signals.is_on_battery = true);
        board.update(|signals| signals.is_on_battery = true);
        board.update(|signals| signals.is_low_power = true);
        board.end();
        board.update(|signals| signals.is_on_battery = false);
        let battery = SystemSignals {
            is_on_battery: true,
            ..SystemSignals::default()
        };
        let both = SystemSignals {
            is_low_power: true,
            ..battery
        };
        assert_eq!(heard.iter().collect::<Vec<_>>(), [battery, both]);
        assert!(!board.current().is_on_battery);
    }
}
