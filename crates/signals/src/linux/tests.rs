use std::fs;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::pressure::tests::read_only;
use super::*;
use crate::signal::{MemoryPressure, ThermalState};

/// Returns paths in `root`, none of which exists, for a machine without a bus.
fn paths(root: &Path) -> Paths {
    Paths {
        proc: root.join("proc"),
        thermal: root.join("thermal"),
        power_supply: root.join("power_supply"),
        extra_pressure_files: Vec::new(),
        bus_address: Some(format!("unix:path={}", root.join("bus").display())),
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn without_sources_the_signals_are_normal_and_the_report_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let signals = LinuxSignals::with_paths(paths(folder.path()));
    assert_eq!(signals.current(), SystemSignals::default());
    let report = signals.report();
    assert_eq!(report.len(), 5);
    for source in report {
        assert!(!source.is_available, "{source:?}");
        assert!(!source.source.is_empty(), "{source:?}");
    }
}

#[test]
fn the_signals_are_known_from_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let paths = paths(folder.path());
    let zone = paths.thermal.join("thermal_zone0");
    write(&zone.join("temp"), "86000\n");
    write(&zone.join("trip_point_0_type"), "passive\n");
    write(&zone.join("trip_point_0_temp"), "85000\n");
    let battery = paths.power_supply.join("BAT0");
    write(&battery.join("type"), "Battery\n");
    write(&battery.join("status"), "Discharging\n");
    let pressure = "some avg10=8.00 avg60=0 avg300=0 total=1\n\
                    full avg10=1.00 avg60=0 avg300=0 total=1\n";
    fs::create_dir_all(paths.proc.join("pressure")).unwrap();
    let _file = read_only(&paths.proc.join("pressure/memory"), pressure);
    let signals = LinuxSignals::with_paths(paths);
    let expected = SystemSignals {
        memory: MemoryPressure::Warning,
        thermal: ThermalState::Serious,
        is_on_battery: true,
        ..SystemSignals::default()
    };
    assert_eq!(signals.current(), expected);
    let report = signals.report();
    let value = |index: usize| report[index].value.as_str();
    assert_eq!(value(0), "warning (some 8.0 %, full 1.0 % over 10 s)");
    assert_eq!((value(2), value(4)), ("serious", "battery"));
    assert!(report[2].is_available && report[4].is_available);
}

#[test]
fn nothing_is_called_back_after_the_drop() {
    let folder = tempfile::tempdir().unwrap();
    let signals = LinuxSignals::with_paths(paths(folder.path()));
    let (send, received) = channel();
    signals.watch(Box::new(move |signals| send.send(signals).unwrap()));
    drop(signals);
    let end = received.recv_timeout(Duration::from_secs(20));
    assert_eq!(end, Err(RecvTimeoutError::Disconnected));
}
