//! The memory budget of this machine, and what memory pressure leaves of it.

use transom_fit::Budget;
use transom_signals::{Hardware, MemoryPressure};

use crate::governor::Tuning;

/// Returns the budget of this machine under these settings.
pub fn of_machine(hardware: &Hardware, tuning: &Tuning) -> Budget {
    Budget::new(
        hardware.memory_bytes,
        hardware.working_set_bytes,
        tuning.memory_budget_bytes,
    )
}

/// Returns the bytes of `budget` that models may use together: all of it, three quarters of it at
/// warning, half at critical.
pub fn bytes_under(pressure: MemoryPressure, budget: &Budget) -> u64 {
    let quarter = budget.total_bytes / 4;
    match pressure {
        MemoryPressure::Normal => budget.total_bytes,
        MemoryPressure::Warning => budget.total_bytes - quarter,
        MemoryPressure::Critical => budget.total_bytes - 2 * quarter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_lowers_the_budget() {
        let budget = Budget::new(16 << 30, None, None);
        let pressures = [
            MemoryPressure::Normal,
            MemoryPressure::Warning,
            MemoryPressure::Critical,
        ];
        let bytes = pressures.map(|pressure| bytes_under(pressure, &budget));
        assert_eq!(bytes, [12 << 30, 9 << 30, 6 << 30]);
    }
}
