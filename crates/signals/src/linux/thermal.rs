//! The thermal state from the thermal zones in `/sys/class/thermal`
//! (<https://docs.kernel.org/driver-api/thermal/sysfs-api.html>).

use std::fs;
use std::path::{Path, PathBuf};

use super::levels::{TripPoints, heat};
use crate::signal::ThermalState;

/// Trip points of a zone that are read.
const MAX_TRIPS: usize = 16;

/// A sensor with trip points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Zone {
    temperature: PathBuf,
    trips: TripPoints,
    /// The state of this zone alone, because a hot neighbor must not affect its hysteresis.
    state: ThermalState,
}

/// Returns the zones with trip points. Without them, the temperature has no meaning.
pub(super) fn zones(folder: &Path) -> Vec<Zone> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut zones: Vec<Zone> = entries
        .filter_map(|entry| zone(&entry.ok()?.path()))
        .collect();
    zones.sort_by(|a, b| a.temperature.cmp(&b.temperature));
    zones
}

fn zone(folder: &Path) -> Option<Zone> {
    let name = folder.file_name()?.to_str()?;
    if !name.starts_with("thermal_zone") {
        return None;
    }
    let mut trips = TripPoints::default();
    for index in 0..MAX_TRIPS {
        let Some(temperature) = number(&folder.join(format!("trip_point_{index}_temp"))) else {
            continue;
        };
        // Zero and less mean that the point is disabled.
        if temperature <= 0 {
            continue;
        }
        let kind = fs::read_to_string(folder.join(format!("trip_point_{index}_type")));
        let point = match kind.unwrap_or_default().trim() {
            "passive" => &mut trips.passive,
            "hot" => &mut trips.hot,
            "critical" => &mut trips.critical,
            _ => continue,
        };
        *point = Some(point.map_or(temperature, |least| least.min(temperature)));
    }
    let temperature = folder.join("temp");
    let is_usable = trips != TripPoints::default() && number(&temperature).is_some();
    is_usable.then_some(Zone {
        temperature,
        trips,
        state: ThermalState::default(),
    })
}

/// Returns the state of the hottest zone. Zones that cannot be read are skipped.
pub(super) fn hottest(zones: &mut [Zone]) -> ThermalState {
    let states = zones.iter_mut().filter_map(|zone| {
        let temperature = number(&zone.temperature)?;
        zone.state = heat(temperature, zone.trips, zone.state);
        Some(zone.state)
    });
    states.max().unwrap_or_default()
}

fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_zone(folder: &Path, name: &str, temperature: &str, trips: &[(&str, &str)]) {
        let zone = folder.join(name);
        fs::create_dir_all(&zone).unwrap();
        fs::write(zone.join("temp"), temperature).unwrap();
        for (index, (kind, temperature)) in trips.iter().enumerate() {
            fs::write(zone.join(format!("trip_point_{index}_type")), kind).unwrap();
            fs::write(zone.join(format!("trip_point_{index}_temp")), temperature).unwrap();
        }
    }

    #[test]
    fn the_hottest_zone_with_trip_points_decides() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        write_zone(
            folder,
            "thermal_zone0",
            "40000\n",
            &[("critical\n", "110000\n")],
        );
        let trips = [
            ("active\n", "50000\n"),
            ("passive\n", "80000\n"),
            ("hot\n", "0\n"),
        ];
        write_zone(folder, "thermal_zone1", "81000\n", &trips);
        write_zone(folder, "thermal_zone2", "99000\n", &[]);
        write_zone(
            folder,
            "cooling_device0",
            "99000\n",
            &[("passive\n", "10\n")],
        );
        let mut zones = zones(folder);
        assert_eq!(zones.len(), 2);
        assert_eq!(hottest(&mut zones), ThermalState::Serious);
        fs::write(folder.join("thermal_zone1/temp"), "60000\n").unwrap();
        assert_eq!(hottest(&mut zones), ThermalState::Nominal);
        fs::write(folder.join("thermal_zone1/temp"), "no number").unwrap();
        assert_eq!(hottest(&mut zones), ThermalState::Nominal);
    }

    #[test]
    fn hysteresis_applies_to_each_zone_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let trips = [("passive\n", "80000\n")];
        write_zone(folder, "thermal_zone0", "82000\n", &trips);
        write_zone(folder, "thermal_zone1", "78000\n", &trips);
        let mut zones = zones(folder);
        assert_eq!(hottest(&mut zones), ThermalState::Serious);
        fs::write(folder.join("thermal_zone0/temp"), "60000\n").unwrap();
        assert_eq!(hottest(&mut zones), ThermalState::Fair);
    }

    #[test]
    fn a_machine_without_zones_is_not_hot() {
        assert!(zones(Path::new("/nonexistent")).is_empty());
        assert_eq!(hottest(&mut []), ThermalState::Nominal);
    }
}
