//! What the user's settings mean for the supervisor.
//!
//! Rule: a setting that is not made leaves the supervisor's own default, which goes by the machine.

use std::time::Duration;

use transom_store::Settings;
use transom_supervisor::Tuning;

/// The supervisor's tuning under these settings.
pub(crate) fn of(settings: &Settings) -> Tuning {
    let behaviour = &settings.behaviour;
    let seconds = behaviour.idle_unload_seconds.map(u64::from);
    Tuning {
        idle_unload: seconds.map(Duration::from_secs),
        keep_loaded: behaviour.keep_loaded,
        memory_budget_bytes: behaviour.memory_budget_bytes,
        ..Tuning::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transom_store::Behaviour;

    #[test]
    fn what_is_not_chosen_goes_by_the_machine() {
        assert_eq!(of(&Settings::default()), Tuning::default());
    }

    #[test]
    fn what_is_chosen_is_passed_on() {
        let settings = Settings {
            behaviour: Behaviour {
                idle_unload_seconds: Some(60),
                keep_loaded: true,
                memory_budget_bytes: Some(1 << 30),
            },
            ..Settings::default()
        };
        let tuning = of(&settings);
        assert_eq!(tuning.idle_unload, Some(Duration::from_secs(60)));
        assert!(tuning.keep_loaded);
        assert_eq!(tuning.memory_budget_bytes, Some(1 << 30));
    }
}
