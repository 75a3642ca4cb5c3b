//! The context length, on which the memory need depends, and the memory of this process.

use transom_catalog::ModelFacts;
use transom_catalog::fit::llama::longest_text;
use transom_engine::Limits;

pub(crate) fn context_length(facts: &ModelFacts, limits: &Limits) -> usize {
    let own = facts.context_length.and_then(|n| usize::try_from(n).ok());
    let own = own.filter(|&n| n > 0).unwrap_or(usize::MAX);
    let longest = usize::try_from(longest_text(facts)).unwrap_or(usize::MAX);
    own.min(longest).min(limits.context_length).max(1)
}

/// Returns the peak memory of this process so far in bytes, including mapped weights. `getrusage`
/// would include the process that started this one (`man 5 proc`, `VmHWM`).
#[cfg(target_os = "linux")]
pub(crate) fn peak_process_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let peak = lines.find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix(" kB"));
    peak.and_then(|peak| peak.trim().parse().ok())
        .map_or(0, |kilobytes: u64| kilobytes * 1024)
}

/// Returns the peak memory of this process so far in bytes, including mapped weights.
#[cfg(not(target_os = "linux"))]
#[expect(unsafe_code, reason = "getrusage has no safe form in libc")]
pub(crate) fn peak_process_bytes() -> u64 {
    // SAFETY: getrusage fills in the structure that it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        if libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) != 0 {
            return 0;
        }
        usage
    };
    // Bytes on macOS.
    u64::try_from(usage.ru_maxrss).unwrap_or(0)
}

/// Blocks of at least this size get their own mapping, which disappears when they are freed.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK: i32 = 4 << 20;

/// After glibc has seen large blocks freed, it allocates ever larger blocks from its heap and keeps
/// them. llama.cpp rarely frees its buffers, and then the system should get them back (`man
/// mallopt`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "mallopt has no safe form in libc")]
pub(crate) fn return_large_blocks() {
    // SAFETY: mallopt takes two numbers and may be called at any time.
    let is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK) };
    if is_set == 0 {
        tracing::warn!("the allocator keeps large blocks");
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn return_large_blocks() {}
