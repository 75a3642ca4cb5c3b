//! Mains or battery power from `/sys/class/power_supply`, for machines without UPower.

use std::fs;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Supply {
    /// The file that says whether it is plugged in.
    Mains(PathBuf),
    /// The file that says whether it is discharging.
    Battery(PathBuf),
}

/// Returns the power supplies of the machine, without batteries of mice and keyboards.
pub(super) fn supplies(folder: &Path) -> Vec<Supply> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| supply(&entry.ok()?.path()))
        .collect()
}

fn supply(folder: &Path) -> Option<Supply> {
    let text = |name: &str| fs::read_to_string(folder.join(name)).ok();
    if text("scope").is_some_and(|scope| scope.trim() == "Device") {
        return None;
    }
    match text("type")?.trim() {
        "Mains" | "USB" => Some(Supply::Mains(folder.join("online"))),
        "Battery" => Some(Supply::Battery(folder.join("status"))),
        _ => None,
    }
}

/// Returns true if a battery is discharging and nothing is plugged in.
pub(super) fn is_on_battery(supplies: &[Supply]) -> bool {
    let contains = |path: &Path, expected: &str| {
        fs::read_to_string(path).is_ok_and(|text| text.trim() == expected)
    };
    let is_plugged_in = supplies
        .iter()
        .any(|supply| matches!(supply, Supply::Mains(path) if contains(path, "1")));
    let is_discharging = supplies
        .iter()
        .any(|supply| matches!(supply, Supply::Battery(path) if contains(path, "Discharging")));
    is_discharging && !is_plugged_in
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, supply: &str, file: &str, text: &str) {
        fs::create_dir_all(folder.join(supply)).unwrap();
        fs::write(folder.join(supply).join(file), text).unwrap();
    }

    #[test]
    fn a_battery_counts_only_while_it_discharges_and_nothing_is_plugged_in() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write(folder, "AC", "type", "Mains\n");
        write(folder, "AC", "online", "1\n");
        write(folder, "BAT0", "type", "Battery\n");
        write(folder, "BAT0", "status", "Discharging\n");
        write(folder, "mouse", "type", "Battery\n");
        write(folder, "mouse", "scope", "Device\n");
        write(folder, "mouse", "status", "Discharging\n");
        let supplies = supplies(folder);
        assert_eq!(supplies.len(), 2);
        assert!(!is_on_battery(&supplies));
        write(folder, "AC", "online", "0\n");
        assert!(is_on_battery(&supplies));
        write(folder, "BAT0", "status", "Full\n");
        assert!(!is_on_battery(&supplies));
    }

    #[test]
    fn a_machine_without_supplies_is_on_mains() {
        assert!(supplies(Path::new("/nonexistent")).is_empty());
        assert!(!is_on_battery(&[]));
    }
}
