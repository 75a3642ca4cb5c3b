//! Prevents sleep while a person waits for a response or a download.

#[cfg(target_os = "linux")]
use crate::linux::keep_awake as platform;
#[cfg(target_os = "macos")]
use crate::mac::keep_awake as platform;

/// Prevents the machine from sleeping until it is dropped. The screen may turn off.
///
/// Uses an activity of `NSProcessInfo` on a Mac and an inhibitor lock of logind on Linux.
#[must_use = "the machine may sleep again when this is dropped"]
pub struct KeepAwake {
    #[expect(dead_code, reason = "its drop ends the lock")]
    lock: platform::Lock,
}

impl KeepAwake {
    /// Prevents sleep from now on; returns at once. The system shows `reason` to the user.
    pub fn begin(reason: &str) -> Self {
        Self {
            lock: platform::Lock::begin(reason),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// It can begin and end at any time, on any machine.
    #[test]
    fn it_never_blocks_nor_fails() {
        for _ in 0..3 {
            let awake = KeepAwake::begin("a test");
            drop(awake);
        }
    }
}
