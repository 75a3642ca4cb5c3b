//! Signals that somebody sets: for tests, and for showing what would happen.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::board::Board;
use crate::report::{Sources, rows};
use crate::signal::{MemoryPressure, SignalSource, SourceReport, SystemSignals, ThermalState};

/// A source that says what it was told to. Clones share one state.
#[derive(Clone, Default)]
pub struct ScriptedSignals {
    board: Arc<Board>,
    is_watchful: Arc<AtomicBool>,
    unnoticed: Arc<Mutex<Option<SystemSignals>>>,
}

impl ScriptedSignals {
    /// A source that says `signals` until told otherwise.
    pub fn new(signals: SystemSignals) -> Self {
        let source = Self::default();
        source.set(signals);
        source
    }

    /// Says something else, and tells whoever watches if it is news.
    pub fn set(&self, signals: SystemSignals) {
        self.board.update(|present| *present = signals);
    }

    /// Changes to `signals` without notice: only [`SignalSource::look_again`] finds them.
    pub fn set_unnoticed(&self, signals: SystemSignals) {
        *self.unnoticed() = Some(signals);
    }

    fn unnoticed(&self) -> MutexGuard<'_, Option<SystemSignals>> {
        self.unnoticed
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what [`SignalSource::set_watchful`] was last called with.
    pub fn is_watchful(&self) -> bool {
        self.is_watchful.load(Ordering::SeqCst)
    }
}

impl SignalSource for ScriptedSignals {
    fn current(&self) -> SystemSignals {
        self.board.current()
    }

    fn watch(&self, on_change: Box<dyn Fn(SystemSignals) + Send + Sync>) {
        self.board.watch(on_change);
    }

    fn set_watchful(&self, is_watchful: bool) {
        self.is_watchful.store(is_watchful, Ordering::SeqCst);
    }

    fn look_again(&self) {
        let found = self.unnoticed().take();
        if let Some(signals) = found {
            self.set(signals);
        }
    }

    fn report(&self) -> Vec<SourceReport> {
        let simulated = || Ok("simulated".to_owned());
        let sources = Sources {
            memory: simulated(),
            swap: simulated(),
            heat: simulated(),
            power_mode: simulated(),
            power_source: simulated(),
        };
        rows(&self.current(), sources, "")
    }
}

/// A word of a simulation that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is no signal; say memory=normal|warning|critical, \
     heat=nominal|fair|serious|critical, power=normal|low, battery, mains, thrashing"
)]
pub struct SimulationError {
    /// The word.
    pub word: String,
}

/// Reads signals from words, such as `memory=warning, power=low battery`; what is not named is as
/// on a machine with nothing to complain of.
///
/// # Errors
/// [`SimulationError`] with the first word that means nothing.
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
    fn words_become_signals() {
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
    fn a_word_that_means_nothing_is_named() {
        let message = parse_simulation("battery memory=high")
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with("\"memory=high\" is no signal"),
            "{message}"
        );
    }

    #[test]
    fn whoever_watches_hears_only_news() {
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
