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
    use rustix::process::{getpriority_process, setpriority_process};

    /// More than the thread has by now, for the whole process may be nice already.
    const STEP: i32 = 5;
    /// As nice as can be.
    const MOST: i32 = 19;
    match urgency {
        // As it is: raising it takes rights that a program does not have.
        Urgency::UserInitiated => {}
        Urgency::Utility => {
            let thread = Some(rustix::thread::gettid());
            let lowered = getpriority_process(thread)
                .and_then(|before| setpriority_process(thread, (before + STEP).min(MOST)));
            if let Err(error) = lowered {
                tracing::debug!(%error, "the thread keeps its priority");
            }
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
fn platform(_: Urgency) {}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn only_the_thread_that_says_so_steps_back() {
        let niceness = || getpriority_process(Some(rustix::thread::gettid())).unwrap();
        let before = niceness();
        let (as_is, stepped_back) = std::thread::spawn(move || {
            set_thread_urgency(Urgency::UserInitiated);
            let as_is = niceness();
            set_thread_urgency(Urgency::Utility);
            (as_is, niceness())
        })
        .join()
        .unwrap();
        assert_eq!((as_is, niceness()), (before, before));
        assert!(stepped_back > before || before == 19, "{stepped_back}");
    }
}
