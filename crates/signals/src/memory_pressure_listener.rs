//! Notifications of memory pressure in a model process.

#[cfg(target_os = "macos")]
use crate::mac::PressureListener as Platform;

/// Listens to the notifications of the system that memory pressure has changed, until it is
/// dropped.
///
/// macOS notifies processes one at a time, the largest first. So a model process is notified before
/// the supervisor. It forwards the notification, and the supervisor reads the level
/// ([`crate::SignalSource::refresh`]). On Linux the kernel notifies all waiting processes at once
/// (`Documentation/accounting/psi.rst`), so this does nothing.
pub struct MemoryPressureListener {
    #[cfg(target_os = "macos")]
    #[expect(dead_code, reason = "its drop ends the notifications")]
    platform: Platform,
}

impl MemoryPressureListener {
    /// Calls `on_change` at each notification, on a thread of the system.
    #[cfg_attr(
        not(target_os = "macos"),
        expect(unused_variables, reason = "there are no notifications")
    )]
    pub fn start(on_change: impl Fn() + Send + 'static) -> Self {
        Self {
            #[cfg(target_os = "macos")]
            platform: Platform::start(move |_| on_change()),
        }
    }
}
