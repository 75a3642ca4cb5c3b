//! Real memory pressure in a control group with a limit: the kernel notifies the watch, and the
//! level becomes normal when notifications stop.
#![cfg(all(target_os = "linux", feature = "test-support"))]

use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use transom_signals::test_support::{LimitedCgroup, MemoryPressureProcess};
use transom_signals::{LinuxSignals, MemoryPressure, Paths, SignalSource};

const LIMIT_BYTES: u64 = 16 << 20;
const TIMEOUT: Duration = Duration::from_secs(40);

/// Does nothing unless [`MemoryPressureProcess::start`] started this process.
#[test]
fn memory_pressure_process() {
    MemoryPressureProcess::run_if_started();
}

fn wait_until(received: &Receiver<MemoryPressure>, is_met: impl Fn(MemoryPressure) -> bool) {
    loop {
        let level = received
            .recv_timeout(TIMEOUT)
            .expect("the level changes in time");
        if is_met(level) {
            return;
        }
    }
}

/// Pressure by another process is reported, and so is its end.
#[test]
fn pressure_and_its_end_are_reported() {
    let Some(group) = LimitedCgroup::new_or_skip("signals", LIMIT_BYTES) else {
        return;
    };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let signals = LinuxSignals::with_paths(Paths {
        extra_pressure_files: vec![group.pressure_file()],
        ..Paths::default()
    });
    let (send, received) = channel();
    signals.watch(Box::new(move |signals| {
        // Fails if the test ends before the last change.
        let _ = send.send(signals.memory);
    }));
    let process =
        MemoryPressureProcess::start(&group, &folder.path().join("file"), 4 * LIMIT_BYTES).unwrap();
    wait_until(&received, |level| level != MemoryPressure::Normal);
    let report = &signals.report()[0];
    assert!(report.is_available, "{report:?}");
    assert!(report.source.contains("triggers"), "{report:?}");
    drop(process);
    wait_until(&received, |level| level == MemoryPressure::Normal);
}
