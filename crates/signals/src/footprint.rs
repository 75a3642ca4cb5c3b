//! What a process costs the machine in memory.
//!
//! On a Mac the physical footprint, the figure that the system itself judges by (`phys_footprint`,
//! as Activity Monitor shows it). It counts what is dirty, compressed or swapped, not clean pages
//! of files; the counterpart on Linux is anonymous and shared memory plus swap.

/// Bytes that this process costs; `None` where the system does not tell.
pub fn own_footprint_bytes() -> Option<u64> {
    footprint_bytes(std::process::id())
}

/// Bytes that a process of the same user costs; `None` if it is gone or the system does not tell.
pub fn footprint_bytes(process: u32) -> Option<u64> {
    platform(process)
}

#[cfg(target_os = "linux")]
fn platform(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    bytes_of_status(&status)
}

#[cfg(target_os = "macos")]
use crate::mac::footprint_bytes as platform;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn platform(_: u32) -> Option<u64> {
    None
}

/// From the text of `/proc/PID/status`. A process that is being reaped has no figures.
#[cfg(target_os = "linux")]
fn bytes_of_status(status: &str) -> Option<u64> {
    let kibibytes = |name: &str| -> Option<u64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    };
    let resident = kibibytes("RssAnon:")? + kibibytes("RssShmem:")?;
    Some((resident + kibibytes("VmSwap:").unwrap_or(0)) * 1024)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// D008: dirty memory counts, clean pages of files do not.
    #[test]
    fn the_parts_that_cannot_be_dropped_are_counted() {
        let status = "Name:\tx\nVmRSS:\t  900 kB\nRssAnon:\t  100 kB\nRssFile:\t  700 kB\n\
                      RssShmem:\t   20 kB\nVmSwap:\t    3 kB\n";
        assert_eq!(bytes_of_status(status), Some(123 * 1024));
        assert_eq!(bytes_of_status("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}
