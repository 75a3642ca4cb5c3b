//! The quality of service of threads.

/// A quality-of-service class, as on Apple systems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadQos {
    /// A person waits for the result, as of inference.
    UserInitiated,
    /// Background work.
    Utility,
}

/// Sets the quality of service of the calling thread
/// (<https://developer.apple.com/library/archive/documentation/Performance/Conceptual/power_efficiency_guidelines_osx/PrioritizeWorkAtTheTaskLevel.html>).
/// Never fails.
#[cfg(target_os = "macos")]
#[expect(unsafe_code, reason = "libc has no safe form of it")]
pub fn set_thread_qos(qos: ThreadQos) {
    let class = match qos {
        ThreadQos::UserInitiated => libc::qos_class_t::QOS_CLASS_USER_INITIATED,
        ThreadQos::Utility => libc::qos_class_t::QOS_CLASS_UTILITY,
    };
    // SAFETY: the call changes only the calling thread, and both arguments have documented values.
    let status = unsafe { libc::pthread_set_qos_class_self_np(class, 0) };
    if status != 0 {
        tracing::debug!(
            status,
            "the quality of service of the thread was not changed"
        );
    }
}

/// Sets the quality of service of the calling thread: its nice value, which on Linux belongs to the
/// thread and not to the process. Never fails.
#[cfg(target_os = "linux")]
pub fn set_thread_qos(qos: ThreadQos) {
    use rustix::process::{getpriority_process, setpriority_process};

    /// Added to the current nice value, because the whole process may have one already.
    const STEP: i32 = 5;
    const MOST: i32 = 19;
    match qos {
        // Unchanged, because raising the priority needs privileges.
        ThreadQos::UserInitiated => {}
        ThreadQos::Utility => {
            let thread = Some(rustix::thread::gettid());
            let lowered = getpriority_process(thread)
                .and_then(|before| setpriority_process(thread, (before + STEP).min(MOST)));
            if let Err(error) = lowered {
                tracing::debug!(%error, "the thread keeps its priority");
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use rustix::process::getpriority_process;

    use super::*;

    #[test]
    fn only_the_priority_of_the_calling_thread_changes() {
        let niceness = || getpriority_process(Some(rustix::thread::gettid())).unwrap();
        let before = niceness();
        let (unchanged, lowered) = std::thread::spawn(move || {
            set_thread_qos(ThreadQos::UserInitiated);
            let unchanged = niceness();
            set_thread_qos(ThreadQos::Utility);
            (unchanged, niceness())
        })
        .join()
        .unwrap();
        assert_eq!((unchanged, niceness()), (before, before));
        assert!(lowered > before || before == 19, "{lowered}");
    }
}
