//! Real memory pressure, in a control group with a limit: the kernel wakes the watch, and silence
//! after it means normal again.
#![cfg(all(target_os = "linux", feature = "test-support"))]

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use transom_signals::test_support::{Hog, LimitedGroup};
use transom_signals::{LinuxSignals, MemoryPressure, Paths, SignalSource};

const LIMIT_BYTES: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(40);

/// The hog's own work; nothing unless the process was started to be one.
#[test]
fn hog() {
    Hog::work_if_asked();
}

fn wait_until(heard: &Receiver<MemoryPressure>, is_met: impl Fn(MemoryPressure) -> bool) {
    loop {
        let level = heard
            .recv_timeout(PATIENCE)
            .expect("the level changes in time");
        if is_met(level) {
            return;
        }
    }
}

/// D075, on Linux: pressure that somebody else makes is heard, and so is its end (D079).
#[test]
fn pressure_is_heard_and_so_is_its_end() {
    let Some(group) = LimitedGroup::new_or_skip("signals", LIMIT_BYTES) else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let signals = LinuxSignals::with_paths(Paths {
        more_pressure: vec![group.pressure_file()],
        ..Paths::default()
    });
    let (send, heard) = channel();
    signals.watch(Box::new(move |signals| {
        // The test may be over before the last change.
        let _ = send.send(signals.memory);
    }));
    let hog = Hog::start(&group, &folder.path().join("file"), 4 * LIMIT_BYTES).unwrap();
    wait_until(&heard, |level| level != MemoryPressure::Normal);
    let report = &signals.report()[0];
    assert!(report.is_available, "{report:?}");
    assert!(report.source.contains("triggers"), "{report:?}");
    drop(hog);
    wait_until(&heard, |level| level == MemoryPressure::Normal);
}
