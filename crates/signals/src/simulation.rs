//! Parses signals from text, for `transom doctor --simulate`.

use crate::signal::{MemoryPressure, SystemSignals, ThermalState};

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
}
