//! Notices of memory pressure to a process other than the supervisor's.

#[cfg(target_os = "macos")]
use crate::mac::Notices as Platform;

/// The system's notices to this process that memory pressure changed. Dropping it ends them.
///
/// macOS tells processes one at a time, the largest first, so the process of a model hears of
/// pressure before the supervisor's; it passes the notice on, and the supervisor reads the level
/// ([`crate::SignalSource::look_again`]). On Linux the kernel tells whoever waits at once
/// (`Documentation/accounting/psi.rst`), and there is nothing to pass on.
pub struct MemoryNotices {
    #[cfg(target_os = "macos")]
    #[expect(dead_code, reason = "its drop ends the notices")]
    platform: Platform,
}

impl MemoryNotices {
    /// Calls `on_notice` at each, on a thread of the system's.
    #[cfg_attr(
        not(target_os = "macos"),
        expect(unused_variables, reason = "no notice comes")
    )]
    pub fn listen(on_notice: impl Fn() + Send + 'static) -> Self {
        Self {
            #[cfg(target_os = "macos")]
            platform: Platform::listen(move |_| on_notice()),
        }
    }
}
