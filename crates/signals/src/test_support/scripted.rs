//! A source whose signals are set by code.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::report::rows;
use crate::shared_signals::SharedSignals;
use crate::signal::{SignalSource, SourceReport, SystemSignals};

/// A source whose signals are set with [`ScriptedSignals::set`]. Clones share one state.
#[derive(Clone, Default)]
pub struct ScriptedSignals {
    shared: Arc<SharedSignals>,
    is_polling: Arc<AtomicBool>,
    pending: Arc<Mutex<Option<SystemSignals>>>,
}

impl ScriptedSignals {
    /// Creates a source with these signals.
    pub fn new(signals: SystemSignals) -> Self {
        let source = Self::default();
        source.set(signals);
        source
    }

    /// Sets the signals, and calls the watcher if they differ.
    pub fn set(&self, signals: SystemSignals) {
        self.shared.update(|current| *current = signals);
    }

    /// Sets signals that only take effect at the next [`SignalSource::refresh`].
    pub fn set_silently(&self, signals: SystemSignals) {
        *self.pending() = Some(signals);
    }

    fn pending(&self) -> MutexGuard<'_, Option<SystemSignals>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the argument of the last [`SignalSource::set_polling`].
    pub fn is_polling(&self) -> bool {
        self.is_polling.load(Ordering::SeqCst)
    }
}

impl SignalSource for ScriptedSignals {
    fn current(&self) -> SystemSignals {
        self.shared.current()
    }

    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>) {
        self.shared.watch(on_change);
    }

    fn set_polling(&self, is_polling: bool) {
        self.is_polling.store(is_polling, Ordering::SeqCst);
    }

    fn refresh(&self) {
        let pending = self.pending().take();
        if let Some(signals) = pending {
            self.set(signals);
        }
    }

    fn report(&self) -> Vec<SourceReport> {
        let simulated = std::array::from_fn(|_| Ok("simulated".to_owned()));
        rows(&self.current(), simulated, "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse_simulation;

    #[test]
    fn the_watcher_is_called_only_for_changes() {
        let source = ScriptedSignals::default();
        let (send, receive) = std::sync::mpsc::channel();
        source.watch(Box::new(move |signals| send.send(signals).unwrap()));
        let hot = parse_simulation("heat=fair").unwrap();
        source.set(SystemSignals::default());
        source.set(hot);
        source.set(hot);
        drop(source);
        assert_eq!(receive.iter().collect::<Vec<_>>(), [hot]);
    }
}
