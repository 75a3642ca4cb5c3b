//! The bytes that the system has swapped out.
//!
//! Swap in use does not show thrashing: a machine that swaps pages out and in again all the time
//! can use the same amount of swap throughout.

use std::mem::MaybeUninit;
use std::sync::OnceLock;

use super::sysctl;

/// Returns the bytes that were swapped out since the start of the machine. The pages are counted as
/// they are written, after compression.
#[expect(unsafe_code, reason = "libc has no safe form of it")]
pub(super) fn swapped_out_bytes() -> Option<u64> {
    let mut statistics = MaybeUninit::<libc::vm_statistics64>::zeroed();
    let mut n_words = libc::HOST_VM_INFO64_COUNT;
    // SAFETY: the buffer has the structure that the flavor names, and the kernel writes at most
    // `n_words` words into it. All zeroes are a valid value of the fields that it does not write.
    let statistics = unsafe {
        let status = libc::host_statistics64(
            host(),
            libc::HOST_VM_INFO64,
            statistics.as_mut_ptr().cast::<libc::integer_t>(),
            &mut n_words,
        );
        if status != libc::KERN_SUCCESS {
            return None;
        }
        statistics.assume_init()
    };
    let page_bytes = sysctl::number("hw.pagesize")?;
    Some(statistics.swapouts.saturating_mul(page_bytes))
}

/// Returns the port of the machine. Each call of the system adds a reference to the port, so there
/// is only one.
#[expect(
    deprecated,
    unsafe_code,
    reason = "libc has no safe form of it, and recommends another crate"
)]
fn host() -> libc::host_t {
    static HOST: OnceLock<libc::host_t> = OnceLock::new();
    *HOST.get_or_init(|| {
        // SAFETY: the function takes nothing, and every process may call it.
        unsafe { libc::mach_host_self() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bytes_swapped_out_are_whole_pages_and_never_shrink() {
        let page_bytes = sysctl::number("hw.pagesize").unwrap();
        let before = swapped_out_bytes().unwrap();
        assert_eq!(before % page_bytes, 0);
        assert!(swapped_out_bytes().unwrap() >= before);
    }
}
