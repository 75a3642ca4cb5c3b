//! A source whose signals are set by code: for tests and for `transom doctor --simulate`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::report::rows;
use crate::shared_signals::SharedSignals;
use crate::signal::{MemoryPressure, SignalSource, SourceReport, SystemSignals, ThermalState};

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

/// An error about a word that is not a signal.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is not a signal; use memory=normal|warning|critical, \
     heat=nominal|fair|serious|critical, power=normal|low, battery, mains, thrashing"
)]
pub struct SimulationError {
    /// The word.
    pub word: String,
}

/// Parses signals from words, such as `memory=warning, power=low battery`. Signals without a word
/// have their default.
///
/// # Errors
/// [`SimulationError`] with the first word that is not a signal.
pub fn parse_simulation(text: &str) -> Result<SystemSignals, SimulationError> {
    let mut signals = SystemSignals::default();
    let words = text.split(|letter: char| letter == ',' || letter.is_whitespace());
    for word in words.filter(|word| !word.is_empty()) {
        match word.to_ascii_lowercase().as_str() {
            "memory=normal" => signals.memory = MemoryPressure::Normal,
            "memory=warning" => signals.memory = MemoryPressure::Warning,
            "memory=critical" => signals.memory = MemoryPressure::Critical,
            "heat=nominal" => signals.thermal = ThermalState::Nominal,
            "heat=fair" => signals.thermal = ThermalState::Fair,
            "heat=serious" => signals.thermal = ThermalState::Serious,
            "heat=critical" => signals.thermal = ThermalState::Critical,
            "power=normal" => signals.is_low_power = false,
            "power=low" => signals.is_low_power = true,
            "battery" => signals.is_on_battery = true,
            "mains" => signals.is_on_battery = false,
            "thrashing" => signals.is_thrashing = true,
            _ => {
                return Err(SimulationError {
                    word: word.to_owned(),
                });
            }
        }
    }
    Ok(signals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_parsed() {
        let signals = parse_simulation("memory=Warning,heat=serious  power=low battery thrashing");
        let expected = SystemSignals {
            memory: MemoryPressure::Warning,
            is_thrashing: true,
            thermal: ThermalState::Serious,
            is_low_power: true,
            is_on_battery: true,
        };
        assert_eq!(signals, Ok(expected));
        assert_eq!(parse_simulation(" , "), Ok(SystemSignals::default()));
    }

    #[test]
    fn the_error_names_the_unknown_word() {
        let message = parse_simulation("battery memory=high")
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("\"memory=high\" is not a signal"),
            "{message}"
        );
    }

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
