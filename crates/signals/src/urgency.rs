//! How urgent a thread's work is.

/// Classes of work, in the words of Apple's quality-of-service classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Somebody waits for the result: inference.
    UserInitiated,
    /// Nobody waits for it: prefetching, reading ahead.
    Utility,
}

/// Tells the system how urgent the calling thread's work is. Never fails: a system that does not
/// listen runs it as any other.
pub fn set_thread_urgency(urgency: Urgency) {
    platform(urgency);
}

#[cfg(target_os = "macos")]
use crate::mac::set_thread_urgency as platform;

/// A thread of its own niceness: on Linux that is an attribute of the thread, not the process.
#[cfg(target_os = "linux")]
fn platform(urgency: Urgency) {
    const UTILITY: i32 = 5;
    match urgency {
        // As it is: raising it takes rights that a program does not have.
        Urgency::UserInitiated => {}
        Urgency::Utility => {
            let thread = rustix::thread::gettid();
            if let Err(error) = rustix::process::setpriority_process(Some(thread), UTILITY) {
                tracing::debug!(%error, "the thread keeps its priority");
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn platform(_: Urgency) {}
