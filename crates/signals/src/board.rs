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

    /// Writes a part, and tells the watcher if that made a difference. The watcher is called under
    /// the lock, so that what it hears last is what holds.
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
