//! Signals that tests set, and real memory pressure.

#[cfg(target_os = "linux")]
mod cgroup;
mod scripted;

use std::io::Write;

#[cfg(target_os = "linux")]
pub use cgroup::{LimitedCgroup, MemoryPressureProcess};
pub use scripted::ScriptedSignals;

/// Records that the calling test is skipped, and the reason: on stdout, and in the list that `cargo
/// xtask test` shows at its end.
///
/// # Panics
/// Panics if the list cannot be written.
#[expect(clippy::print_stdout, reason = "the output of a single test")]
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    // libtest gives the thread of a test the name of the test.
    let line = format!("{}: {reason}", thread.name().unwrap_or("a test"));
    println!("skipped: {line}");
    if let Some(list) = std::env::var_os("TRANSOM_SKIPPED_TESTS") {
        let file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(list);
        let written = file.and_then(|mut file| writeln!(file, "{line}"));
        written.expect("the list of skipped tests can be written");
    }
}
