//! The memory footprint of a process.
//!
//! On a Mac this is the physical footprint, which the system itself uses (`phys_footprint`, as in
//! Activity Monitor). It counts dirty, compressed and swapped memory, but not clean pages of files.
//! The counterpart on Linux is anonymous and shared memory plus swap.

/// Returns the footprint of this process in bytes; `None` if the system does not report it.
pub fn own_footprint_bytes() -> Option<u64> {
    footprint_bytes(std::process::id())
}

/// Returns the footprint of a process of the same user in bytes; `None` if the process is gone or
/// the system does not report it.
#[cfg(target_os = "linux")]
pub fn footprint_bytes(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    bytes_of_status(&status)
}

#[cfg(target_os = "macos")]
pub use crate::mac::footprint_bytes;

/// Parses the text of `/proc/PID/status`. A zombie has no values.
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

    /// Dirty memory counts, clean pages of files do not.
    #[test]
    fn dirty_memory_is_counted_and_clean_file_pages_are_not() {
        let status = "Name:\tx\nVmRSS:\t  900 kB\nRssAnon:\t  100 kB\nRssFile:\t  700 kB\n\
                      RssShmem:\t   20 kB\nVmSwap:\t    3 kB\n";
        assert_eq!(bytes_of_status(status), Some(123 * 1024));
        assert_eq!(bytes_of_status("Name:\tx\nState:\tZ (zombie)\n"), None);
    }
}
