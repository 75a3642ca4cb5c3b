//! The heap of the C library, which both engines fill with large blocks.

/// Returns free memory to the system. After some large blocks were freed, glibc allocates large blocks
/// from its heap, too, and returns them only on request (`man malloc_trim`).
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "malloc_trim has no safe form in libc")]
pub fn trim_heap() {
    // SAFETY: the call takes a number and is allowed at any time from any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Does nothing: this system's heap returns free memory by itself.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn trim_heap() {}

/// Calls a function when it is dropped: as the last field of a model, after all others are freed.
#[derive(Debug)]
pub struct OnDrop(pub fn());

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}
