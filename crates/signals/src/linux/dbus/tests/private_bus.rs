//! A private D-Bus daemon for a test.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::test_support::skipped;

/// Stops the daemon when it is dropped.
pub(crate) struct PrivateBus {
    process: Child,
    address: String,
    /// The folder of the socket.
    _folder: tempfile::TempDir,
}

impl PrivateBus {
    /// Starts a daemon, or records that the calling test is skipped because it is not installed.
    pub(crate) fn start_or_skip() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("unix:path={}", folder.path().join("bus").display());
        let spawned = Command::new("dbus-daemon")
            .args(["--session", "--nofork", "--nopidfile", "--print-address"])
            .arg(format!("--address={address}"))
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut process) = spawned else {
            skipped("dbus-daemon is not installed");
            return None;
        };
        // It prints its address once it listens.
        let output = process.stdout.take().unwrap();
        BufReader::new(output)
            .read_line(&mut String::new())
            .unwrap();
        Some(Self {
            process,
            address,
            _folder: folder,
        })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for PrivateBus {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}
